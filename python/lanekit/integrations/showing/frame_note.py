"""What a frame says about itself, in its metadata: how it was drawn, and of which step.

Small JSON, so that any reader in any language understands it: ``{"rendering": "shadow", "step": 12,
"episode": 3}``, and for a grid ``"tiles": [12, 12, 11]``, the step that each tile shows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

NOTE_SIZE = 512
"""Bytes that a lane reserves for each frame's note."""


@dataclass(frozen=True)
class FrameNote:
    """Where a frame comes from."""

    rendering: str
    """"in-process": the training process drew it; "shadow": another process did, from a state."""
    step: int = 0
    """The environment's step that it shows, counted over the whole run."""
    episode: int = 0
    tiles: tuple[int, ...] = ()
    """In a grid, the step that each tile shows; -1 for a tile that has none yet."""

    def encode(self) -> bytes:
        """Return it as a frame's metadata."""
        said: dict[str, object] = {
            "rendering": self.rendering,
            "step": self.step,
            "episode": self.episode,
        }
        if self.tiles:
            said["tiles"] = self.tiles
        encoded = json.dumps(said, separators=(",", ":")).encode()
        if len(encoded) > NOTE_SIZE:  # a grid of very many tiles
            said["tiles"] = []
            encoded = json.dumps(said, separators=(",", ":")).encode()
        return encoded

    @classmethod
    def decode(cls, metadata: bytes | None) -> FrameNote | None:
        """Read a frame's metadata; None if it is no note."""
        try:
            said = json.loads(metadata or b"")
            return cls(
                str(said["rendering"]),
                int(said["step"]),
                int(said["episode"]),
                tuple(int(step) for step in said.get("tiles", ())),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            return None
