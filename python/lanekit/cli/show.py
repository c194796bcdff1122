"""``lanekit show``: one run in detail."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lanekit.cli.columns import Colour, Paint, columns
from lanekit.cli.connection import usual_daemons_store_problem
from lanekit.cli.last_words import last_words, stderr_file
from lanekit.cli.ls import printable
from lanekit.cli.quantities import ago, duration, json_document, moment, number
from lanekit.cli.runs import STATE_COLOURS, exit_words, reported_steps, run_json, run_seconds
from lanekit.cli.store_argument import add_store_argument, find_run, open_store
from lanekit.viewer.terminal.sparkline import sparkline

if TYPE_CHECKING:
    from lanekit.slow.store.records import EventRecord, RunRecord, WorkerRecord
    from lanekit.slow.store.run_store import RunStore

NAME = "show"
HELP = "show a run: state, counts, agents' returns, its log, its workers"
EXAMPLES = (
    ("lanekit show my-run", "what became of it"),
    ("lanekit show my-run --json", "for programs"),
)

RECENT = 1000
"""Episodes of an agent that are looked at."""
EVENTS = 10
"""Entries of the log that are shown."""
_POINTS = 32


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run_id", metavar="RUN", help="the run, as `lanekit runs` prints it")
    add_store_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


@dataclass(frozen=True)
class AgentReturns:
    """How one agent fared, in its last episodes, or in its last steps if it reports no episodes."""

    agent: str
    values: npt.NDArray[np.float64]
    """Returns, or rewards, the oldest first."""
    lengths: npt.NDArray[np.int64]
    of_steps: bool

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, for other programs."""
        known = len(self.values) > 0
        return {
            "agent_id": self.agent,
            "of": "steps" if self.of_steps else "episodes",
            "count": len(self.values),
            "last": float(self.values[-1]) if known else None,
            "mean": float(self.values.mean()) if known else None,
            "best": float(self.values.max()) if known else None,
            "mean_length": float(self.lengths.mean()) if len(self.lengths) else None,
        }


def run(args: argparse.Namespace) -> int:
    """Print the run."""
    with open_store(args) as store:
        record = find_run(store, args.run_id)
        agents = [agent_returns(store, record, agent) for agent in store.agents(record.run_id)]
        events = last_events(store, record)
        if args.json:
            document = run_json(store, record) | {
                "agents": [agent.to_json() for agent in agents],
                "last_events": [_event_json(event) for event in events],
                "workers": [_worker_json(worker) for worker in record.senders],
                "reject_files": reject_files(record) if record.rejected_lines else [],
                "store_problem": store_problem(args, store),
            }
            print(json_document(document))
        else:
            print("\n".join(_text(store, record, agents, events)))
            if problem := store_problem(args, store):
                words = f"the daemon cannot store events now: {problem}"
                print(f"\n{Paint()(printable(words, 400), Colour.RED)}")
    return 0


def store_problem(args: argparse.Namespace, store: RunStore) -> str:
    """Return why the usual daemon cannot write this store; empty if it can, or none runs."""
    problem = usual_daemons_store_problem() or ""
    return problem if args.store is None or store.path in problem else ""


def agent_returns(store: RunStore, record: RunRecord, agent: str) -> AgentReturns:
    """Look at an agent's last episodes."""
    episodes = store.episodes(record.run_id, agent=agent, last=RECENT)
    if len(episodes):
        returns = episodes.episode_return
        return AgentReturns(agent, returns[~np.isnan(returns)], episodes.length, of_steps=False)
    rewards = store.steps(record.run_id, agent=agent, last=RECENT).reward
    return AgentReturns(agent, rewards[~np.isnan(rewards)], np.zeros(0, np.int64), of_steps=True)


def last_events(store: RunStore, record: RunRecord) -> list[EventRecord]:
    """Return the end of the log, without the heartbeats, which say nothing but drown the rest."""
    recent = store.events(record.run_id, last=100 * EVENTS)
    return [event for event in recent if event.name != "heartbeat"][-EVENTS:]


def reject_files(record: RunRecord) -> list[str]:
    """Return the files in which the workers' proxies keep the lines that could not be stored."""
    spools = dict.fromkeys(worker.spool_directory for worker in record.senders)
    return [os.path.join(spool, "rejects.jsonl") for spool in spools if spool]


def trend(values: npt.NDArray[np.float64], points: int = _POINTS) -> str:
    """Draw values as a line of bars; where there are many, each bar is the mean of some."""
    if len(values) < 2:
        return ""
    means = [float(part.mean()) for part in np.array_split(values, min(points, len(values)))]
    return sparkline(means)


def _text(
    store: RunStore, record: RunRecord, agents: list[AgentReturns], events: list[EventRecord]
) -> list[str]:
    paint = Paint()
    lines = [*_head(record, paint), *_counts(record, reported_steps(store, record), paint)]
    if record.state in ("failed", "lost"):
        lines += [f"  {printable(line, 400)}" for line in last_words(record)]
    if agents:
        lines += ["", *_agents(agents, paint)]
    if events:
        lines += ["", *_events(record, events, paint)]
    if record.senders:
        lines += ["", *_workers(record, paint)]
    return lines


