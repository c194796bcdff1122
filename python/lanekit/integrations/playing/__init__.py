"""Gymnasium environments as a person who wants to play meets them."""
