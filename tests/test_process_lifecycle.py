"""Segments and the ways a process can end: exit, SIGTERM, SIGKILL, fork, multiprocessing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import numpy as np
import psutil
import pytest

import lanekit
from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter, segment_name
from lanekit.segments import segment_path
from patience import patience

CONFIG = FastLaneConfig(width=8, height=4, capacity=4)
FRAME = np.arange(96, dtype=np.uint8).reshape(4, 8, 3)

PREAMBLE = """
import os, signal, sys, time
import numpy as np
from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter, HandleForked
run_id = sys.argv[1]
config = FastLaneConfig(width=8, height=4, capacity=4)
frame = np.arange(96, dtype=np.uint8).reshape(4, 8, 3)
"""


def start(run_id: str, body: str, **kwargs: Any) -> subprocess.Popen[str]:
    script = PREAMBLE + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-c", script, run_id], stdout=subprocess.PIPE, text=True, **kwargs
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=patience())
    return output


def exists(run_id: str) -> bool:
    return segment_path(segment_name("frame", run_id)).exists()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("sys.exit(3)", 3),
        ("raise RuntimeError('training failed')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGHUP); time.sleep(60)", -signal.SIGHUP),
        ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
        ("del writer", 0),
    ],
)
def test_however_a_process_ends_its_segment_goes(run_id: str, ending: str, status: int) -> None:
    body = f"""
    writer = FastLaneWriter.create(run_id, config)
    writer.publish(frame)
    {ending}
    """
    process = start(run_id, body, stderr=subprocess.DEVNULL)
    finish(process)
    assert process.returncode == status
    assert not exists(run_id)


def test_sigterm_cleans_up_even_while_the_main_thread_is_busy_in_c(run_id: str) -> None:
    body = """
    writer = FastLaneWriter.create(run_id, config)
    print("ready", flush=True)
    FastLaneReader.attach(run_id).wait(60, strategy="spin")
    """
    process = start(run_id, body)
    assert said(process) == "ready"
    time.sleep(0.05)
    process.terminate()
    finish(process)
    assert process.returncode == -signal.SIGTERM
    assert not exists(run_id)


def test_a_program_with_its_own_sigterm_handler_keeps_it(run_id: str) -> None:
    body = """
    def leave(number, stack):
        print("own handler", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, leave)
    writer = FastLaneWriter.create(run_id, config)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
    """
    process = start(run_id, body)
    assert finish(process) == "own handler\n"
    assert process.returncode == 0
    assert not exists(run_id)


def test_a_killed_writers_segment_is_reclaimed_and_its_readers_follow(run_id: str) -> None:
    body = """
    writer = FastLaneWriter.create(run_id, config)
    writer.publish(frame)
    print("ready", flush=True)
    time.sleep(600)
    """
    process = start(run_id, body)
    assert said(process) == "ready"
    with FastLaneReader.attach(run_id) as reader:
        assert reader.connected
        with pytest.raises(lanekit.SegmentExists, match=f"process {process.pid} "):
            FastLaneWriter.create(run_id, CONFIG)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still a zombie
        assert not reader.connected
        frame = reader.latest_frame()
        assert frame is not None
        assert np.array_equal(frame.array, FRAME)
        with FastLaneWriter.create(run_id, CONFIG) as writer:
            writer.publish(FRAME[::-1])
            assert reader.wait(patience())
            frame = reader.latest_frame()
            assert frame is not None
            assert np.array_equal(frame.array, FRAME[::-1])
    finish(process)


def test_a_handle_inherited_over_fork_refuses_and_its_end_harms_nobody(run_id: str) -> None:
    body = """
    import warnings
    warnings.simplefilter("ignore")
    writer = FastLaneWriter.create(run_id, config)
    reader = FastLaneReader.attach(run_id)
    writer.publish(frame)
    view = reader.peek().array
    child = os.fork()
    if child == 0:
        for call in (lambda: writer.publish(frame), reader.latest_frame, writer.reserve,
                     lambda: reader.wait(1), lambda: writer.watched):
            try:
                call()
            except HandleForked as error:
                print("refused" if "fork" in str(error) else error, flush=True)
        print(bool((view == frame).all()), flush=True)
        sys.exit(0)  # runs every finalizer that the parent would run
    os.waitpid(child, 0)
    print(writer.publish(frame), reader.connected, flush=True)
    """
    process = start(run_id, body)
    assert finish(process) == "refused\n" * 5 + "True\n2 True\n"
    assert process.returncode == 0
    assert not exists(run_id)


def test_a_fork_is_seen_also_when_the_first_handle_was_an_uncounted_reader(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG):
        body = """
        import warnings
        warnings.simplefilter("ignore")
        reader = FastLaneReader.attach(run_id, lease=0)
        if os.fork() == 0:
            try:
                reader.latest_frame()
            except HandleForked:
                print("refused", flush=True)
            os._exit(0)
        os.wait()
        """
        assert finish(start(run_id, body)) == "refused\n"


def test_sigterm_while_a_large_writer_closes_leaves_nothing(run_id: str) -> None:
    body = """
    import threading
    large = FastLaneConfig(width=1000, height=1000, capacity=200)
    writer = FastLaneWriter.create(run_id, large)
    print("ready", flush=True)
    sys.stdin.readline()
    with writer:
        threading.Timer(0.002, os.kill, [os.getpid(), signal.SIGTERM]).start()
    time.sleep(60)
    """
    process = start(run_id, body, stdin=subprocess.PIPE)
    assert said(process) == "ready"
    process.communicate("go\n", timeout=patience())
    assert process.returncode == -signal.SIGTERM
    assert not exists(run_id)


def test_a_sigbus_that_is_no_fault_still_ends_the_process(run_id: str) -> None:
    body = """
    writer = FastLaneWriter.create(run_id, config)
    writer.unlink()
    os.kill(os.getpid(), signal.SIGBUS)
    time.sleep(60)
    """
    process = start(run_id, body)
    finish(process)
    assert process.returncode == -signal.SIGBUS


def test_a_forked_child_that_is_terminated_leaves_its_parents_segment(run_id: str) -> None:
    body = """
    import warnings
    warnings.simplefilter("ignore")
    writer = FastLaneWriter.create(run_id, config)
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    os.waitpid(child, 0)
    print(writer.publish(frame), flush=True)
    """
    process = start(run_id, body)
    assert finish(process) == "1\n"
    assert not exists(run_id)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_multiprocessing_worker_cleans_up_though_it_skips_atexit(
    run_id: str, method: str, tmp_path: Any
) -> None:
    script = tmp_path / "workers.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing, sys
            kept = []
            def work(run_id):
                import numpy as np
                from lanekit import FastLaneConfig, FastLaneWriter
                writer = FastLaneWriter.create(run_id, FastLaneConfig(width=8, height=4))
                writer.publish(np.zeros((4, 8, 3), np.uint8))
                kept.append(writer)  # a global: never collected before the process ends
            if __name__ == "__main__":
                context = multiprocessing.get_context(sys.argv[2])
                process = context.Process(target=work, args=[sys.argv[1]])
                process.start()
                process.join()
                sys.exit(process.exitcode)
            """
        )
    )
    command = [sys.executable, "-W", "ignore", str(script), run_id, method]
    assert subprocess.run(command, timeout=patience(), check=False).returncode == 0
    assert not exists(run_id)


