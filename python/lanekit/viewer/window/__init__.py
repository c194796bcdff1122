"""The main window: all runs, what they show, and what can be done with them."""
