"""Whether a store's file is sound: every page looked at, nothing changed."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path

import apsw

from lanekit.errors import StoreError
from lanekit.slow.batches import Kind
from lanekit.slow.store.store_file import check_file, open_for_reading, store_errors

logger = logging.getLogger(__name__)

_MOST_FINDINGS = 20


class StoreCheck:
    """Checks a SQLite file with a connection of its own, from any thread; can be interrupted."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._guard = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    @property
    def remedy(self) -> str:
        """What to do with a damaged file."""
        return (
            f"end the daemon, move {self.path} and the -wal and -shm files beside it away, and save"
            f" what can be read with `sqlite3 MOVED .recover | sqlite3 {self.path}`, or put a"
            " backup in its place"
        )

    def run(self) -> list[str]:
        """Return what is wrong with the file; nothing if it is sound.

        `StoreError` when there is no file, or one that is not a store, or that can not be read now.
        """
        if not Path(self.path).is_file():
            raise StoreError(f"there is no store at {self.path}; --store names another")
        with self._guard:
            if self._stopped:
                return []
            with store_errors(self.path):
                self._connection = connection = open_for_reading(self.path)
        try:
            return self._look(connection)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return [str(error)]
        except apsw.InterruptError:
            return []
        finally:
            with self._guard:
                self._connection = None
            connection.close()

    def _look(self, connection: apsw.Connection) -> list[str]:
        with store_errors(self.path):
            try:
                check_file(connection, self.path)
                # One moment for all of it: a daemon may be writing.
                connection.execute("BEGIN")
                found = [
                    str(text)
                    for (text,) in connection.execute(f"PRAGMA quick_check({_MOST_FINDINGS})")
                ]
                if found == ["ok"]:
                    found = self._count_rows(connection)
                return found
            except (apsw.CorruptError, apsw.NotADBError) as error:
                return [str(error)]

    @staticmethod
    def _count_rows(connection: apsw.Connection) -> list[str]:
        """Compare the tables with what the runs say is in them."""
        found = []
        for kind in Kind:
            rows = connection.execute(f"SELECT count(*) FROM {kind.value}").get
            expected = connection.execute(f"SELECT coalesce(sum({kind.value}), 0) FROM runs").get
            if rows != expected:
                found.append(f"there are {rows} {kind.value}, and the runs have {expected}")
        return found

    # --- beside a daemon's work ------------------------------------------------------------------

    def start(self) -> None:
        """Check in a thread, and log what it finds."""
        self._thread = threading.Thread(target=self._log, name="lanekit-store-check", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End a check that is under way."""
        with self._guard:
            self._stopped = True
            if self._connection is not None:
                self._connection.interrupt()
        if self._thread is not None:
            self._thread.join()

    def _log(self) -> None:
        with contextlib.suppress(OSError):  # only what nobody else wants of the processor
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        try:
            found = self.run()
        except StoreError as error:
            logger.warning("the store could not be checked: %s", error)
            return
        if self._stopped:
            return
        if found:
            logger.error(
                "the store %s is damaged: %s; %s", self.path, "; ".join(found), self.remedy
            )
        else:
            logger.info("the store %s is sound", self.path)
