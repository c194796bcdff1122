"""The browser's page, served by the daemon's own process: runs, live pictures, curves, replay.

``server`` opens the port, ``access`` decides who may use it, ``app`` says what is where. What a
page shows comes from the store by cursor, as for every other viewer; ``paced_socket`` sees to it
that a slow browser is merely further behind. ``page/`` is the page itself: plain files, no build
step.
"""
