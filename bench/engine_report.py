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
    cpu = [
        "| processor time of one env-step | in process | through the lanes | lanes / in process "
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
        used, over = row["cpu_us"], row["cpu_over"]
        cpu.append(
            f"| {row['model']}, {row['num_envs']} | {used['in_process']:.2f} µs "
            f"| {used['lanes']:.2f} µs | {over['in_process']:.3f} | {over['physics']:.3f} "
            f"| {used['grpc']:.2f} µs | {over['grpc']:.2f} | {used['rollout']:.2f} µs |"
        )
    return "\n".join([*lines, "", *cpu])


def _processes(row: dict[str, Any]) -> str:
    rates, over, cpu = row["rates"], row["lanes_over"], row["cpu_us"]
    return (
        f"{row['num_envs']} {row['model']}s: {rates['lanes']:,.0f} env-steps/s through the lanes, "
        f"{rates['async']:,.0f} in AsyncVectorEnv ({over['async']:.1f} times), "
        f"{rates['in_process']:,.0f} in process ({over['in_process']:.3f}); processor time of one "
        f"env-step {cpu['lanes']:.1f}, {cpu['async']:.1f} and {cpu['in_process']:.1f} µs"
    )


def _camera(row: dict[str, Any]) -> str:
    rates, over, cpu, moved = (row[name] for name in ("rates", "lanes_over", "cpu_us", "undrawn"))
    step = {name: 1e3 * row["num_envs"] / rate for name, rate in moved["rates"].items()}
    used = {name: us * row["num_envs"] / 1e3 for name, us in moved["cpu_us"].items()}
    return (
        f"{row['num_envs']} pictures of {row['side']}x{row['side']} with each step, drawn by "
        f"software: {rates['lanes']:,.0f} pictures/s in the image region, {rates['grpc']:,.0f} "
        f"over gRPC ({over['grpc']:.2f} times); processor time of one picture "
        f"{cpu['lanes'] / 1e3:.2f} and {cpu['grpc'] / 1e3:.2f} ms. The same pixels not drawn anew, "
        f"read by the trainer: {step['lanes']:.2f} and {step['grpc']:.2f} ms a step "
        f"({moved['lanes_over']['grpc']:.2f} times), {used['lanes']:.2f} and {used['grpc']:.2f} ms "
        "of processor time"
    )


def _resets(row: dict[str, Any]) -> str:
    return (
        f"resets of single environments: {row['plain']:,.0f} per second in the lane, "
        f"{row['contract']:,.0f} with a contract by command"
    )
