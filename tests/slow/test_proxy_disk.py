"""A proxy whose daemon is away or whose disk is full: it keeps everything, and little memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from proxy_process import MakeProxy, resident_bytes, script
from recording_daemon import RecordingDaemon, actions
from small_disk import small_disk_at
from steady_worker import STEADY, check_steady

from patience import until


@pytest.mark.once
def test_memory_stays_flat_while_the_daemon_is_away(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    body = """
    lines = b"".join(
        b'{"event_type":"step","episode_index":0,"step_index":%d,"action":%d,"info":"%s"}\\n'
        % (i, i, b"x" * 200) for i in range(1000))
    emit.step(0, 0, action=-1)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    for _ in range(600):
        data = lines
        while data: data = data[os.write(1, data):]
    open(sys.argv[1] + ".done", "w").close()
    """
    go = short_directory / "go"
    proxy = make_proxy(recorder.target).start([*script(short_directory, body), str(go)])
    recorder.wait_for("steps", 1)
    recorder.stop()
    before = resident_bytes(proxy.pid)
    go.touch()
    until((short_directory / "go.done").exists)
    spooled = sum(path.stat().st_size for path in proxy.spool.glob("journal-*"))
    assert spooled > 150_000_000
    grown = resident_bytes(proxy.pid) - before
    assert grown < 60 * 2**20, f"{grown} bytes more"
    assert len(list(proxy.spool.glob("journal-*"))) > 1
    recorder.start()
    assert proxy.wait() == 0
    assert actions(recorder) == [-1, *[i for _ in range(600) for i in range(1000)]]
    assert not list(proxy.spool.glob("journal-*"))
    assert "kept in" in proxy.complaints()


@pytest.fixture
def small_disk(short_directory: Path) -> Iterator[Path]:
    """A file system of two MiB."""
    with small_disk_at(short_directory / "disk", "2m") as disk:
        yield disk


@pytest.mark.once
def test_a_full_disk_makes_the_worker_wait_and_loses_nothing(
    short_directory: Path, small_disk: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 700_000)
    recorder.hold_acknowledgements = True
    proxy = make_proxy(recorder.target, "disk/spool")
    proxy.said = short_directory / "said"
    proxy.start([*script(short_directory, STEADY), "60000", "0"])
    until(lambda: proxy.said.exists() and "the worker waits" in proxy.complaints())
    time.sleep(0.3)
    assert proxy.running()
    filler.unlink()
    time.sleep(0.3)
    recorder.hold_acknowledgements = False
    recorder.restart()
    assert proxy.wait() == 0, proxy.complaints()
    check_steady(recorder, proxy, 60000)


@pytest.mark.once
def test_a_full_disk_that_can_not_even_take_the_complaint_about_it_loses_nothing(
    short_directory: Path, small_disk: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(recorder.target, "disk/spool")
    proxy.said = Path("/dev/full")  # no place for a word
    proxy.start([*script(short_directory, STEADY), "40000", "0.001"])
    recorder.wait_for("steps", 1000)
    recorder.hold_acknowledgements = True
    with (
        (small_disk / "filler").open("wb", buffering=0) as filler,
        pytest.raises(OSError, match="space"),
    ):
        while True:
            filler.write(b"x" * 2**21)
    time.sleep(1.0)
    assert proxy.running()
    assert not proxy.checkpoint()["finished"]
    assert recorder.count() < 40_000
    (small_disk / "filler").unlink()
    recorder.hold_acknowledgements = False
    recorder.restart()
    assert proxy.wait() == 0
    check_steady(recorder, proxy, 40_000)
