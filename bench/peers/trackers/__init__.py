"""Experiment trackers and plain files beside the slow lane, one short module each.

Each module has the same three things: ``PACKAGE``, the distribution it needs (None: none);
``CALLS``, the calls it makes; and ``begin(directory)``, which imports the package, opens a run
below the directory and returns the function that is timed: it records all steps and returns when
they are in the tracker's files.

They run in an environment of their own, without lanekit:
``python -m bench.peers.trackers NAME COUNT DIRECTORY`` prints one line of JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.slow_events import Step

Recorder = Callable[[Sequence[Step]], None]
