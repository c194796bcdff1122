"""Checks of what a worker says about itself, and of its configuration."""

from __future__ import annotations

import json
from typing import Any

from lanekit.errors import WorkerError
from lanekit.worker.checks.finding import Finding, Subject
from lanekit.worker.config import WorkerConfig
from lanekit.worker.json_values import type_name

PARADIGMS = ("sequential", "parallel", "self_play", "human")


def check_metadata(subject: Subject) -> Finding:
    """Who it is, and what it can do."""
    worker = subject.worker
    metadata, capabilities = worker.metadata, worker.capabilities
    problems = [
        f"{name} is empty" for name in ("description", "author") if not getattr(metadata, name)
    ]
    if metadata.upstream_library and not metadata.upstream_version:
        problems.append("upstream_library has no upstream_version")
    if capabilities.worker_type != worker.name:
        problems.append(
            f"worker_type is {capabilities.worker_type!r}, but it is installed as {worker.name!r}"
        )
    unknown = [name for name in capabilities.supported_paradigms if name not in PARADIGMS]
    if unknown or not capabilities.supported_paradigms:
        problems.append(f"supported_paradigms are of {', '.join(PARADIGMS)}; found {unknown}")
    if not capabilities.env_families:
        problems.append("env_families is empty")
    if problems:
        remedy = "complete what get_worker_metadata() returns"
        return Finding("metadata", "failed", "; ".join(problems), remedy)
    return Finding("metadata", "ok", f"{metadata.name} {metadata.version}")


def check_config_class(subject: Subject) -> Finding:
    """A configuration with an id, a seed, and both conversions."""
    try:
        cls = subject.worker.config_class()
    except WorkerError as error:
        remedy = 'name the class in the metadata: config="package.module:Class"'
        return Finding("config class", "failed", str(error), remedy)
    try:
        config = subject.config()
    except Exception as error:  # a configuration's own from_dict() may raise anything
        found = f"{cls.__name__}.from_dict() refused run_id and seed: {_words(error)}"
        remedy = "give every other field a default, or name its value here: --set NAME=VALUE"
        return Finding("config class", "failed", found, remedy)
    if not isinstance(config, WorkerConfig):
        lacking = [n for n in ("run_id", "seed", "to_dict", "from_dict") if not hasattr(config, n)]
        found = f"{cls.__name__} has no {', '.join(lacking)}"
        return Finding("config class", "failed", found, "derive it from DataclassConfig")
    return Finding("config class", "ok", f"{cls.__module__}:{cls.__name__}")


def check_round_trip(subject: Subject) -> Finding:
    """``from_dict(to_dict(x)) == x``, also with JSON in between."""
    remedy = "derive it from DataclassConfig, or make from_dict() the exact inverse of to_dict()"
    try:
        config = subject.config()
        content = config.to_dict()
        text = json.dumps(content, allow_nan=False)
        for way, data in (("from_dict(to_dict())", content), ("JSON", json.loads(text))):
            again = type(config).from_dict(data)
            if again != config:
                found = f"after {way} it differs: {_difference(config, again)}"
                return Finding("config round trip", "failed", found, remedy)
    except Exception as error:  # a configuration's own conversions may raise anything
        return Finding("config round trip", "failed", _words(error), remedy)
    return Finding("config round trip", "ok", f"{len(content)} settings, {len(text)} bytes of JSON")


def _difference(one: WorkerConfig, other: WorkerConfig) -> str:
    before, after = one.to_dict(), other.to_dict()
    changed = [name for name in before if before[name] != after.get(name)]
    if changed:
        name = changed[0]
        return f"{name} was {before[name]!r}, is {after.get(name)!r}"
    for name, value in vars(one).items():
        if (now := getattr(other, name, None)) != value:
            return f"{name} was {_typed(value)}, is {_typed(now)}"
    return f"{type_name(type(one))} has no __eq__; make it a dataclass"


def _typed(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


ABOUT_IT = (check_metadata, check_config_class, check_round_trip)
