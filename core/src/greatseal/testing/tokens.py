"""What every grant must do, as a test class to inherit; and a TOKENS, FAMILIES and METADATA for unit tests."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import ClientMatch, ProvenRequest
from greatseal.api.http import Parameters
from greatseal.api.identity import AccessDenied
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Database, Refuse, Refused, Tx
from greatseal.api.tokens import AccessToken, Family, Grant, Granted, GrantQuestion, SubjectToken
from greatseal.clock import FakeClock
from greatseal.host import Clock
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.testing.kept import Kept

__all__ = ["FakeFamilies", "FakeMetadata", "FakeTokens", "GrantContract"]

JUNK = ("x", " ", "a.b.c", "\0", "ä", "../x", "ac_n1_x", "x" * 5_000)
TAKEN_BACK = frozenset({"at+jwt", "jwt"})


class GrantContract(ABC):
    """Inherit, say how to make the grant and a request that redeems something new, and the rest is tested.

    .. code-block:: python

        class TestDeviceCode(GrantContract):
            @pytest.fixture(autouse=True)
            async def _store(self, tmp_path):
                async with open_test_database(f"sqlite:///{tmp_path}/device.db", SCHEMA) as self.store:
                    yield

            def grant(self):
                return DeviceCode(self.store, FakeTokens())

            def database(self):
                return self.store

            async def request(self):
                code = await self.store.write(approve, "alice@EXAMPLE")
                return request_of(Parameters([("grant_type", DeviceCode.grant_type), ("device_code", code)]))
    """

    @abstractmethod
    def grant(self) -> Grant[Any]:
        """The grant; the same one until the test ends, where it remembers anything."""

    @abstractmethod
    def database(self) -> Database:
        """Where its rows are."""

    @abstractmethod
    async def request(self) -> ProvenRequest:
        """A good request with a handle that was not used yet."""

    async def later(self) -> None:
        """Let the time pass in which a second use is forgiven as a retry; nothing for grants that forgive none."""

    async def _redeem(self, request: ProvenRequest) -> Granted:
        """As the token endpoint does; a Refused is raised as its problem."""
        prepared = await self.grant().prepare(request)
        return prepared if isinstance(prepared, Granted) else await self._redeem_prepared(prepared)

    async def _redeem_prepared(self, prepared: Any) -> Granted:
        outcome = await self.database().write(self.grant().redeem, prepared)
        if isinstance(outcome, Refused):
            raise outcome.problem
        return outcome

    async def _consumed(self, request: ProvenRequest) -> Any:
        prepared: object = await self.grant().prepare(request)
        assert isinstance(prepared, msgspec.Struct), f"prepare returned {prepared!r}; it returns a Struct"
        if isinstance(prepared, Granted):
            pytest.skip("nothing is consumed")
        return prepared

    def test_declares_itself(self) -> None:
        grant = self.grant()

        assert grant.grant_type
        assert grant.grant_type.isprintable()
        assert grant.handle is None or all(grant.handle)
        assert not iscoroutinefunction(grant.redeem), "redeem is a plain function: the transaction runs it, perhaps twice"

    async def test_a_good_request_is_granted_to_its_client(self) -> None:
        request = await self.request()

        granted = await self._redeem(request)

        assert isinstance(granted, Granted), f"{granted!r}"
        assert granted.subject
        assert granted.client_id == request.client.client_id
        assert set(granted.scopes) <= set(request.client.scopes)
        assert (granted.cnf, granted.bound) == (None, {}), "the token endpoint alone binds tokens"
        assert msgspec.json.encode(granted)

    async def test_what_is_prepared_changes_nothing(self) -> None:
        request = await self.request()

        await self.grant().prepare(request)

        assert isinstance(await self._redeem(request), Granted)

    async def test_a_redemption_that_was_undone_is_the_same_once_more(self) -> None:
        prepared = await self._consumed(await self.request())
        undone: list[Granted | Refused] = []

        def redeem_and_undo(tx: Tx) -> None:
            undone.append(self.grant().redeem(tx, prepared))
            raise Refuse(BadRequest("undone"))

        for _ in range(2):
            with pytest.raises(BadRequest, match="undone"):
                await self.database().write(redeem_and_undo)
        granted = await self._redeem_prepared(prepared)

        assert {_without_family(one) for one in undone} == {_without_family(granted)}

    async def test_a_handle_is_redeemed_once(self) -> None:
        prepared = await self._consumed(await self.request())
        await self._redeem_prepared(prepared)
        await self.later()

        with pytest.raises(Problem) as refused:
            await self._redeem_prepared(prepared)
        assert 400 <= refused.value.status < 500

    async def test_another_client_gets_nothing_and_burns_nothing(self) -> None:
        request = await self.request()
        await self._consumed(request)
        another = msgspec.structs.replace(request.client, client_id="another")
        match = ClientMatch(subject="another")

        with pytest.raises(Problem):
            await self._redeem(msgspec.structs.replace(request, client=another, match=match))

        assert isinstance(await self._redeem(request), Granted)

    async def test_a_handle_that_is_none_is_refused_and_no_error(self) -> None:
        request, handle = await self.request(), self.grant().handle
        if handle is None:
            pytest.skip("no parameter is a handle")

        for value in (None, *JUNK):
            form = {**request.form, handle[0]: value}
            sent = Parameters([(name, text) for name, text in form.items() if text is not None])
            with pytest.raises(Problem) as refused:
                await self._redeem(msgspec.structs.replace(request, form=sent))
            assert 400 <= refused.value.status < 500, value


def _without_family(outcome: Granted | Refused) -> str:
    """A refresh token may be another one each time."""
    return repr(outcome if isinstance(outcome, Refused) else msgspec.structs.replace(outcome, family=None))


class FakeTokens:
    """TOKENS (:class:`greatseal.api.tokens.Tokens`) in memory, of ``issuer``.

    ``live`` are access tokens by their text, ``subjects`` tokens for an exchange by text and type. :meth:`permitted` leaves all scopes but
    ``withheld``, and raises ``refusal`` where it is set; ``questions`` has what it was asked. ``revoked`` has the origins of committed
    transactions. ``key`` signs, by ES256 alone.
    """

    def __init__(self, *, issuer: str = "https://issuer.example", clock: Clock | None = None) -> None:
        self.issuer = issuer
        self.clock = clock or FakeClock()
        self.live: dict[str, AccessToken] = {}
        self.subjects: dict[tuple[str, str], SubjectToken] = {}
        self.withheld: frozenset[str] = frozenset()
        self.refusal: Problem | None = None
        self.questions: list[GrantQuestion] = []
        self.revoked: list[bytes] = []
        self.key = ec.generate_private_key(ec.SECP256R1())

    async def access(self, token: str) -> AccessToken | None:
        """One of ``live`` that has not expired."""
        found = self.live.get(token)
        return found if found is not None and self.clock.now() < found.expires_at else None

    async def sign(self, typ: str, claims: Mapping[str, Any], *, alg: str | None = None) -> str:
        """As the contract says."""
        if typ.lower().removeprefix("application/") in TAKEN_BACK and not (typ == "JWT" and not {"aud", "sub"} <= claims.keys()):
            raise ValueError(f"tokens of type {typ} come from grants alone")
        if alg not in {None, "ES256"}:
            raise KeyError(alg)
        payload = msgspec.json.encode({**claims, "iss": self.issuer})
        return sign_compact({"alg": "ES256", "typ": typ}, payload, partial(ALGORITHMS["ES256"].sign, self.key))

    async def subject(self, token: str, token_type: str) -> SubjectToken | None:
        """One of ``subjects``; a type of which there is none is not offered."""
        if token_type not in {offered for _, offered in self.subjects}:
            raise BadRequest("the token type is not offered")
        found = self.subjects.get((token, token_type))
        return found if found is not None and self.clock.now() < found.expires_at else None

    async def permitted(self, question: GrantQuestion) -> frozenset[str]:
        """As the contract says."""
        self.questions.append(question)
        if self.refusal is not None:
            raise self.refusal
        left = question.scopes - self.withheld
        if question.scopes and not left:
            raise AccessDenied("no scope is left")
        return left

    def revoke_origin(self, tx: Tx, origin: bytes) -> None:
        """Noted after the commit."""
        tx.after_commit(partial(self.revoked.append, origin))


class _Held(msgspec.Struct, frozen=True):
    granted: Granted
    live: bool = True


class FakeFamilies:
    """FAMILIES (:class:`greatseal.api.tokens.Families`) in memory; ``live`` is what was granted in committed transactions, by family."""

    def __init__(self) -> None:
        self._families: dict[str, _Held] = {}
        self._kept = Kept(self._families)
        self._opened = 0

    @property
    def live(self) -> Mapping[str, Granted]:
        """The families that have not ended."""
        return {id: held.granted for id, held in self._families.items() if held.live}

    def open(self, tx: Tx, granted: Granted) -> Family:
        """As the contract says."""
        self._opened += 1
        family = Family(id=f"family-{self._opened}", refresh_token=f"rt_n1_{self._opened}")
        self._kept.put(tx, family.id, _Held(granted))
        return family

    def revoke(self, tx: Tx, id: str, *, event_type: str, by: str | None = None) -> bool:
        """As the contract says."""
        held = self._kept.get(tx, id)
        if held is None or not held.live:
            return False
        self._kept.put(tx, id, _Held(held.granted, live=False))
        event = AuditEvent(event_type=event_type, service="idp", sub=held.granted.subject, client_id=held.granted.client_id, principal=by)
        tx.audit(event)
        return True

    def revoke_of(self, tx: Tx, *, subject: str | None = None, client_id: str | None = None, session_id: str | None = None) -> None:
        """As the contract says, without events."""
        if subject is None and client_id is None and session_id is None:
            raise TypeError("revoke_of takes at least one of subject, client_id and session_id")
        for id in self._kept.ids(tx):
            held = self._kept.get(tx, id)
            assert held is not None
            one, session = held.granted, held.granted.authentication and held.granted.authentication.session_id
            named = (subject, one.subject), (client_id, one.client_id), (session_id, session)
            if all(wanted in {None, found} for wanted, found in named):
                self._kept.put(tx, id, _Held(one, live=False))


class FakeMetadata:
    """METADATA (:class:`greatseal.api.services.Metadata`): ``members`` are those of both documents."""

    def __init__(self, issuer: str = "https://issuer.example", **members: Any) -> None:
        self.members = {"issuer": issuer, "jwks_uri": f"{issuer}/jwks", **members}
        self.keys: list[Mapping[str, Any]] = []

    async def document(self, name: str) -> Mapping[str, Any]:  # noqa: ARG002  # of the contract
        """As the contract says."""
        return self.members

    def key_set(self) -> Mapping[str, Any]:
        """As the contract says."""
        return {"keys": self.keys}
