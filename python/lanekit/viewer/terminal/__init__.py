"""A run in a terminal: pictures as coloured cells, or plain lines where there is no terminal."""
