"""ACCOUNTS and CHALLENGES for unit tests."""

from functools import partial
from typing import Generic, TypeVar

import msgspec

from greatseal.api.acme import AccountView, Challenge
from greatseal.api.problems import Problem
from greatseal.api.store import Tx

__all__ = ["FakeAccounts", "FakeChallenges"]

T = TypeVar("T")


class _Kept(Generic[T]):
    """Values by id. What a transaction changes it sees itself, and everybody else after its commit."""

    def __init__(self, values: dict[str, T]) -> None:
        self.values = values
        self._writer: Tx | None = None
        self._written: dict[str, T] = {}

    def get(self, tx: Tx, id: str) -> T | None:
        written = self._written if tx is self._writer else {}
        return written.get(id) or self.values.get(id)

    def put(self, tx: Tx, id: str, value: T) -> None:
        if tx is not self._writer:
            self._writer, self._written = tx, {}
            tx.after_commit(partial(self.values.update, self._written))
        self._written[id] = value


class FakeAccounts:
    """ACCOUNTS (:class:`greatseal.api.acme.Accounts`) in memory; ``accounts`` are those of committed transactions, by id."""

    def __init__(self, *accounts: AccountView) -> None:
        self.accounts = {account.id: account for account in accounts}
        self._kept = _Kept(self.accounts)

    async def find(self, id: str) -> AccountView | None:
        """As the contract says."""
        return self.accounts.get(id)

    def grant(self, tx: Tx, id: str, profile_grants: tuple[str, ...] | None) -> bool:
        """As the contract says."""
        account = self._kept.get(tx, id)
        if account is None or account.status != "valid":
            return False
        self._kept.put(tx, id, msgspec.structs.replace(account, profile_grants=profile_grants))
        return True


class FakeChallenges:
    """CHALLENGES (:class:`greatseal.api.acme.Challenges`) in memory; ``challenges`` are those of committed transactions, by id.

    ``problems`` says why those are invalid that were decided so. There are no authorizations and orders behind them.
    """

    def __init__(self, *challenges: Challenge) -> None:
        self.challenges = {challenge.id: challenge for challenge in challenges}
        self.problems: dict[str, Problem] = {}
        self._kept = _Kept(self.challenges)

    def view(self, tx: Tx, id: str) -> Challenge | None:
        """As the contract says."""
        return self._kept.get(tx, id)

    def decide(self, tx: Tx, id: str, problem: Problem | None) -> bool:
        """As the contract says."""
        challenge = self._kept.get(tx, id)
        if challenge is None or challenge.status != "processing":
            return False
        self._kept.put(tx, id, msgspec.structs.replace(challenge, status="valid" if problem is None else "invalid"))
        if problem is not None:
            tx.after_commit(partial(self.problems.__setitem__, id, problem))
        return True
