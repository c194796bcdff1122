"""What a run reports beside its steps, fetched in threads: its events, and its workers' stderr."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from PyQt6.QtCore import QObject, pyqtSignal

from lanekit import errors
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.records import decode_object

Tone = Literal["plain", "quiet", "good", "waiting", "bad", "accent"]

LAST_EVENTS = 2000
"""How far back a run's events are shown."""
LAST_BYTES = 32768
"""How much of a stderr that is already there is shown."""
LONGEST_LINE = 500
RETRY_SECONDS = 1.0
LOOK_SECONDS = 0.4
FIRST_EVENTS_SECONDS = 3.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TONES: dict[str, Tone] = {
    "run_failed": "bad",
    "run_completed": "accent",
    "run_started": "good",
    "control_applied": "waiting",
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log, and how it is shown."""

    text: str
    tone: Tone = "plain"


class LogFeed(QObject):
    """Follows one run until it is left. Lives in the window's thread, works in two others."""

    lines_ready = pyqtSignal(list)

    def __init__(
        self,
        run_id: str,
        connect: Callable[[], DaemonClient] | None,
        error_logs: Iterable[str],
        parent: QObject | None = None,
    ) -> None:
        """Without `connect` only the files are followed."""
        super().__init__(parent)
        self.run_id = run_id
        self._connect = connect
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._client: DaemonClient | None = None
        self._cursor: int | None = None
        self._began = threading.Event()
        self._paths = tuple(error_logs)
        works = [self._follow_files] + ([self._follow_events] if connect is not None else [])
        self._threads = [
            threading.Thread(target=work, name="run-log", daemon=True) for work in works
        ]

    def start(self) -> None:
        """Begin to follow."""
        for thread in self._threads:
            thread.start()

    def set_error_logs(self, paths: Iterable[str]) -> None:
        """Follow these files."""
        self._paths = tuple(paths)

    def leave(self) -> None:
        """Follow no more. Does not wait for the threads: :meth:`join` does."""
        self._stopped.set()
        self._began.set()
        with self._lock:
            if self._client is not None:
                self._client.close()

    def join(self) -> None:
        """Wait until the threads have ended."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    @property
    def on_daemon(self) -> bool:
        """Whether it asks a daemon, too."""
        return self._connect is not None

    @property
    def over(self) -> bool:
        """Whether its threads have ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def _tell(self, lines: list[LogLine]) -> None:
        if lines and not self._stopped.is_set():
            self.lines_ready.emit(lines)

    def _follow_events(self) -> None:
        complained = ""
        while not self._stopped.is_set():
            try:
                self._follow_one_daemon()
            except (errors.LanekitError, ValueError) as error:
                # ValueError: gRPC's word for a channel that leave() closed meanwhile.
                if str(error) != complained:
                    complained = str(error)
                    self._tell([LogLine(complained, "bad")])
            self._stopped.wait(RETRY_SECONDS)

    def _follow_one_daemon(self) -> None:
        """Tell one page of events after the other, until the stream ends."""
        assert self._connect is not None
        client = self._connect()
        try:
            with self._lock:
                self._client = client
                if self._stopped.is_set():
                    return
            if self._cursor is None:
                self._cursor = max(0, client.run(self.run_id).events - LAST_EVENTS)
            for page in client.stream_events(self.run_id, cursor=self._cursor):
                self._tell([event_line(each) for each in page.events if each.name != "heartbeat"])
                self._cursor = page.next_cursor
                self._began.set()
        finally:
            with self._lock:
                self._client = None
            client.close()

    def _follow_files(self) -> None:
        places: dict[str, int] = {}
        if self._connect is not None:
            # After the events, if there are some: what stderr says about an end comes last.
            self._began.wait(FIRST_EVENTS_SECONDS)
        while not self._stopped.is_set():
            for path in self._paths:
                self._tell(new_lines(path, places))
            self._stopped.wait(LOOK_SECONDS)


def new_lines(path: str, places: dict[str, int]) -> list[LogLine]:
    """Return the whole lines that a file has got since the last call, which `places` remembers."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            begins = path not in places
            place = places.get(path, max(0, size - LAST_BYTES))
            if place > size:
                place = 0  # written anew
            file.seek(place)
            content = file.read(4 * LAST_BYTES)
    except OSError:
        return []
    end = content.rfind(b"\n") + 1
    if end == 0 and len(content) < LONGEST_LINE:
        return []  # a line that is still being written
    content = content[:end] if end else content
    places[path] = place + len(content)
    # Of a line that was written over and over, a progress bar's, only the last state counts.
    texts = [
        line.rstrip().rpartition("\r")[2] for line in content.decode("utf-8", "replace").split("\n")
    ]
    heading = [LogLine(f"stderr, {path}:", "quiet")] if begins else []
    return heading + [LogLine(f"  {readable(text)}") for text in texts if text]


def event_line(event: pb.RunEvent) -> LogLine:
    """Return an event as a line: when, what, and what it says."""
    payload = decode_object(event.payload_json)
    seconds = event.wall_time_ns / 1e9
    clock = time.strftime("%H:%M:%S", time.localtime(seconds))
    tone = _TONES.get(event.name, "plain")
    if event.name == "worker_exited":
        tone = "quiet" if payload.get("status") == 0 else "bad"
    return LogLine(readable(f"{clock}  {event.name}  {_said(payload)}".rstrip()), tone)


def _said(payload: Mapping[str, object]) -> str:
    return "  ".join(f"{name}={value}" for name, value in payload.items() if value is not None)


def readable(text: str) -> str:
    """Return a text as one line of bounded length, without characters that only disturb."""
    text = _ESCAPES.sub("", text[: 2 * LONGEST_LINE])  # colours of a terminal
    clean = "".join(char if char.isprintable() else " " for char in text)
    return clean if len(clean) <= LONGEST_LINE else f"{clean[:LONGEST_LINE]}…"
