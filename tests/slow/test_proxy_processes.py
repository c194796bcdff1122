"""Processes that a worker did not fork off report to its proxy, too: Ray's actors, for one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from proxy_process import MakeProxy, script
from recording_daemon import RecordingDaemon

ACTORS = 3
STEPS = 24

ACTOR = f"""
def work(telemetry, name):
    for i in range({STEPS}):
        # Some are longer than a pipe takes in one piece, and than it holds.
        telemetry.step(0, i, agent_id=name, observation="x" * (i % 4 * 300_000))

if __name__ == "__main__":
    telemetry = emit.telemetry_of_this_run()
    assert telemetry is not None
    print("ready", flush=True)
    sys.stdin.read()
    work(telemetry, sys.argv[1])
"""

WORKER = f"""
import subprocess
from actor import work
emit.expect_other_processes()
actors = [
    subprocess.Popen(
        [sys.executable, "actor.py", f"actor-{{k}}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    for k in range({ACTORS})
]
for actor in actors:
    actor.stdout.readline()
for actor in actors:
    actor.stdin.close()
work(emit, "worker")
assert [actor.wait() for actor in actors] == [0] * {ACTORS}
"""


def test_lines_of_several_processes_arrive_once_each_and_never_mix(
    short_directory: Path, recorder: RecordingDaemon, make_proxy: MakeProxy
) -> None:
    script(short_directory, ACTOR, "actor.py")
    body = f"os.chdir({str(short_directory)!r})\n" + WORKER
    proxy = make_proxy(recorder.target).start(script(short_directory, body))
    assert proxy.wait() == 0
    seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in recorder.rows():
        seen[row.agent_id].append((row.step, len(row.observation_json)))
    expected = [(i, len('""') + i % 4 * 300_000) for i in range(STEPS)]
    assert seen == dict.fromkeys(["worker", *(f"actor-{k}" for k in range(ACTORS))], expected)
    assert (proxy.spool / "rejects.jsonl").read_bytes() == b""
