"""Recorded episodes, looked at again."""
