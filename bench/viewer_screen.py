"""Viewers on the same virtual screen, seen from outside: lanekit's, a naive one, and Rerun's.

usage: python -m bench.viewer_screen send RUN WIDTH HEIGHT
       python -m bench.viewer_screen show tab|label RUN

Frames carry the time at which they were made; it is read off the X server's picture, so that only
what a person would see counts, whoever drew it and however.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.stamped_frames import StampedFrames, StampReader, age_ms, at_60_hz

_ROOT = Path(__file__).resolve().parent.parent
SIZE = 960, 540
SCREEN = 2048, 1152
"""So large that the mouse, which is in its middle, is not over the window: Rerun would explain the
pixel below it."""
LOOK = 0.002
PATIENCE = 60.0
_INSTALL_PATIENCE = 900.0
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
KINDS = ("tab", "label", "rerun")


class Effort(Protocol):
    """How much is measured."""

    @property
    def seconds(self) -> float:
        """How long one round watches."""

    @property
    def rounds(self) -> int:
        """How often."""

    @property
    def rerun(self) -> bool:
        """Whether Rerun is installed and measured, too."""


class Unavailable(Exception):
    """Something can not be measured here; says why."""


def screen(effort: Effort, width: int, height: int) -> dict[str, Any]:
    """Show one run's frames on a virtual screen, with each viewer in turns."""
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    failed: dict[str, str] = {}
    if not effort.rerun:
        failed["rerun"] = "left out"
    rerun = _rerun_python() if effort.rerun and shutil.which("Xvfb") else ""
    for _ in range(effort.rounds):
        for kind in KINDS:
            if kind in failed:
                continue
            try:
                with _virtual_screen() as (display, pixels, server):
                    seen = _watch(kind, effort.seconds, (width, height), display, pixels, rerun)
                    seen["server_cpu_share"] = _cpu(server.pid) / seen.pop("wall_so_far")
                    found[kind].append(seen)
            except Unavailable as reason:
                failed[kind] = str(reason)
    results: dict[str, Any] = {"width": width, "height": height}
    for kind in KINDS:
        if kind in failed:
            results[kind] = {"failed": failed[kind]}
        else:
            rounds = found[kind]
            medians = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
            results[kind] = {**medians, "rounds": rounds}
    return results


