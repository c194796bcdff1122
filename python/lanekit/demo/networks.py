"""What the learner is made of: a network with its gradients, Adam, and a running scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Network:
    """Layers of tanh units with a linear last one. :attr:`parameters` are changed in place."""

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator, last_gain: float) -> None:
        """Draw orthogonal weights; the last layer's are ``last_gain`` large."""
        self.parameters: list[Array] = []
        for place, (inputs, outputs) in enumerate(pairwise(sizes)):
            gain = last_gain if place == len(sizes) - 2 else np.sqrt(2.0)
            self.parameters += [gain * _orthogonal(inputs, outputs, rng), np.zeros(outputs)]
        self._activations: list[Array] = []

    def __call__(self, inputs: Array, *, remember: bool = False) -> Array:
        """Return the outputs; :meth:`backward` needs the last call to have remembered."""
        activations = [inputs]
        layers = len(self.parameters) // 2
        for place in range(layers):
            weights, bias = self.parameters[2 * place : 2 * place + 2]
            sums = activations[-1] @ weights + bias
            activations.append(sums if place == layers - 1 else np.tanh(sums))
        if remember:
            self._activations = activations
        return activations[-1]

    def backward(self, slope: Array) -> list[Array]:
        """Return the gradient of each parameter, given the outputs' own."""
        gradients: list[Array] = []
        for place in reversed(range(len(self.parameters) // 2)):
            inputs = self._activations[place]
            gradients[:0] = [inputs.T @ slope, slope.sum(axis=0)]
            if place:
                slope = (slope @ self.parameters[2 * place].T) * (1.0 - inputs**2)
        return gradients


class Adam:
    """Kingma and Ba's optimiser, over arrays that it changes in place."""

    def __init__(self, parameters: list[Array]) -> None:
        """Begin without a memory of gradients."""
        self._parameters = parameters
        self._mean = [np.zeros_like(p) for p in parameters]
        self._square = [np.zeros_like(p) for p in parameters]
        self._steps = 0

    def step(self, gradients: list[Array], rate: float, largest: float) -> None:
        """Go one step down; gradients whose norm is above ``largest`` are cut to it."""
        self._steps += 1
        norm = np.sqrt(sum(float((g**2).sum()) for g in gradients))
        cut = min(1.0, largest / (norm + 1e-8))
        rate *= np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps)
        for p, g, mean, square in zip(
            self._parameters, gradients, self._mean, self._square, strict=True
        ):
            mean += 0.1 * (cut * g - mean)
            square += 0.001 * ((cut * g) ** 2 - square)
            p -= rate * mean / (np.sqrt(square) + 1e-8)


class RunningScale:
    """Brings numbers to about zero mean and unit spread, by all that were seen so far."""

    def __init__(self, size: int) -> None:
        """Know nothing yet: what comes is passed on nearly as it is."""
        self.mean: Array = np.zeros(size)
        self._variance: Array = np.ones(size)
        self._count = 1e-4

    @property
    def deviation(self) -> Array:
        """The spread; never zero."""
        return np.sqrt(self._variance) + 1e-8

    def take(self, rows: Array) -> None:
        """Count some rows in (Chan's parallel form of the variance)."""
        count = self._count + len(rows)
        delta = rows.mean(axis=0) - self.mean
        squares = self._variance * self._count + rows.var(axis=0) * len(rows)
        self._variance = (squares + delta**2 * self._count * len(rows) / count) / count
        self.mean = self.mean + delta * len(rows) / count
        self._count = count

    def __call__(self, rows: Array) -> Array:
        """Return rows on this scale, with outliers cut."""
        return np.clip((rows - self.mean) / self.deviation, -10.0, 10.0)


def _orthogonal(inputs: int, outputs: int, rng: np.random.Generator) -> Array:
    tall = rng.standard_normal((max(inputs, outputs), min(inputs, outputs)))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))
    return np.ascontiguousarray(q if inputs >= outputs else q.T)