def test_no_helper_process_is_ever_started(run_id: str) -> None:
    """`multiprocessing.shared_memory` would start a resource tracker that outlives its use."""
    body = """
    writer = FastLaneWriter.create(run_id, config)
    writer.publish(frame)
    reader = FastLaneReader.attach(run_id)
    reader.latest_frame()
    import psutil
    print(len(psutil.Process().children()), "multiprocessing" in sys.modules, flush=True)
    """
    process = start(run_id, body)
    assert finish(process) == "0 False\n"


def test_a_reader_that_dies_is_forgotten(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        body = """
        reader = FastLaneReader.attach(run_id, lease=2)
        print("ready", flush=True)
        while True:
            reader.wait()
        """
        process = start(run_id, body)
        assert said(process) == "ready"
        assert writer.watched
        time.sleep(2.5)
        assert writer.watched  # a blocked reader renews its lease
        process.kill()
        finish(process)
        while writer.watched:
            time.sleep(0.01)


def test_a_keyboard_interrupt_ends_a_wait(run_id: str) -> None:
    body = """
    writer = FastLaneWriter.create(run_id, config)
    reader = FastLaneReader.attach(run_id)
    try:
        print("ready", flush=True)
        reader.wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    process = start(run_id, body)
    assert said(process) == "ready"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert finish(process) == "interrupted\n"
    assert not exists(run_id)


def test_publishing_does_not_grow_the_process(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        out = np.zeros(CONFIG.shape, np.uint8)

        def work(rounds: int) -> None:
            for _ in range(rounds):
                writer.publish(FRAME)
                writer.publish(FRAME.copy())
                with writer.reserve() as pixels:
                    pixels[...] = FRAME
                reader.read_into(out)
                reader.latest_frame()

        work(5000)
        before = psutil.Process().memory_info().rss
        work(30_000)
        grown = psutil.Process().memory_info().rss - before
        assert grown < 2 << 20, f"grew by {grown} bytes over 90,000 frames"