@contextlib.contextmanager
def _virtual_screen() -> Iterator[tuple[str, NDArray[np.uint32], subprocess.Popen[bytes]]]:
    """Start an X server whose picture is a file, and map that."""
    if shutil.which("Xvfb") is None:
        raise Unavailable("no Xvfb here (Debian: apt-get install xvfb)")
    ours, servers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="lk-") as directory:
        command = ["Xvfb", "-displayfd", str(servers), "-fbdir", directory, "-nolisten", "tcp"]
        # Rerun asks for a transparent window, which stays black where nobody composes it.
        command += ["-screen", "0", f"{SCREEN[0]}x{SCREEN[1]}x24", "-extension", "Composite"]
        server = subprocess.Popen(command, pass_fds=[servers], stderr=subprocess.DEVNULL)
        os.close(servers)
        try:
            with os.fdopen(ours) as number:
                display = number.readline().strip()  # said when it is ready
            if not display:
                raise Unavailable("Xvfb did not start")
            with open(Path(directory) / "Xvfb_screen0", "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            yield f":{display}", _pixels(mapped), server
        finally:
            server.terminate()
            server.wait()


def _pixels(mapped: mmap.mmap) -> NDArray[np.uint32]:
    """Return the pixels in a file of the format XWD, which begins with big-endian words."""
    words = struct.unpack(">25I", mapped[:100])
    header_size, width, height, line, colours = (words[i] for i in (0, 4, 5, 12, 19))
    whole = np.frombuffer(mapped, np.uint32, height * line // 4, header_size + 12 * colours)
    return whole.reshape(height, line // 4)[:, :width]


def _watch(
    kind: str,
    seconds: float,
    size: tuple[int, int],
    display: str,
    pixels: NDArray[np.uint32],
    rerun: str,
) -> dict[str, float]:
    begun = time.monotonic()
    run_id = f"bench-{uuid.uuid4()}"
    with contextlib.ExitStack() as running:
        said = running.enter_context(tempfile.TemporaryFile())
        home = running.enter_context(tempfile.TemporaryDirectory(prefix="lk-"))
        if kind == "rerun":
            port = _free_port()
            viewer = _start(_rerun_command(rerun, port), said, display, home)
            running.callback(_end, viewer)
            sender = [rerun, "-m", "bench.peers.rerun", f"rerun+http://127.0.0.1:{port}/proxy"]
            source = running.enter_context(_sending(sender, size))
        else:
            source = running.enter_context(_sending([*_here("send"), run_id], size))
            viewer = _start(_here("show", kind, run_id), said, display, home)
            running.callback(_end, viewer)
        reader = _find_picture(pixels, viewer, said)
        _settle(reader, seconds)
        before = time.monotonic(), _cpu(viewer.pid), _cpu(source.pid)
        ages = _ages(reader, seconds)
        wall, cpu, sent = time.monotonic() - before[0], _cpu(viewer.pid), _cpu(source.pid)
    return {
        "cpu_share": (cpu - before[1]) / wall,
        "sender_cpu_share": (sent - before[2]) / wall,
        "frames_per_second": len(ages) / wall,
        "age_p50_ms": float(np.percentile(ages, 50)) if ages else float("nan"),
        "age_p99_ms": float(np.percentile(ages, 99)) if ages else float("nan"),
        "picture_width": reader.size[0],
        "wall_so_far": time.monotonic() - begun,
    }


def _find_picture(
    pixels: NDArray[np.uint32], viewer: subprocess.Popen[bytes], said: Any
) -> StampReader:
    """Wait until a picture whose time can be read is on the screen."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if viewer.poll() is not None:
            said.seek(0)
            raise Unavailable(_last_words(said.read()) or f"ended with {viewer.returncode}")
        time.sleep(0.1)
        with contextlib.suppress(LookupError):
            reader = StampReader(pixels)
            if any(reader.stamp() is not None for _ in range(20)):
                return reader
    raise Unavailable(f"showed no picture in {PATIENCE:.0f} s")


def _last_words(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or [""])[-1][:300]


def _settle(reader: StampReader, seconds: float) -> None:
    """Let pass what is made once: half of the time that is measured, at least a second."""
    _ages(reader, max(1.0, seconds / 2))


def _ages(reader: StampReader, seconds: float) -> list[float]:
    """Return, of each frame that came onto the screen, how old it was then."""
    ages = []
    last = reader.stamp()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stamp = reader.stamp()
        if stamp is not None and stamp != last:
            last = stamp
            ages.append(age_ms(stamp))
        time.sleep(LOOK)
    return ages


def _here(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench.viewer_screen", *arguments]


def _start(command: list[str], said: Any, display: str, home: str) -> subprocess.Popen[bytes]:
    """Start a viewer that remembers nothing, as on its first day."""
    environment = os.environ | {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb"}
    environment |= {"XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "XDG_CACHE_HOME": home}
    return subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _sending(command: list[str], size: tuple[int, int]) -> Iterator[subprocess.Popen[bytes]]:
    """Let a process send frames; it ends with its standard input."""
    process = subprocess.Popen(
        [*command, *map(str, size)], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise Unavailable(f"its sender ended with {process.wait()}")
        yield process
    finally:
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:  # Rerun's waits for a viewer that is no more
            process.kill()
            process.communicate()


def _cpu(pid: int) -> float:
    """Return the seconds that a process, all of its threads, has computed."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS


def _free_port() -> int:
    import socket

    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        return int(asking.getsockname()[1])


def _rerun_python() -> str:
    """Return the Python of Rerun's own environment, made on first use; empty if it can not be."""
    try:
        made = subprocess.run(
            ("tools/bench_peers.sh", "rerun"),
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_INSTALL_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"Rerun could not be installed: {error}", file=sys.stderr)
        return ""
    return made.stdout.strip()


def _rerun_command(python: str, port: int) -> list[str]:
    """Return what starts its viewer itself, not the script that starts it."""
    find = "import rerun_cli, pathlib; print(pathlib.Path(rerun_cli.__file__).with_name('rerun'))"
    try:
        found = subprocess.run(
            [python, "-c", find], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        raise Unavailable("rerun-sdk can not be installed here") from None
    size = f"{SIZE[0]}x{SIZE[1]}"
    command = [found.stdout.strip(), "--port", str(port), "--bind", "127.0.0.1"]
    return [*command, "--window-size", size, "--hide-welcome-screen", "--memory-limit", "1GB"]


def send(run_id: str, width: str, height: str) -> None:
    """Publish frames at 60 Hz until standard input ends."""
    from lanekit import FastLaneConfig, FastLaneWriter

    frames = StampedFrames(int(width), int(height))
    with FastLaneWriter.create(run_id, FastLaneConfig(int(width), int(height))) as writer:
        print("sending", flush=True)
        for _ in at_60_hz():
            writer.publish(frames.stamped())


def show(kind: str, run_id: str) -> None:
    """Show a run until somebody ends this process."""
    os.environ.setdefault("QT_QUICK_BACKEND", "software")
    from PyQt6.QtWidgets import QApplication

    from bench.viewer_process import label_maker, tab_maker

    application = QApplication([])
    window = (tab_maker if kind == "tab" else label_maker)(lambda _: None)(run_id)
    window.setGeometry(0, 0, *SIZE)
    window.show()
    application.exec()


def main() -> None:
    what, *arguments = sys.argv[1:]
    {"send": send, "show": show}[what](*arguments)


if __name__ == "__main__":
    main()
