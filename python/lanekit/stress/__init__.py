"""Stress tests of the lanes on the user's own cores; ``lanekit stress`` is their command.

A run is a list of rounds (:mod:`~lanekit.stress.plan`): who stresses which cores with which shape.
Worker processes (:mod:`~lanekit.stress.worker`) carry them out, one after the other, so that a
crash costs a round and not the verdict; :mod:`~lanekit.stress.session` directs them and
:mod:`~lanekit.stress.verdict` adds up what they found.
"""
