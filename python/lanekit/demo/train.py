"""Train the cart-pole and publish what it looks like, while somebody looks.

``python -m lanekit.demo.train --run-id demo`` is a worker as any other: it opens a fast lane,
trains, and renders only while ``writer.watched`` says that a viewer is there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter, LanekitError
from lanekit.demo import cartpole
from lanekit.demo.learner import Learner, Weights, choose_force

WIDTH, HEIGHT = 240, 120

GENERATION_SECONDS = 1.0
"""The least time a generation takes while somebody watches.

Left alone the learner is done within a second, too fast to see. It is held back in the same way
once it has solved the task, so that a forgotten demo does not keep a core busy.
"""

FALL_FRAMES = 30
"""How long a failed episode stays in the picture, to show the fall."""

PUSH_FRAMES = 12
"""How long a push stays visible, roughly."""

PUSH_SPEED = 0.9
"""What a push adds to the cart's speed at most, in metres per second."""


class Stage:
    """The one environment that is shown: it plays the newest policy, episode after episode."""

    def __init__(self, seed: int) -> None:
        """Start with a fresh episode."""
        self.steps = 0
        self.reward = 0.0
        self.push = 0.0
        self._rng = np.random.default_rng(seed)
        self._states = cartpole.initial_states(self._rng, 1)
        self._age = 0
        self._fallen_for = 0

    @property
    def state(self) -> cartpole.States:
        """The state to draw, four numbers."""
        return self._states.reshape(4)

    def step(self, weights: Weights, *, pushes: bool) -> None:
        """Go on by one frame; with ``pushes`` the cart is knocked about now and then."""
        if self._fallen_for:
            self._fall()
            return
        self._states = cartpole.advance(self._states, choose_force(weights, self._states))
        self.steps += 1
        self._age += 1
        self.reward = 1.0
        self._fade_push()
        if pushes and self._rng.random() < 0.01:
            self.push = self._rng.choice((-1.0, 1.0)) * self._rng.uniform(0.4, 1.0)
            self._states[0, 1] += self.push * PUSH_SPEED
        if cartpole.failed(self._states)[0]:
            self._fall()
        elif self._age >= cartpole.MAX_STEPS and not pushes:
            self._reset()

    def _reset(self) -> None:
        self._states = cartpole.initial_states(self._rng, 1)
        self._age = self._fallen_for = 0

    def _fall(self) -> None:
        """Let the pole drop beside a braking cart until it lies on the track."""
        self.reward = 0.0
        self._fade_push()
        self._fallen_for += 1
        if self._fallen_for > FALL_FRAMES:
            self._reset()
            return
        self._states[0, 1] *= 0.8
        self._states = cartpole.advance(self._states, np.zeros(1))
        self._states[0, 2] = np.clip(self._states[0, 2], -np.pi / 2, np.pi / 2)

    def _fade_push(self) -> None:
        self.push = 0.0 if abs(self.push) < 0.05 else self.push * (1 - 1 / PUSH_FRAMES)


class Rate:
    """Counts per second, over the last two seconds."""

    def __init__(self) -> None:
        """Start with no counts."""
        self._marks: deque[tuple[float, int]] = deque()

    def update(self, total: int, now: float) -> float:
        """Note the total so far and return how fast it grows."""
        self._marks.append((now, total))
        while now - self._marks[0][0] > 2.0:
            self._marks.popleft()
        then, before = self._marks[0]
        return (total - before) / (now - then) if now > then else 0.0


def train(writer: FastLaneWriter, *, seed: int, fps: float, go_on: Callable[[], bool]) -> None:
    """Learn, and publish frames while there is a viewer, until ``go_on`` says no."""
    learner = Learner(seed)
    stage = Stage(seed)
    rate = Rate()
    returns: deque[float] = deque(maxlen=100)
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    solved = False
    frame_due = generation_due = time.monotonic()
    while go_on():
        watched = writer.watched
        if watched:
            stage.step(learner.mean, pushes=solved)
        metrics = FastLaneMetrics(
            last_reward=stage.reward if watched else 1.0,  # a step that is not shown is no fall
            rolling_return=sum(returns) / len(returns) if returns else 0.0,
            step_rate_hz=rate.update(learner.steps + stage.steps, time.monotonic()),
        )
        if watched:
            cartpole.draw(stage.state, image, push=stage.push)
            notes = {
                "generation": learner.generation,
                "episode": learner.episodes,
                "best": learner.best_return,
                "policy": "solved, being pushed" if solved else "learning",
            }
            writer.publish(image, metrics=metrics, metadata=json.dumps(notes).encode())
        else:
            writer.update_metrics(metrics)

        # Train in the time that is left before the next frame.
        frame_due = max(frame_due + 1.0 / fps, time.monotonic())
        while (now := time.monotonic()) < frame_due and go_on():
            if (watched or solved) and now < generation_due:
                time.sleep(min(frame_due - now, generation_due - now, 0.05))
                continue
            generation = learner.generation
            returns.extend(learner.step())
            solved = solved or learner.solved
            if learner.generation != generation:
                generation_due = time.monotonic() + GENERATION_SECONDS


def parse_seed(text: str) -> int:
    """Return the number that ``text`` holds, if a random generator can start from it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number and not negative, got {text}")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Run the training process; the status is 1 if the lane could not be opened."""
    parser = argparse.ArgumentParser(
        prog="python -m lanekit.demo.train", description="Train the demo's cart-pole."
    )
    parser.add_argument("--run-id", required=True, help="the run to publish as")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this long")
    parser.add_argument("--seed", type=parse_seed, default=0, help="equal seeds learn equally")
    parser.add_argument("--fps", type=float, default=60.0, help="frames per second to publish")
    parser.add_argument(
        "--wait-for-viewer",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="give a viewer this long to come before the training begins",
    )
    parser.add_argument(
        "--parent", type=int, metavar="PID", help="stop when this is no longer the parent process"
    )
    args = parser.parse_args(arguments)
    if not 0 < args.fps < math.inf:
        parser.error(f"--fps must be a positive number, got {args.fps}")

    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    end = time.monotonic() + args.seconds

    def go_on() -> bool:
        orphaned = args.parent is not None and os.getppid() != args.parent
        return not (stopped or orphaned or time.monotonic() >= end)

    config = FastLaneConfig(WIDTH, HEIGHT, capacity=16, metadata_size=256)
    try:
        with FastLaneWriter.create(args.run_id, config) as writer:
            patience = time.monotonic() + args.wait_for_viewer
            while go_on() and not writer.watched and time.monotonic() < patience:
                time.sleep(0.01)
            train(writer, seed=args.seed, fps=args.fps, go_on=go_on)
    except LanekitError as error:
        print(f"lanekit.demo.train: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
