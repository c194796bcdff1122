"""A worker that really learns: the demo's cart-pole, with every step told and shown.

usage: python learning_worker.py EPISODES PAUSE FILMED

Plays EPISODES episodes of the policy learned so far, PAUSE seconds between two steps, and updates
it after each. Steps of the first FILMED episodes are recorded with their frames.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter
from lanekit.demo import cartpole
from lanekit.demo.ppo import Learner
from lanekit.demo.worlds import CartPoles
from lanekit.slow import emit
from lanekit.slow.control import ControlInbox

WIDTH, HEIGHT = 240, 120
LONGEST = 40


def main() -> int:
    """Play and learn until all is done, or somebody says stop."""
    episodes, pause, filmed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    run_id = os.environ["LANEKIT_RUN_ID"]
    inbox = ControlInbox.from_environment()
    learner = Learner(CartPoles(8, 3), 3)
    rng = np.random.default_rng(3)
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    with FastLaneWriter.create(run_id, FastLaneConfig(WIDTH, HEIGHT, capacity=8)) as writer:
        emit.run_started(env="CartPole")
        for episode in range(episodes):
            states = cartpole.initial_states(rng, 1)
            total = 0.0
            for step in range(LONGEST):
                if not inbox.wait_while_paused():
                    emit.run_completed(episodes=episode)
                    return 0
                action = learner.policy.best(states)
                states = cartpole.advance(states, cartpole.force_of(action))
                failed = bool(cartpole.failed(states)[0])
                reward = 0.0 if failed else 1.0
                total += reward
                cartpole.draw(states.reshape(4), image)
                metrics = FastLaneMetrics(reward, total, 1 / pause if pause else 0.0)
                # The picture first: whoever sees the step in the store can see it here, too.
                writer.publish(image, metrics=metrics)
                emit.step(
                    episode,
                    step,
                    reward=reward,
                    action=int(action[0]),
                    observation=states.reshape(4).round(4).tolist(),
                    terminated=failed,
                    truncated=not failed and step == LONGEST - 1,
                    frame=image if episode < filmed else None,
                )
                time.sleep(pause)
                if failed:
                    break
            emit.episode(
                episode,
                episode_return=total,
                length=step + 1,
                terminated=failed,
                truncated=not failed,
            )
            updates = learner.updates
            while learner.updates == updates:
                learner.work()
        emit.run_completed(episodes=episodes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
