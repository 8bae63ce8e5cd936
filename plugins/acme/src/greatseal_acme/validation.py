"""The validation queue: durable, bounded, and fair between accounts.

A row waits for every challenge that is processing. The process that took the answer holds its lease and validates at once; what a
crash left behind is taken up at the next start, and what a lease ran out for by a sweep. A validation may therefore run twice; its
decision counts once.
"""

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from sqlalchemy import delete, insert, or_, select, update

from greatseal import faults
from greatseal.api.acme import AccountView, Attempt, Challenge, ChallengeValidator, Unauthorized, Verdict
from greatseal.api.moments import SECOND
from greatseal.api.problems import IncorrectResponse, Internal, Problem, Unreachable
from greatseal.api.store import Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_acme import tables as t
from greatseal_acme.accounts import Account, Accounts

T = TypeVar("T")

IN_FLIGHT = 256
"""Validations that run at once in a process."""
IN_FLIGHT_OF_ACCOUNT = IN_FLIGHT // 2
"""Of one account: a thousand slow ones of one client leave room for everybody else."""
LEASE = 300 * SECOND
"""How long the process that took an answer has before a sweep gives the validation to another."""
TAKEN = 500
"""Rows that one sweep takes up, in one transaction."""
RETRY_SECONDS = 5.0
"""Until a decision that the database did not take is tried again, probe and all."""

ENQUEUE = insert(t.validation).values(challenge_id=param("challenge_id"), lease_until=param("lease_until"))
DEQUEUE = delete(t.validation).where(t.validation.c.challenge_id == param("challenge_id"))
_is_lost = or_(t.validation.c.lease_until < param("before"), t.validation.c.lease_until > param("latest"))
"""A lease that is longer than any was given by a clock that was ahead: nobody waits for its end."""
WAITING = (
    select(t.validation.c.challenge_id, t.authorization.c.account_id)
    .join(t.challenge, t.challenge.c.id == t.validation.c.challenge_id)
    .join(t.authorization, t.authorization.c.id == t.challenge.c.authorization_id)
    .where(_is_lost)
    .order_by(t.validation.c.lease_until)
    .limit(TAKEN)
)
TAKE = update(t.validation).where(t.validation.c.challenge_id == param("id"), _is_lost).values(lease_until=param("new_lease"))


class Deciding(Protocol):
    """What the queue needs of the challenges."""

    def view(self, tx: Tx, id: str) -> Challenge | None: ...
    def decide(self, tx: Tx, id: str, problem: Problem | None) -> bool: ...


