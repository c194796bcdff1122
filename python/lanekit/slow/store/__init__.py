"""The store: one SQLite file of all events, the thread that writes it, and the ways to read it."""
