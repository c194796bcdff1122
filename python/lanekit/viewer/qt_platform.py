"""Whether Qt can open a window here, found out before Qt is asked, which would end the process.

Needs neither Qt nor lanekit: ``tools/system_packages.sh`` runs this file to learn what to install.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

# Library -> the Debian and Ubuntu package that has it.
COMMON_LIBRARIES = {
    "libglib-2.0.so.0": "libglib2.0-0",
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libzstd.so.1": "libzstd1",
    "libbrotlidec.so.1": "libbrotli1",
}
PLATFORM_LIBRARIES = {
    "xcb": {
        "libX11-xcb.so.1": "libx11-xcb1",
        "libxcb.so.1": "libxcb1",
        "libxcb-cursor.so.0": "libxcb-cursor0",
        "libxcb-icccm.so.4": "libxcb-icccm4",
        "libxcb-image.so.0": "libxcb-image0",
        "libxcb-keysyms.so.1": "libxcb-keysyms1",
        "libxcb-randr.so.0": "libxcb-randr0",
        "libxcb-render.so.0": "libxcb-render0",
        "libxcb-render-util.so.0": "libxcb-render-util0",
        "libxcb-shape.so.0": "libxcb-shape0",
        "libxcb-shm.so.0": "libxcb-shm0",
        "libxcb-sync.so.1": "libxcb-sync1",
        "libxcb-util.so.1": "libxcb-util1",
        "libxcb-xfixes.so.0": "libxcb-xfixes0",
        "libxcb-xkb.so.1": "libxcb-xkb1",
        "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    },
    "wayland": {
        "libwayland-client.so.0": "libwayland-client0",
        "libwayland-cursor.so.0": "libwayland-cursor0",
    },
}


class Obstacle(NamedTuple):
    """What stands between Qt and a window, and the command that helps, if there is one."""

    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.found} ({self.remedy})" if self.remedy else self.found


def loadable(library: str) -> bool:
    """Whether the loader finds a library and everything that it needs."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def missing_packages(platform: str, can_load: Callable[[str], bool] = loadable) -> list[str]:
    """Return the Debian packages that a Qt platform needs and this machine lacks."""
    needed = {**COMMON_LIBRARIES, **PLATFORM_LIBRARIES.get(platform, {})}
    return sorted({package for library, package in needed.items() if not can_load(library)})


def obstacle_to_windows(
    environment: Mapping[str, str], can_load: Callable[[str], bool] = loadable
) -> Obstacle | None:
    """Return why no window can be opened; None if one can."""
    platforms = candidates(environment)
    if not platforms:  # first: nobody should install what can not help
        return Obstacle("there is no screen: neither DISPLAY nor WAYLAND_DISPLAY is set")
    if importlib.util.find_spec("PyQt6") is None:
        return Obstacle("PyQt6 is not installed", "pip install 'lanekit[viewer]'")
    found = [_obstacle_on(platform, environment, can_load) for platform in platforms]
    return None if None in found else found[0]


def candidates(environment: Mapping[str, str]) -> list[str]:
    """Return the Qt platforms that may be used, as Qt would try them."""
    if chosen := environment.get("QT_QPA_PLATFORM"):
        return [part.partition(":")[0] for part in chosen.split(";")]
    found = []
    if environment.get("WAYLAND_DISPLAY"):
        found.append("wayland")
    if environment.get("DISPLAY"):
        found.append("xcb")
    return found


def _obstacle_on(
    platform: str, environment: Mapping[str, str], can_load: Callable[[str], bool]
) -> Obstacle | None:
    if packages := missing_packages(platform, can_load):
        remedy = f"sudo apt-get install {' '.join(packages)}"
        return Obstacle("Qt lacks libraries of the system", remedy)
    if problem := _plugin_problem(platform):
        return Obstacle(f"Qt's plugin {platform!r} can not be loaded: {problem}")
    if platform == "xcb" and not _x_server_answers():
        display = environment.get("DISPLAY", "")
        return Obstacle(f"the X server at DISPLAY={display} does not answer")
    if platform.startswith("wayland") and not _wayland_answers(environment):
        display = environment.get("WAYLAND_DISPLAY", "")
        return Obstacle(f"no Wayland compositor answers at WAYLAND_DISPLAY={display}")
    return None


def _plugin_problem(platform: str) -> str:
    """Load the plugin as Qt would; a library that no table knows is told by the loader."""
    spec = importlib.util.find_spec("PyQt6")
    for place in (spec.submodule_search_locations if spec else None) or ():
        folder = Path(place) / "Qt6" / "plugins" / "platforms"
        if not folder.is_dir():
            continue  # a distribution's PyQt6 has its plugins elsewhere, and its packages in order
        plugin = folder / f"libq{platform}.so"
        if not plugin.exists():
            known = ", ".join(sorted(path.stem[4:] for path in folder.glob("libq*.so")))
            return f"there is none; QT_QPA_PLATFORM may be one of {known}"
        try:
            ctypes.CDLL(str(plugin))
        except OSError as error:
            return str(error)
    return ""


def _x_server_answers() -> bool:
    """Connect as Qt would, with the rights that Qt would have."""
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connect.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    xcb.xcb_connection_has_error.argtypes = [ctypes.c_void_p]
    xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(None, None)
    answers = bool(xcb.xcb_connection_has_error(connection) == 0)
    xcb.xcb_disconnect(connection)
    return answers


def _wayland_answers(environment: Mapping[str, str]) -> bool:
    name = environment.get("WAYLAND_DISPLAY", "wayland-0")
    path = os.path.join(environment.get("XDG_RUNTIME_DIR", ""), name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        return client.connect_ex(path) == 0


def main(platforms: Iterable[str]) -> None:
    """Print the packages that the given platforms lack here."""
    print(" ".join(sorted({name for each in platforms for name in missing_packages(each)})))


if __name__ == "__main__":
    main(sys.argv[1:] or ["offscreen"])
