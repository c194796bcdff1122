"""A worker that prints, steps, finishes episodes and spoils a line, and the check of it all."""

from __future__ import annotations

from proxy_process import ProxyProcess
from recording_daemon import RecordingDaemon, actions

STEADY = """
count, pause = int(sys.argv[1]), float(sys.argv[2])
for i in range(count):
    if i % 50 == 0:
        print("print", i, flush=True)
        time.sleep(pause)
    emit.step(i // 100, i % 100, action=i, observation=[i, 0.5], reward=0.25)
    if i % 100 == 99:
        emit.episode(i // 100, episode_return=25.0, length=100)
        print('{"event_type":"step","broken":', flush=True)
emit.run_completed(total=count)
"""


def check_steady(daemon: RecordingDaemon, proxy: ProxyProcess, count: int) -> None:
    assert actions(daemon) == list(range(count))
    assert [episode.episode for episode in daemon.rows("episodes")] == list(range(count // 100))
    assert daemon.event_names() == ["run_completed", "worker_exited"]
    assert proxy.log() == b"".join(b"print %d\n" % i for i in range(0, count, 50))
    assert proxy.rejects() == [b'{"event_type":"step","broken":'] * (count // 100)
    assert proxy.checkpoint()["finished"]
    assert not list(proxy.spool.glob("journal-*"))
