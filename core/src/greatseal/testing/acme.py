"""What every account binding must do, as a test class to inherit; and ACCOUNTS, CHALLENGES, EABKEYS and EXAMINER for unit tests."""

import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, ClassVar

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.api.acme import AccountBinding, AccountView, Binding, BindingRequest, Challenge, EabKeyView
from greatseal.api.declarations import Step
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Database, Refuse, Tx
from greatseal.jose.jwk import jwk_of, thumbprint_of
from greatseal.testing.kept import Kept

__all__ = ["AccountBindingContract", "FakeAccounts", "FakeChallenges", "FakeEabKeys", "FakeExaminer"]

JUNK: tuple[Any, ...] = (
    "", "x", "x" * 5_000, "\0", 0, -1, 1.5, True, [], [[]], {}, {"": None}, {"protected": 7, "payload": {}, "signature": None},
    {"protected": "e30", "payload": "e30", "signature": "AAAA"}, {"protected": "////", "payload": "!", "signature": "x" * 5_000},
)  # fmt: skip


class AccountBindingContract(ABC):
    """Inherit, say how to make the binding and what a client sends, and the rest is tested.

    .. code-block:: python

        class TestVoucher(AccountBindingContract):
            @pytest.fixture(autouse=True)
            async def _store(self, tmp_path):
                async with open_test_database(f"sqlite:///{tmp_path}/vouchers.db", SCHEMA) as self.store:
                    yield

            def binding(self):
                return Voucher(self.store)

            def database(self):
                return self.store

            async def sent(self):
                return await self.store.write(make_voucher)
    """

    single_use: ClassVar[bool] = True
    """Whether what binds one account binds no other."""
    wrong: Any
    """A value of the right form that binds nobody."""

    @abstractmethod
    def binding(self) -> AccountBinding:
        """The same one until the test ends, where it remembers anything."""

    @abstractmethod
    def database(self) -> Database:
        """Where its rows are."""

    @abstractmethod
    async def sent(self, request: BindingRequest) -> Any:
        """The value of the member that binds the account of ``request``, with something that was not used yet."""

    async def _good(self) -> BindingRequest:
        key = ec.generate_private_key(ec.SECP256R1()).public_key()
        asked = BindingRequest(url="https://ca.example/acme/new-account", jwk=jwk_of(key), thumbprint=thumbprint_of(key))
        return msgspec.structs.replace(asked, value=await self.sent(asked))

    async def _refused(self, request: BindingRequest) -> None:
        with pytest.raises(Problem) as refused:
            await self.database().write(self.binding().bind, request)
        assert 400 <= refused.value.status < 500, f"{request.value!r}: {refused.value!r}"
        assert refused.value.detail.isprintable()

    def test_declares_itself(self) -> None:
        binding = self.binding()

        assert re.fullmatch(r"[a-z][A-Za-z0-9]*", binding.member)
        assert binding.member not in {"contact", "onlyReturnExisting", "orders", "status", "termsOfServiceAgreed"}
        assert isinstance(binding.required, bool)
        assert not iscoroutinefunction(binding.bind), "bind is a plain function: the transaction runs it, perhaps twice"

    async def test_a_good_value_binds_the_account(self) -> None:
        bound = await self.database().write(self.binding().bind, await self._good())

        assert isinstance(bound, Binding), f"{bound!r}"
        assert msgspec.json.decode(msgspec.json.encode(bound.echo)) == bound.echo
        assert bound.profile_grants is None or isinstance(bound.profile_grants, tuple)

    async def test_an_account_that_was_not_made_uses_nothing_up(self) -> None:
        request, undone = await self._good(), []

        def bind_and_undo(tx: Tx) -> None:
            undone.append(self.binding().bind(tx, request))
            raise Refuse(BadRequest("undone"))

        for _ in range(2):
            with pytest.raises(BadRequest, match="undone"):
                await self.database().write(bind_and_undo)
        assert [await self.database().write(self.binding().bind, request)] * 2 == undone

    async def test_what_bound_one_account_binds_no_other(self) -> None:
        if not self.single_use:
            pytest.skip("it may bind many")
        request = await self._good()
        await self.database().write(self.binding().bind, request)

        await self._refused(request)

    async def test_what_is_wrong_is_refused_and_no_error(self) -> None:
        good = await self._good()

        for value in (self.wrong, *JUNK):
            await self._refused(msgspec.structs.replace(good, value=value))
        assert await self.database().write(self.binding().bind, good)

    async def test_the_owner_is_a_label_or_nobody_whatever_is_sent(self) -> None:
        good = await self._good()

        for value in (good.value, self.wrong, *JUNK):
            owner = self.binding().owner(msgspec.structs.replace(good, value=value))
            assert owner is None or re.fullmatch(r"[a-z0-9-]+", owner), f"{value!r}: {owner!r}"


class FakeAccounts:
    """ACCOUNTS (:class:`greatseal.api.acme.Accounts`) in memory; ``accounts`` are those of committed transactions, by id."""

    def __init__(self, *accounts: AccountView) -> None:
        self.accounts = {account.id: account for account in accounts}
        self._kept = Kept(self.accounts)

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


class FakeEabKeys:
    """EABKEYS (:class:`greatseal.api.acme.EabKeys`): the keys that a test gave, by id. ``made_at`` is that of every one."""

    def __init__(self, keys: Mapping[str, bytes] | None = None, made_at: int = 1) -> None:
        self.keys = dict(keys or {})
        self.made_at = made_at

    def find(self, tx: Tx, kid: str) -> EabKeyView | None:  # noqa: ARG002  they are there from the beginning
        """As the contract says."""
        return EabKeyView(made_at=self.made_at) if kid in self.keys else None

    def verifies(self, tx: Tx, kid: str, data: bytes, mac: bytes) -> bool:  # noqa: ARG002  as above
        """As the contract says."""
        return kid in self.keys and hmac.compare_digest(mac, hmac.digest(self.keys[kid], data, "sha256"))


class FakeExaminer:
    """EXAMINER (:class:`greatseal.api.acme.Examiner`): every step is one that a test gave. ``asked`` has what was asked for."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.asked: list[tuple[str, str | None, str | None]] = []

    async def examine(self, value: str, *, profile: str | None = None, account_id: str | None = None) -> Sequence[Step]:
        """As the contract says."""
        self.asked.append((value, profile, account_id))
        return self.steps


class FakeChallenges:
    """CHALLENGES (:class:`greatseal.api.acme.Challenges`) in memory; ``challenges`` are those of committed transactions, by id.

    ``problems`` says why those are invalid that were decided so. There are no authorizations and orders behind them.
    """

    def __init__(self, *challenges: Challenge) -> None:
        self.challenges = {challenge.id: challenge for challenge in challenges}
        self.problems: dict[str, Problem] = {}
        self._kept = Kept(self.challenges)

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

    def keep(self, tx: Tx, id: str, kept: msgspec.Struct) -> bool:
        """As the contract says."""
        challenge = self._kept.get(tx, id)
        if challenge is None or challenge.status != "pending":
            return False
        self._kept.put(tx, id, msgspec.structs.replace(challenge, kept=kept))
        return True
