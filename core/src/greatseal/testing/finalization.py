"""What every finalize check, every SAN injector and every observer of issuances must do, as test classes to inherit."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import get_args

import msgspec
import pytest
from cryptography import x509

from greatseal.api.issuance import (
    Certificate,
    Finalization,
    FinalizeCheck,
    FinalizePhase,
    IssuanceObserver,
    IssuanceRequest,
    SanInjector,
)
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Database, Refuse, Tx

__all__ = ["FinalizeCheckContract", "IssuanceObserverContract", "SanInjectorContract"]

CERTIFICATE = Certificate(
    id="0193a8c0-0000-8000-8000-000000000001", status="issued", ca_id="default", profile="default", serial=b"\x01" * 16, account_id="a1",
    order_id="o1", spki_sha256=b"\x02" * 32, not_before=1_800_000_000_000_000, not_after=1_800_086_399_000_000, der=b"0\x00",
    chain=(b"0\x00",), media_type="application/pem-certificate-chain",
)  # fmt: skip
OTHERS = (
    msgspec.structs.replace(CERTIFICATE, id="0193a8c0-0000-8000-8000-000000000002", serial=None),
    msgspec.structs.replace(CERTIFICATE, id="0193a8c0-0000-8000-8000-000000000003", account_id=None, order_id=None),
    msgspec.structs.replace(CERTIFICATE, id="0193a8c0-0000-8000-8000-000000000004", profile="é" * 300, chain=()),
)
REASONS = (None, 0, 1, 4, 10)


class FinalizeCheckContract(ABC):
    """Inherit, say how to make the check, what it lets pass and what it refuses, and the rest is tested."""

    passes: Finalization
    refuses: Finalization

    @abstractmethod
    def check(self) -> FinalizeCheck:
        """A new one."""

    def test_declares_itself(self) -> None:
        check = self.check()

        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", check.name)
        assert check.phase in get_args(FinalizePhase)
        assert isinstance(check.order, int)
        assert (self.passes.csr is None) == (check.phase == "authorize"), "a request is there after the phase authorize"

    async def test_what_is_right_passes_again_and_again(self) -> None:
        check = self.check()

        for _ in range(2):
            await check.check(self.passes)

    async def test_what_is_wrong_is_refused_in_the_same_words_each_time(self) -> None:
        check, words = self.check(), set()

        for _ in range(2):
            with pytest.raises(Problem) as refused:
                await check.check(self.refuses)
            assert 400 <= refused.value.status < 500
            assert refused.value.detail.isprintable()
            words.add(refused.value.detail)

        assert len(words) == 1
        assert "" not in words


class SanInjectorContract(ABC):
    """Inherit, say how to make the injector and for what it has names, and the rest is tested.

    .. code-block:: python

        class TestPrincipal(SanInjectorContract):
            gives = issuance_for(account=AccountView(..., kerberos_principal="host/a.example@EXAMPLE"))
            silent = issuance_for(account=AccountView(...))

            def injector(self):
                return KerberosPrincipalName({"default": KerberosNames(inject_account_kpn=True)})
    """

    gives: IssuanceRequest
    """One to which it adds names."""
    silent: IssuanceRequest | None = None
    """One to which it adds none; None for an injector that always has some."""
    refuses: IssuanceRequest | None = None
    """One that may not be certified; None for an injector that never refuses."""

    @abstractmethod
    def injector(self) -> SanInjector:
        """A new one."""

    def _names(self, issuance: IssuanceRequest) -> Sequence[x509.GeneralName]:
        found: object = self.injector().names(issuance)
        assert isinstance(found, Sequence), f"names returned {found!r}; it returns a sequence"
        assert all(isinstance(name, x509.GeneralName) for name in found), f"names returned {found!r}; each is a GeneralName"
        return found

    def test_declares_itself(self) -> None:
        injector = self.injector()

        assert injector.name
        assert not iscoroutinefunction(injector.names), "names is a plain function"

    def test_names_can_be_encoded_and_are_the_same_each_time(self) -> None:
        names = self._names(self.gives)

        assert names
        assert len(set(names)) == len(names), "a name is there twice"
        assert x509.SubjectAlternativeName(names).public_bytes()
        assert list(self._names(self.gives)) == list(names)

    def test_where_it_has_nothing_to_add_it_adds_nothing(self) -> None:
        if self.silent is None:
            pytest.skip("it always has names")

        assert list(self._names(self.silent)) == []

    def test_what_it_refuses_is_told_to_the_client(self) -> None:
        if self.refuses is None:
            pytest.skip("it refuses nothing")

        for _ in range(2):
            with pytest.raises(Problem) as refused:
                self.injector().names(self.refuses)
            assert 400 <= refused.value.status < 500
            assert refused.value.detail.isprintable()
            assert refused.value.detail


class IssuanceObserverContract(ABC):
    """Inherit, say how to make the observer, where its rows are and how to see them, and the rest is tested."""

    @abstractmethod
    def observer(self) -> IssuanceObserver:
        """The same one until the test ends, where it remembers anything."""

    @abstractmethod
    def database(self) -> Database:
        """Where its rows are."""

    @abstractmethod
    async def seen(self) -> object:
        """All that it has noted in committed transactions, in a form that can be compared and printed."""

    async def _undone(self, told: Callable[[Tx], None]) -> None:
        """Run in a transaction that does not commit."""

        def undo(tx: Tx) -> None:
            told(tx)
            raise Refuse(BadRequest("undone"))

        with pytest.raises(BadRequest, match="undone"):
            await self.database().write(undo)

    async def _tell(self, certificate: Certificate) -> None:
        await self.database().write(self.observer().issued, certificate)

    def test_declares_itself(self) -> None:
        observer = self.observer()

        assert not iscoroutinefunction(observer.issued), "issued is a plain function in the transaction"
        assert not iscoroutinefunction(observer.revoked), "revoked is a plain function in the transaction"

    async def test_what_it_notes_commits_with_the_certificate_and_not_without(self) -> None:
        before = repr(await self.seen())

        for _ in range(2):
            await self._undone(lambda tx: self.observer().issued(tx, CERTIFICATE))
        assert repr(await self.seen()) == before, "it noted a certificate that was never issued"

        await self._tell(CERTIFICATE)

    async def test_a_revocation_commits_or_leaves_nothing(self) -> None:
        await self._tell(CERTIFICATE)
        before = repr(await self.seen())

        await self._undone(lambda tx: self.observer().revoked(tx, CERTIFICATE, 1))
        assert repr(await self.seen()) == before, "it noted a revocation that never was"

        await self.database().write(self.observer().revoked, CERTIFICATE, 1)

    async def test_no_certificate_stops_the_issuance(self) -> None:
        for certificate in (CERTIFICATE, *OTHERS):
            await self._tell(certificate)

    @pytest.mark.parametrize("reason", REASONS)
    async def test_no_revocation_is_stopped_not_even_of_what_it_never_saw(self, reason: int | None) -> None:
        for certificate in (CERTIFICATE, *OTHERS):
            revoked = msgspec.structs.replace(certificate, status="revoked", revoked_at=CERTIFICATE.not_before, reason=reason)
            await self.database().write(self.observer().revoked, revoked, reason)
