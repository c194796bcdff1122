"""A network namespace, and a link to it that delays and loses packets.

Not every kernel has netem; every one has TUN devices. So the link is a process with one end in each
namespace, which passes on what it reads: later, and not always.

usage: python lossy_link.py NAMESPACE DELAY_SECONDS LOSS
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # it is run by itself, too

from patience import patience

HERE, THERE = "10.77.31.1", "10.77.31.2"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
CLONE_NEWNET = 0x40000000


def missing() -> str:
    """Say why there can be no such link here; empty if there can."""
    if os.geteuid() != 0:
        return "needs root, to make a network namespace"
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    probe = subprocess.run(["ip", "netns", "list"], capture_output=True, check=False)
    return "" if probe.returncode == 0 else "needs `ip netns` (iproute2)"


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=patience())


def open_end(device: str) -> int:
    """Make a TUN device in the namespace that this thread is in."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    return end


def enter(path: str) -> None:
    """Move this process into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {path}")


def main() -> None:
    namespace, delay, loss = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    device = f"lk{os.getpid()}"
    here = open_end(device)
    run("ip", "address", "add", HERE, "peer", THERE, "dev", device)
    run("ip", "link", "set", device, "up")
    enter(f"/run/netns/{namespace}")
    there = open_end(device)
    run("ip", "address", "add", THERE, "peer", HERE, "dev", device)
    run("ip", "link", "set", device, "up")
    run("ip", "link", "set", "lo", "up")
    print("up", flush=True)
    other = {here: there, there: here}
    dice = random.Random(7)
    waiting: list[tuple[float, int, int, bytes]] = []
    count = passed = lost = 0
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        readable, _, _ = select.select([here, there, 0], [], [], left)
        if 0 in readable:  # whoever started this has closed its end, or is gone
            print(f"{passed} packets passed, {lost} lost", flush=True)
            return
        for end in readable:
            packet = os.read(end, 65536)
            if dice.random() < loss:
                lost += 1
                continue
            count += 1
            heapq.heappush(waiting, (time.monotonic() + delay, count, other[end], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            passed += 1
            try:
                os.write(end, packet)
            except OSError:
                lost += 1


if __name__ == "__main__":
    main()
