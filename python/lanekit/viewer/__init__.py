"""Programs that show a run: in a terminal, and in a window."""