def _head(record: RunRecord, paint: Paint) -> list[str]:
    state = str(record.state)
    colour = STATE_COLOURS.get(state, Colour.BOLD)
    title = f"{paint(record.run_id, Colour.BOLD)}  {paint(state, colour)}"
    lines = [title + ("  (archived)" if record.archived else "")]
    rows = [["created", f"{moment(record.created_ns)}  ({ago(record.created_ns)})"]]
    if record.started_ns:
        rows.append(["started", moment(record.started_ns)])
    if record.ended_ns:
        rows.append(["ended", moment(record.ended_ns)])
    seconds = run_seconds(record)
    if seconds is not None:
        rate = record.steps / seconds if seconds else 0.0
        speed = f"  ({number(rate)} steps/s)" if record.steps and rate else ""
        rows.append(["duration", duration(seconds) + speed])
    if record.exit_status is not None:
        rows.append(["exit", exit_words(record.exit_status).removeprefix("exit status ")])
    if record.reason:
        rows.append(["reason", paint(printable(record.reason, 400), Colour.RED)])
    if record.command:
        rows.append(["command", printable(shlex.join(record.command), 200)])
    if record.config_json:
        rows.append(["config", printable(record.config_json.decode("utf-8", "replace"), 200)])
    return lines + _pairs(rows, paint)


def _counts(record: RunRecord, reported: int | None, paint: Paint) -> list[str]:
    rows = [[name, f"{getattr(record, name):,}"] for name in ("steps", "episodes", "events")]
    if reported and not record.steps:
        rows[0][1] = f"{reported:,} made, none recorded one by one"
    if record.rejected_lines:
        lines = "line" if record.rejected_lines == 1 else "lines"
        count = paint(f"{record.rejected_lines:,} {lines}", Colour.YELLOW)
        files = [printable(file, 200) for file in reject_files(record)]
        where = " or ".join(files) or "rejects.jsonl of the worker's spool"
        rows.append(["rejected", f"{count}, kept in {where}"])
    for worker in record.senders:
        if worker.notice:
            notice = f"stream {worker.stream_id}: {worker.notice}"
            rows.append(["journal", paint(printable(notice, 400), Colour.YELLOW)])
    return _pairs(rows, paint)


def _pairs(rows: list[list[str]], paint: Paint) -> list[str]:
    return [f"  {paint(label.ljust(9), Colour.DIM)} {value}" for label, value in rows]


def _agents(agents: list[AgentReturns], paint: Paint) -> list[str]:
    heads = ["AGENT", "LAST", "MEAN", "BEST", "LENGTH", "OVER", ""]
    rows = [[paint(head, Colour.DIM) for head in heads]]
    for agent in agents:
        known = agent.to_json()
        numbers = [known[name] for name in ("last", "mean", "best", "mean_length")]
        count = known["count"]
        unit = "rewarded step" if agent.of_steps else "episode"
        rows.append(
            [
                paint(printable(agent.agent) or "(only one)", Colour.BOLD),
                *("-" if value is None else number(value) for value in numbers),
                f"{'last ' if count >= RECENT else ''}{count:,} {unit}{'' if count == 1 else 's'}",
                paint(trend(agent.values), Colour.GREEN),
            ]
        )
    return columns(rows, right={1, 2, 3, 4})


def _events(record: RunRecord, events: list[EventRecord], paint: Paint) -> list[str]:
    heads = ["TIME", "EVENT", "WORKER", "PAYLOAD"]
    rows = [[paint(head, Colour.DIM) for head in heads]]
    for event in events:
        payload = "" if event.payload is None else json_document(event.payload, indent=None)
        rows.append(
            [
                moment(event.wall_time_ns) if event.wall_time_ns else "-",
                printable(event.name),
                printable(event.worker_id) or "-",
                paint(printable(payload, 80), Colour.DIM),
            ]
        )
    hidden = record.events - len(events)
    # The count is of the whole log, so it includes what was left out on purpose.
    more = [paint(f"({hidden:,} more, with the heartbeats)", Colour.DIM)] if hidden > 0 else []
    return columns(rows) + more


def _workers(record: RunRecord, paint: Paint) -> list[str]:
    heads = ["WORKER", "PID", "HOST", "LAST SEEN", "SPOOL"]
    rows = [[paint(head, Colour.DIM) for head in heads]]
    rows += [
        [
            paint(printable(worker.worker_id) or "-", Colour.BOLD),
            str(worker.pid or "-"),
            printable(worker.host) or "-",
            ago(worker.last_seen_ns),
            printable(worker.spool_directory, 200) or "-",
        ]
        for worker in record.senders
    ]
    return columns(rows, right={1})


def _event_json(event: EventRecord) -> dict[str, Any]:
    return {
        "name": event.name,
        "wall_time_ns": event.wall_time_ns,
        "worker_id": event.worker_id,
        "payload": event.payload,
        **({"extra": event.extra} if event.extra else {}),
    }


def _worker_json(worker: WorkerRecord) -> dict[str, Any]:
    return {
        "worker_id": worker.worker_id,
        "stream_id": worker.stream_id,
        "pid": worker.pid,
        "host": worker.host,
        "last_seen_ns": worker.last_seen_ns,
        "spool_directory": worker.spool_directory,
        "notice": worker.notice,
        "stderr_file": str(stderr_file(worker) or "") or None,
    }
