"""Weights & Biases, offline: a run directory that ``wandb sync`` uploads when somebody wants to.

wandb starts a helper process, changes the process it is imported into and has one state for all of
it. So it gets a process of its own, which is this module run as a program; the helper ends with it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lanekit.errors import MissingExtra, TelemetryError
from lanekit.slow.export.curves import Point, episode_points, step_points, track_names
from lanekit.slow.export.source import ExportSource
from lanekit.slow.optional_packages import load

_WANTED_FOR = "exporting to wandb-offline"
_MISSING = 3
"""Exit status of the program when wandb is not installed."""
_COUNTS = ("steps", "episodes", "events")

_SETTINGS: dict[str, Any] = {
    "mode": "offline",
    "silent": True,
    "quiet": True,
    "console": "off",
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    # What wandb would say about this machine has nothing to do with the machine of the run.
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}


def write(source: ExportSource, directory: Path) -> None:
    """Write ``wandb/offline-run-…``, without network, login or a question."""
    order = {
        # Through a pipe, since a URL may hold a password.
        "store": str(getattr(source.store.address, "url", source.store.address)),
        "run_id": source.run.run_id,
        "directory": str(directory),
        **{name: getattr(source.run, name) for name in _COUNTS},
    }
    with tempfile.TemporaryDirectory(prefix="lanekit-wandb-") as scratch:
        done = subprocess.run(  # on Ctrl-C it kills the program
            [sys.executable, "-m", "lanekit.slow.export.wandb_offline"],
            input=json.dumps(order),
            env=_environment(os.environ, scratch),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    if done.returncode == _MISSING:
        raise MissingExtra(done.stderr.strip())
    if done.returncode:
        raise TelemetryError(
            f"wandb could not write the run (exit status {done.returncode}):\n{done.stderr.strip()}"
        )
    _tidy(directory / "wandb")


def _tidy(directory: Path) -> None:
    """Remove wandb's own logs and the links to them: they tell of the export, not of the run."""
    for path in directory.iterdir():
        if path.is_symlink():
            path.unlink()
            continue
        for name in ("logs", "tmp"):
            shutil.rmtree(path / name, ignore_errors=True)


def _environment(environment: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Take away what the user told wandb about other runs, and give it its own directories."""
    kept = {name: value for name, value in environment.items() if not name.startswith("WANDB_")}
    own = {f"WANDB_{kind}_DIR": scratch for kind in ("CACHE", "CONFIG", "DATA", "ARTIFACT")}
    return {**kept, **own, "WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}


# --- the program ----------------------------------------------------------------------------------


def main() -> int:
    """Write the run that standard input describes."""
    from lanekit.slow.store.run_store import RunStore

    order = json.load(sys.stdin)
    try:
        wandb = load("wandb", _WANTED_FOR)
    except MissingExtra as error:
        print(error, file=sys.stderr)
        return _MISSING
    with RunStore.open(order["store"]) as store:
        run = store.run(order["run_id"])
        run = dataclasses.replace(run, **{name: order[name] for name in _COUNTS})
        try:
            _log(wandb, ExportSource(store, run), order["directory"])
        finally:
            wandb.teardown()
    return 0


def _log(wandb: Any, source: ExportSource, directory: str) -> None:
    known = wandb.Settings.model_fields
    settings = {name: value for name, value in _SETTINGS.items() if name in known}
    config = source.run.config
    run = wandb.init(
        project="lanekit",
        id=source.run.run_id,
        name=source.run.run_id,
        dir=directory,
        config={} if config is None else config if isinstance(config, dict) else {"config": config},
        settings=wandb.Settings(**settings),
    )
    names = track_names(source.tracks())
    try:
        for name in names.values():
            prefix = f"{name}/" if name else ""
            for kind in ("step", "episode"):
                run.define_metric(f"{prefix}{kind}/index", hidden=True)
                run.define_metric(f"{prefix}{kind}/*", step_metric=f"{prefix}{kind}/index")
        for kind, points in (("step", step_points(source)), ("episode", episode_points(source))):
            for point in points:
                run.log(_row(kind, point, names[point.track]))
    finally:
        run.finish()


def _row(kind: str, point: Point, name: str) -> dict[str, float]:
    prefix = f"{name}/" if name else ""
    row: dict[str, float] = {prefix + key: value for key, value in point.values.items()}
    row[f"{prefix}{kind}/index"] = point.index
    row["_timestamp"] = point.wall_time
    return row


if __name__ == "__main__":
    sys.exit(main())
