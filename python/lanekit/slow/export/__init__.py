"""A run for other tools: one module per format, each with ``write(source, directory)``."""