class Validations:
    """The validations of this process."""

    def __init__(self, host: Host, accounts: Accounts, challenges: Deciding) -> None:
        self._host = host
        self._accounts = accounts
        self._challenges = challenges
        self._known: dict[str, Challenge | None] = {}
        """What waits or runs. A challenge that was answered here needs no look into the database: its decision looks again."""
        self._waiting: dict[str, deque[str]] = {}
        self._turns: dict[str, None] = {}  # accounts that may start one, in the order of their turns
        self._of_account: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retries: set[asyncio.TimerHandle] = set()
        self._began = host.clock.now()
        self._swept = self._closed = False

    def add(self, challenge_id: str, account_id: str, challenge: Challenge | None = None) -> None:
        """Validate as soon as there is room; what is known already is not added again."""
        if challenge_id in self._known:
            return
        self._known[challenge_id] = challenge
        self._waiting.setdefault(account_id, deque()).append(challenge_id)
        self._give_turn(account_id)
        self._start_some()

    async def sweep(self) -> None:
        """Take up what lost its process: the first time all that is older than this process, later what a lease ran out for."""
        before = None if self._swept else self._began + LEASE
        lost = await self._host.db.read(_waiting, before)
        if lost:
            for challenge_id, account_id in await self._host.db.write(_take, before):
                self.add(challenge_id, account_id)
        self._swept = self._swept or len(lost) < TAKEN

    async def close(self) -> None:
        """End what runs; its rows wait for the next start."""
        self._closed = True
        for retry in self._retries:
            retry.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _give_turn(self, account_id: str) -> None:
        if self._waiting.get(account_id) and self._of_account[account_id] < IN_FLIGHT_OF_ACCOUNT:
            self._turns.setdefault(account_id)

    def _start_some(self) -> None:
        while self._turns and len(self._tasks) < IN_FLIGHT and not self._closed:
            account_id = next(iter(self._turns))
            del self._turns[account_id]
            queue = self._waiting[account_id]
            self._start(queue.popleft(), account_id)
            if not queue:
                del self._waiting[account_id]
            self._give_turn(account_id)

    def _start(self, challenge_id: str, account_id: str) -> None:
        self._of_account[account_id] += 1
        task = asyncio.create_task(self._run(challenge_id, account_id))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, challenge_id, account_id))

    def _ended(self, task: asyncio.Task[None], challenge_id: str, account_id: str) -> None:
        self._tasks.discard(task)
        self._of_account[account_id] -= 1
        if not self._of_account[account_id]:
            del self._of_account[account_id]
        if task.cancelled():  # by a validator, or at the stop: its row is there, and a sweep finds it
            self._known.pop(challenge_id, None)
        self._give_turn(account_id)
        self._start_some()

    async def _run(self, challenge_id: str, account_id: str) -> None:
        try:
            await self._validate(challenge_id)
        except Exception as error:  # noqa: BLE001  # whatever the database raised: the challenge stays processing, its row stays
            self._host.log.warning("validation could not be recorded and will be tried again", challenge=challenge_id, error=repr(error))
            self._retry(challenge_id, account_id)
        else:
            del self._known[challenge_id]

    def _retry(self, challenge_id: str, account_id: str) -> None:
        def again() -> None:
            self._retries.discard(timer)
            self._known.pop(challenge_id, None)
            self.add(challenge_id, account_id)

        timer = asyncio.get_running_loop().call_later(RETRY_SECONDS, again)
        self._retries.add(timer)

    async def _validate(self, challenge_id: str) -> None:
        challenge = self._known[challenge_id] or await self._host.db.read(self._challenges.view, challenge_id)
        if challenge is None or challenge.status != "processing":
            await self._host.db.write(_forget, challenge_id)
            return
        found = await self._probe(challenge)
        faults.point("acme.validation.probed")
        if found is Verdict.WAIT:
            await self._host.db.write(_forget, challenge_id)
            return
        problem = found if isinstance(found, Problem) else None
        await self._host.db.write(self._challenges.decide, challenge_id, problem)
        faults.point("acme.validation.decided")

    async def _probe(self, challenge: Challenge) -> Verdict | Problem:
        try:
            account = await self._accounts.get(challenge.account_id)
        except Exception as error:  # noqa: BLE001  # an account that cannot be read makes the challenge invalid (CA document)
            return incident(self._host, "the account of a challenge could not be read", exc_info=error)
        if account is None or account.view.status != "valid":
            return Unauthorized("the account is not valid any more")
        if reason := await self._refusal(account):
            return Unauthorized(f"the account key {reason}")
        validator = self._host.components(ChallengeValidator).get(challenge.type)
        if validator is None:
            return IncorrectResponse(f"the challenge type {challenge.type} is not enabled any more")
        attempt = attempt_of(challenge, account.view)
        found: object = await guarded(self._host, validator.deadline, validator.validate(attempt))
        if isinstance(found, Verdict | Problem):
            return found
        # Most often None, after a return that was forgotten: nothing was proven.
        returned = type(found).__name__
        return incident(self._host, "a validator returned no verdict", validator=validator.type, returned=returned)

    async def _refusal(self, account: Account) -> str | None:
        """Why the key of an account proves nothing any more."""
        if isinstance(account.key, str):
            return f"is not accepted any more: {account.key}"
        blocked = await self._host.blocked_keys.find(account.spki_sha256)
        return None if blocked is None else f"is blocked ({blocked.reason})"


def attempt_of(challenge: Challenge, account: AccountView) -> Attempt:
    """One validation; the key authorization is that of the account's key now (RFC 8555 s8.1)."""
    return Attempt(challenge=challenge, key_authorization=f"{challenge.token}.{account.thumbprint}", account=account)


async def guarded(host: Host, deadline: float | None, work: Awaitable[T]) -> T | Problem:
    """What a validator returns, within its deadline; what it raises as the problem that the client may see.

    CancelledError goes on when this task is cancelled; otherwise a task that the validator waited for was.
    """
    try:
        async with asyncio.timeout(deadline) as limit:
            return await work
    except Problem as problem:
        if problem.cause:
            host.log.info("validation failed", type=problem.type, detail=problem.detail, cause=problem.cause)
        return problem
    except OSError as error:
        if limit.expired():
            return Unreachable(f"the validation did not end within {deadline:g} seconds")
        return Unreachable(f"the validation target could not be reached: {error.strerror or type(error).__name__}")
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return incident(host, "a validator failed", exc_info=error)
    except Exception as error:  # noqa: BLE001  # a third party's validator must not leave a challenge undecided
        return incident(host, "a validator failed", exc_info=error)


def incident(host: Host, what: str, **more: object) -> Internal:
    """The problem for a fault of ours; the log has ``more`` under the same id."""
    id = secrets.token_hex(8)
    host.log.error(what, incident=id, **more)
    return Internal(f"the validation could not be carried out; incident {id}")


def _waiting(tx: Tx, before: int | None) -> list[tuple[str, str]]:
    """What nobody holds: a lease ended ``before``, by default now."""
    rows = tx.all(WAITING, before=tx.now if before is None else before, latest=tx.now + LEASE)
    return [(row.challenge_id, row.account_id) for row in rows]


def _take(tx: Tx, before: int | None) -> list[tuple[str, str]]:
    bounds = {"before": tx.now if before is None else before, "latest": tx.now + LEASE}
    return [one for one in _waiting(tx, before) if tx.count(TAKE, id=one[0], new_lease=tx.now + LEASE, **bounds)]


def _forget(tx: Tx, challenge_id: str) -> None:
    tx.run(DEQUEUE, challenge_id=challenge_id)
