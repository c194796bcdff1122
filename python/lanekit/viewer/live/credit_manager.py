"""How much a tab may be sent: credits, which it gives back as it shows what it got.

A tab that can not keep up runs out of them, and then misses steps *on the screen*; the store, which
knows no credits, has every one.
"""

from __future__ import annotations

from dataclasses import dataclass

from PyQt6.QtCore import QObject, pyqtSignal

INITIAL_CREDITS = 200
STARVATION_THRESHOLD = 10


@dataclass(slots=True)
class _Account:
    credits: int
    starved: bool = False


class CreditManager(QObject):
    """Keeps the accounts, one for each agent of a run. Lives in one thread, the window's."""

    starved = pyqtSignal(str, str)
    """Run and agent: the account has fallen below the threshold."""
    resumed = pyqtSignal(str, str)
    """Run and agent: it is at the threshold again, or above."""

    def __init__(
        self,
        *,
        initial_credits: int = INITIAL_CREDITS,
        starvation_threshold: int = STARVATION_THRESHOLD,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        if not 0 < starvation_threshold <= initial_credits:
            raise ValueError(
                f"the starvation threshold is between 1 and the initial credits, "
                f"{initial_credits}; got {starvation_threshold}"
            )
        self._initial = initial_credits
        self._threshold = starvation_threshold
        self._accounts: dict[tuple[str, str], _Account] = {}

    def initialize_stream(self, run_id: str, agent_id: str) -> None:
        """Open an account with the initial credits; one that is open stays as it is."""
        self._accounts.setdefault((run_id, agent_id), _Account(self._initial))

    def consume_credits(self, run_id: str, agent_id: str, wanted: int = 1) -> int:
        """Take up to so many credits, and return how many there were; 0 without an account."""
        account = self._accounts.get((run_id, agent_id))
        if account is None:
            return 0
        taken = min(max(0, wanted), account.credits)
        account.credits -= taken
        if account.credits < self._threshold and not account.starved:
            account.starved = True
            self.starved.emit(run_id, agent_id)
        return taken

    def grant_credits(self, run_id: str, agent_id: str, amount: int) -> int:
        """Add credits, up to as many as the account began with; return what it has now.

        What comes back after an account was closed is nobody's.
        """
        account = self._accounts.get((run_id, agent_id))
        if account is None:
            return 0
        account.credits = min(self._initial, account.credits + max(0, amount))
        if account.starved and account.credits >= self._threshold:
            account.starved = False
            self.resumed.emit(run_id, agent_id)
        return account.credits

    def credits(self, run_id: str, agent_id: str) -> int:
        """Return what an account has; 0 without one."""
        account = self._accounts.get((run_id, agent_id))
        return 0 if account is None else account.credits

    def close_stream(self, run_id: str, agent_id: str) -> None:
        """Close an account. One that is not open is fine."""
        self._accounts.pop((run_id, agent_id), None)
