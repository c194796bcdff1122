"""A viewer that can be killed: ``python follower.py TARGET RUN_ID FILE``.

Follows a run's steps and appends each step's own number, 8 bytes, to FILE; started again, it goes
on from as many steps as FILE has.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time

from lanekit.errors import DaemonError
from lanekit.slow.daemon_client import DaemonClient


def main() -> None:
    target, run_id, path = sys.argv[1:]
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    while True:
        try:
            with DaemonClient(target) as client:
                cursor = os.fstat(file).st_size // 8
                for answer in client.stream_steps(run_id, cursor=cursor):
                    numbers = [json.loads(info)["n"] for info in answer.columns.info_json]
                    os.write(file, struct.pack(f"<{len(numbers)}q", *numbers))
        except DaemonError:
            time.sleep(0.05)


if __name__ == "__main__":
    main()
