"""Draw the viewer's pictures in the documentation: ``tools/screenshots.py DIRECTORY [NAME ...]``.

Each module in ``tools/screenshot_scenes`` has ``SCENES``: names, and functions that bring a window
into a state with a real environment's frames and return what it shows.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path

# Before Qt begins: no screen, and the renderer whose pixels are the same everywhere.
os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["QT_QUICK_BACKEND"] = "software"
sys.path.insert(0, str(Path(__file__).parent))

from PyQt6.QtGui import QPixmap
from PyQt6.QtWidgets import QApplication

import screenshot_scenes

Scene = Callable[[], QPixmap]


def scenes() -> dict[str, Scene]:
    """Return every module's scenes."""
    found: dict[str, Scene] = {}
    for module in pkgutil.iter_modules(screenshot_scenes.__path__):
        found |= getattr(importlib.import_module(f"screenshot_scenes.{module.name}"), "SCENES", {})
    return found


def main() -> None:
    """Draw all pictures, or those that are named."""
    directory, *names = sys.argv[1:] or ["docs/images"]
    application = QApplication(["lanekit"])
    known = scenes()
    if unknown := set(names) - set(known):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    Path(directory).mkdir(parents=True, exist_ok=True)
    for name in names or known:
        path = Path(directory) / f"{name}.png"
        if not known[name]().save(str(path)):
            sys.exit(f"{path} can not be written")
        print(path)
    application.processEvents()


if __name__ == "__main__":
    main()
