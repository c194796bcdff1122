"""An engine in a thread, whose insides a test can look at."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lanekit.engine import Engine
from patience import patience


class Served:
    """An engine that serves in a thread of this process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.simulation = engine.simulation
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self.engine.serve()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.engine.stop()
        self._thread.join(patience())
        assert not self._thread.is_alive()
        self.engine.close()


Serve = Callable[..., Served]
