"""The engine's figures as Markdown."""

from __future__ import annotations

from typing import Any


def markdown(results: dict[str, Any]) -> str:
    """Return the tables of what was measured."""
    parts = {"steps": _steps, "processes": _processes, "camera": _camera, "resets": _resets}
    return "\n\n".join(parts[name](found) for name, found in results.items())


def _steps(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| env-steps/s | in process | through the lanes | lanes / in process "
        "| lanes / physics alone | gRPC | lanes / gRPC | MuJoCo's `rollout` |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        rates, over = row["rates"], row["lanes_over"]
        lines.append(
            f"| {row['model']}, {row['num_envs']} | {rates['in_process']:,.0f} "
            f"| {rates['lanes']:,.0f} | {over['in_process']:.3f} | {over['physics']:.3f} "
            f"| {rates['grpc']:,.0f} | {over['grpc']:.2f} | {rates['rollout']:,.0f} |"
        )
    return "\n".join(lines)


def _processes(row: dict[str, Any]) -> str:
    rates, over = row["rates"], row["lanes_over"]
    return (
        f"{row['num_envs']} {row['model']}s: {rates['lanes']:,.0f} env-steps/s through the lanes, "
        f"{rates['async']:,.0f} in AsyncVectorEnv ({over['async']:.1f} times), "
        f"{rates['in_process']:,.0f} in process ({over['in_process']:.3f})"
    )


def _camera(row: dict[str, Any]) -> str:
    rates, over = row["rates"], row["lanes_over"]
    return (
        f"{row['num_envs']} pictures of {row['side']}x{row['side']} with each step, drawn by "
        f"software: {rates['lanes']:,.0f} pictures/s in the image region, {rates['grpc']:,.0f} "
        f"over gRPC ({over['grpc']:.2f} times); the same pixels not drawn anew, read by the "
        f"trainer: {row['undrawn_lanes_ms']:.2f} ms and {row['undrawn_grpc_ms']:.2f} ms a step "
        f"({row['undrawn_ratio']:.2f} times)"
    )


def _resets(row: dict[str, Any]) -> str:
    return (
        f"resets of single environments: {row['plain']:,.0f} per second in the lane, "
        f"{row['contract']:,.0f} with a contract by command"
    )
