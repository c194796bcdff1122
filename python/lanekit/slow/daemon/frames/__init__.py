"""A machine's fast lanes, read for people who sit elsewhere.

``tap`` hands out watches; ``capture`` is the one thread that reads a watched lane; ``encoding``
makes pictures of pixels; ``lanes`` says what there is to watch.
"""
