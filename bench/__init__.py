"""Benchmarks of lanekit: each number stands beside the machine's own limit, from the same run."""
