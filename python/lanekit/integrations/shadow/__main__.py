"""The process that draws: started by a training process, ended with it."""

from __future__ import annotations

import os
import pickle
import sys

_NICE = 5


def main() -> int:
    """Read the orders and carry them out."""
    os.nice(_NICE)  # training goes first, also while this process imports what it needs
    # Whatever libraries print goes to the last words; standard output is for one byte: ready.
    announce = os.dup(1)
    os.dup2(2, 1)
    orders = sys.stdin.buffer
    for path in pickle.load(orders):
        if path not in sys.path:
            sys.path.append(path)
    request = pickle.load(orders)
    from lanekit.integrations.shadow.renderer import Renderer

    renderer = Renderer(**request)

    def ready() -> None:
        os.write(announce, b"r")
        os.close(announce)

    return renderer.run(ready)


if __name__ == "__main__":
    sys.exit(main())
