"""A pseudo-terminal to run commands on, and a screen that shows what they write to it."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import tempfile
import termios
from collections.abc import Callable
from types import TracebackType

import pytest

from patience import Watchdog

Cell = tuple[str, str, str]


class Screen:
    """Understands as much of a terminal's language as the viewer speaks, and no more."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.modes: dict[str, bool] = {}
        self.clear()
        self._row = self._column = 0
        self._foreground = self._background = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def clear(self) -> None:
        self.cells: list[list[Cell]] = [[(" ", "", "")] * self.columns for _ in range(self.rows)]

    @property
    def text(self) -> str:
        return "\n".join("".join(cell[0] for cell in row) for row in self.cells)

    @property
    def picture(self) -> list[Cell]:
        return [cell for row in self.cells for cell in row if cell[0] == "▀"]

    def column(self, number: int) -> str:
        return "".join(row[number][0] for row in self.cells)

    def feed(self, data: bytes) -> None:
        text = self._rest + self._decode.decode(data)
        # Ctrl-C makes the kernel drop what was not read yet. A command cut short by that ends, on
        # any terminal, where the next one begins.
        token = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|[^\x1b]|\x1b(\[\??[0-9;]*)?(?=\x1b)")
        position = 0
        while match := token.match(text, position):
            position = match.end()
            if match[3]:
                self._command(match[1] + match[3], match[2])
            elif match[0][0] != "\x1b":
                self._put(match[0])
        self._rest = text[position:]
        assert len(self._rest) < 64, f"not a command of any terminal: {self._rest!r}"

    def _command(self, name: str, argument: str) -> None:
        if name == "H":
            self._row, self._column = (int(n) - 1 for n in argument.split(";"))
        elif name == "K":
            self.cells[self._row][self._column :] = [(" ", "", "")] * (self.columns - self._column)
        elif name == "J":
            self.clear()
        elif name in ("?h", "?l"):
            self.modes[argument] = name == "?h"
        elif name == "m":
            if argument.startswith("38;"):
                self._foreground = argument[3:]
            elif argument.startswith("48;"):
                self._background = argument[3:]
            elif argument == "0":
                self._foreground = self._background = ""
        else:
            raise AssertionError(f"unexpected command {name}")

    def _put(self, character: str) -> None:
        if character in "\r\n":
            self._row, self._column = min(self._row + 1, self.rows - 1), 0
        elif self._column < self.columns and self._row < self.rows:
            self.cells[self._row][self._column] = (character, self._foreground, self._background)
            self._column += 1


class Terminal:
    """A command on a pseudo-terminal of its own, as a user would have started it."""

    def __init__(
        self, *command: str, columns: int = 80, rows: int = 24, **environment: str
    ) -> None:
        self.screen = Screen(columns, rows)
        self.output = b""
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._ours, self._theirs = pty.openpty()
        self.resize(columns, rows)
        self.attributes_before = termios.tcgetattr(self._theirs)
        settings = {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
        inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM")}
        # The shell leads a new session: the first terminal that it opens becomes the one whose
        # Ctrl-C reaches the command.
        self.process = subprocess.Popen(
            [
                "sh",
                "-c",
                'tty=$1; shift; exec "$@" <"$tty" >"$tty"',
                "sh",
                os.ttyname(self._theirs),
                *command,
            ],
            env={**inherited, **settings, "PYTHONUTF8": "1"},
            stderr=self._complaints,
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._complaints.close()
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def attributes(self) -> list[object]:
        return list(termios.tcgetattr(self._theirs))

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.columns, self.screen.rows = columns, rows
        self.screen.clear()

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        data = os.read(self._ours, 65536)
        self.output += data
        self.screen.feed(data)
        return True

    def read_until(self, condition: Callable[[], bool], what: str) -> None:
        watchdog = Watchdog(what)
        try:
            while not condition():
                over = self.process.poll() is not None
                assert self.read(0.05) or not over or condition(), "the process has ended"
                watchdog.check()
        except AssertionError as error:
            pytest.fail(f"never saw {what}: {error}\n{self.screen.text}\n{self.complaints()}")

    def read_until_text(self, text: str) -> None:
        self.read_until(lambda: text in self.screen.text, repr(text))

    def read_until_picture(self, cells: set[Cell]) -> None:
        self.read_until(lambda: set(self.screen.picture) == cells, str(cells))

    def read_until_picture_differs(self, picture: list[Cell]) -> None:
        self.read_until(lambda: self.screen.picture != picture, "another picture")

    def finish(self) -> str:
        """Read to the end and return what the command complained about."""
        self.read_until(lambda: self.process.poll() is not None, "the end of the command")
        while self.read(0):
            pass
        return self.complaints()

    def complaints(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read()

    def assert_restored(self) -> None:
        assert self.attributes == self.attributes_before
        assert self.screen.modes["1049"] is False
        assert self.screen.modes["25"] is True
        assert self.screen.modes["7"] is True
