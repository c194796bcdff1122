"""How a training run is shown: when to draw, who draws, and the lanes that carry it.

The wrappers beside this package only tell a ``Publisher`` what happened; all else is decided here.
"""
