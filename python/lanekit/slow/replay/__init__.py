"""Recorded runs, shown again on the fast lane."""
