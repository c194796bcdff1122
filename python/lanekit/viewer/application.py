"""The Qt application that every window of lanekit lives in."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Any

from PyQt6.QtCore import QSocketNotifier, QTimer
from PyQt6.QtGui import QGuiApplication, QOffscreenSurface, QOpenGLContext, QPalette
from PyQt6.QtOpenGL import QOpenGLVersionFunctionsFactory, QOpenGLVersionProfile
from PyQt6.QtQuick import QQuickWindow
from PyQt6.QtWidgets import QApplication

from lanekit.viewer.appearance import appearance

_GL_RENDERER = 0x1F01
_PROCESSOR_PLAYS_CARD = ("llvmpipe", "softpipe", "SwiftShader")


def make_application() -> QApplication:
    """Begin Qt: called once, after `obstacle_to_windows` found none."""
    application = QApplication(["lanekit"])
    application.setApplicationName("lanekit")
    application.setApplicationDisplayName("lanekit")
    if not _has_graphics_card():
        QQuickWindow.setSceneGraphBackend("software")
    background = QGuiApplication.palette().color(QPalette.ColorRole.Window)
    appearance().set_dark(background.lightness() < 128)
    return application


@contextlib.contextmanager
def quitting_on_signals(application: QApplication) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the event loop, which Python's handlers can not interrupt."""
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    previous_fd = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    numbers = (signal.SIGINT, signal.SIGTERM)

    def quit_soon(*_: object) -> None:
        # Python calls this anywhere, also while Qt paints with its help: not now, but next.
        QTimer.singleShot(0, application.quit)

    previous = [signal.signal(number, quit_soon) for number in numbers]
    descriptor: Any = ours.fileno()  # a number, which the type information does not allow
    notifier = QSocketNotifier(descriptor, QSocketNotifier.Type.Read)
    notifier.activated.connect(lambda: ours.recv(64))  # gives Python a turn to run its handlers
    try:
        yield
    finally:
        notifier.setEnabled(False)
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        ours.close()
        pythons.close()


def _has_graphics_card() -> bool:
    """Whether a card draws: without one a scene fails, or the processor plays the card, slowly."""
    if QGuiApplication.platformName() in ("offscreen", "minimal", "vnc"):
        return False
    context, surface = QOpenGLContext(), QOffscreenSurface()
    surface.create()
    if not context.create() or not context.makeCurrent(surface):
        return False
    profile = QOpenGLVersionProfile()
    profile.setVersion(2, 0)
    functions: Any = QOpenGLVersionFunctionsFactory.get(profile, context)
    # A context without these functions is one of OpenGL ES, which comes with cards of its own.
    renderer = "" if functions is None else str(functions.glGetString(_GL_RENDERER))
    context.doneCurrent()
    return not any(name in renderer for name in _PROCESSOR_PLAYS_CARD)
