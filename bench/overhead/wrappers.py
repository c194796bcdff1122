"""What watching costs a training loop that does nothing but step: the worst case for a wrapper.

``python -m bench.overhead.wrappers [--env CartPole-v1] [--rounds 9] [--seconds 0.5]``

Each round steps the same environment in every way, one block after the other, every other round
backwards; a ratio is the median over the rounds of time per step ÷ bare time per step in the same
round. Two clocks: that of the wall, and the CPU time of the training process, which neighbours
disturb less. The viewer (60 Hz) and the process that draws a shadow run on the second core.

"µs per picture" is timed by itself; 60 of these per second are what a ratio can be explained by.
What goes beyond is the machine: cores that share caches and memory with the viewer and others.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from bench import machine
from bench.companion import Companion
from bench.overhead.modes import FRAME_HZ
from bench.overhead.watching import explained, view
from lanekit.integrations import FastLaneTelemetryWrapper

_PICTURES = 40


class Passing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Does nothing."""


class Rendering(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Has a render() of its own, so that lanekit must take what it returns."""

    def render(self) -> Any:
        """Return what the environment renders."""
        return self.env.render()


class Way(NamedTuple):
    """One way to step the environment."""

    env: Any
    run_id: str | None = None
    """The run that is watched meanwhile."""


class Speed(NamedTuple):
    """Seconds per step, by two clocks; of CPU time per picture; frames/s that the viewer saw."""

    wall: float
    cpu: float
    picture: float = 0.0
    shown_hz: float = 0.0


def run_steps(env: Any, seconds: float) -> tuple[float, float]:
    """Step for so long; return seconds per step, by the wall and of CPU time."""
    env.reset(seed=1)
    step, reset = env.step, env.reset
    actions = [env.action_space.sample() for _ in range(64)]
    steps = 0
    wall, cpu = time.perf_counter(), time.process_time()
    end = wall + seconds
    while time.perf_counter() < end:
        for action in actions:
            _, _, terminated, truncated, _ = step(action)
            if terminated or truncated:
                reset()
        steps += len(actions)
    return (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps


def price_of_a_picture(env: Any) -> float:
    """Return the CPU seconds that showing one step takes the training process.

    `env` is wrapped and watched. Between two pictures the bare environment steps for as long as
    between two pictures of a training, so that the drawing finds its caches as cold as there.
    """
    samples = []
    for _ in range(_PICTURES):
        env.reset()
        end = time.perf_counter() + 1 / FRAME_HZ
        while time.perf_counter() < end:
            if any(env.env.step(env.action_space.sample())[2:4]):
                env.env.reset()
        env.publisher._due_ns = 0  # now, though it may not be time to
        begin = time.thread_time_ns()
        env.publisher.look()
        samples.append(time.thread_time_ns() - begin)
    return float(np.median(samples)) / 1e9


def measure(way: Way, viewer: Companion, seconds: float) -> Speed:
    if way.run_id is None:
        return Speed(*run_steps(way.env, seconds))
    way.env.reset(seed=1)
    way.env.step(way.env.action_space.sample())
    # Not part of the price: starting what draws, and the viewer's way to the newest ring.
    begin = time.monotonic()
    while time.monotonic() < begin + 0.3 or (
        way.env.publisher.rendering == "shadow"
        and not way.env.publisher._lanes[0].watched
        and time.monotonic() < begin + 20
    ):
        run_steps(way.env, 0.02)
        if way.env.publisher.helper_pid is not None:
            os.sched_setaffinity(way.env.publisher.helper_pid, {machine.cores()[-1]})
    viewer.ask(way.run_id)
    begin = time.monotonic()
    taken = run_steps(way.env, seconds)
    seen_hz = viewer.ask(way.run_id).frames / (time.monotonic() - begin)
    return Speed(*taken, price_of_a_picture(way.env), seen_hz)


def ways(env_id: str) -> dict[str, Way]:
    def make() -> Any:
        return gymnasium.make(env_id, render_mode="rgb_array")

    def wrapped(name: str, env: Any, *, watched: bool = True, **options: Any) -> Way:
        run_id = f"overhead-{os.getpid()}-{name}"
        return Way(FastLaneTelemetryWrapper(env, run_id, **options), run_id if watched else None)

    here: dict[str, Any] = {"rendering": "in-process"}
    return {
        "bare": Way(make()),
        "a wrapper that does nothing": Way(Passing(make())),
        "wrapped, nobody watches": wrapped("unwatched", make(), watched=False, **here),
        "watched, shadow": wrapped("shadow", make(), rendering="shadow"),
        "watched, in-process, quick way": wrapped("quick", make(), **here),
        "watched, in-process, render()": wrapped("render", Rendering(make()), **here),
        "watched, every step, quick way": wrapped("every", make(), every_step=True, **here),
        "watched, every step, render()": wrapped(
            "every-render", Rendering(make()), every_step=True, **here
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead.wrappers", description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each block")
    arguments = parser.parse_args()
    all_ways = ways(arguments.env)
    speeds: dict[str, list[Speed]] = {name: [] for name in all_ways}
    neighbours = machine.Neighbours()
    machine.pin(machine.WRITER_CORE)
    try:
        watched = [way.run_id for way in all_ways.values() if way.run_id is not None]
        with Companion(machine.READER_CORE, view, watched) as viewer:
            for number in range(arguments.rounds):
                names = list(all_ways)
                for name in names if number % 2 == 0 else reversed(names):
                    speeds[name].append(measure(all_ways[name], viewer, arguments.seconds))
    finally:
        for way in all_ways.values():
            way.env.close()
    print(f"{arguments.env}: others used {neighbours.share():.0%} of the machine meanwhile\n")
    print(
        "| way | µs per step (CPU) | × bare, CPU time | × bare, wall | µs per picture | "
        "60 of these explain | frames/s seen |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, taken in speeds.items():
        cpu, wall = (
            np.median(
                [getattr(a, c) / getattr(b, c) for a, b in zip(taken, speeds["bare"], strict=True)]
            )
            for c in ("cpu", "wall")
        )
        micros = np.median([speed.cpu for speed in taken]) * 1e6
        picture = np.median([speed.picture for speed in taken])
        shown = np.median([speed.shown_hz for speed in taken])
        print(
            f"| {name} | {micros:.2f} | ×{cpu:.3f} | ×{wall:.3f} | {picture * 1e6:.0f} | "
            f"{'' if 'every' in name else f'×{explained(float(picture)):.3f}'} | {shown:.0f} |"
        )


if __name__ == "__main__":
    main()
