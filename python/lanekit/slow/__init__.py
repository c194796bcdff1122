"""The slow lane: every event kept exactly once, and a live view that never holds it back."""
