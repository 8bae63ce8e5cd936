"""What every extension of the authorization request must do, as a test class to inherit; and an AUTHORIZATIONS for unit tests."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_args

import msgspec
import pytest

from greatseal.api.authorization import Ask, Authorization, Awaited, Extension, Granting, Place, Proposal, ResponseMode, Shown, Terms, Wish
from greatseal.api.clients import Client, ProvenRequest, Registration
from greatseal.api.declarations import ScopeDefinition
from greatseal.api.http import Parameters
from greatseal.api.identity import SessionView
from greatseal.api.problems import BadRequest, NotFound, Problem
from greatseal.api.store import Refuse, Tx
from greatseal.api.tokens import Authentication, Granted, InvalidGrant, InvalidScope
from greatseal.testing.bindings import asks_for_nothing
from greatseal.testing.kept import Kept

__all__ = ["ExtensionContract", "FakeAuthorizations", "wish_of"]

MAX_KEPT = 32_768
PLACES = ("authorize", "par", "device", "backchannel", "token")


async def wish_of(extension: Extension[Any], ask: Ask) -> Wish[Any] | None:
    """What an extension makes of a request, as the provider asks it."""
    return await extension.ask(ask) if extension.concerns(ask) else None


class ExtensionContract(ABC):
    """Inherit, say how to make the extension and what a client sends for it, and the rest is tested.

    .. code-block:: python

        class TestResources(ExtensionContract):
            parameters = (("resource", "https://api.example/"),)
            client = Client(client_id="c1", token_endpoint_auth_method="none", more={"resources": ["https://api.example/"]})

            def extension(self):
                return ResourceIndicators()
    """

    parameters: ClassVar[tuple[tuple[str, str], ...]] = ()
    """A good request for it, as it stands in force."""
    client: ClassVar[Client] = Client(client_id="c1", token_endpoint_auth_method="client_secret_basic", scopes=("openid",))  # noqa: S106
    """Who sends it."""
    cnf: ClassVar[Mapping[str, str] | None] = None
    """The key of the requests, for who insists on one."""

    @abstractmethod
    def extension(self) -> Extension[Any]:
        """A new one."""

    def _ask(self, place: Any, *, empty: bool = False) -> Ask:
        given = Parameters(() if empty else self.parameters)
        grant_type = "authorization_code" if place == "token" else None
        return Ask(at=place, client=self.client, given=given, sent=given, remote="192.0.2.1", grant_type=grant_type, proven=self.cnf or {})

    def _granting(self, basis: Any = "authorization") -> Granting:
        return Granting(
            grant_type="authorization_code", client=self.client, subject="alice@EXAMPLE", cnf=self.cnf, proven=self.cnf or {}, basis=basis
        )

    async def _kept(self, place: str) -> Any:
        wish = await wish_of(self.extension(), self._ask(place))
        return None if wish is None else wish.kept

    def test_declares_itself(self) -> None:
        one = self.extension()

        assert isinstance(one.name, str)
        assert one.name
        assert " " not in one.name, "what is remembered of it stands behind its name and a blank"
        assert isinstance(one.order, int)
        assert one.repeatable == frozenset(one.repeatable)
        assert one.claims == frozenset(one.claims)
        assert asks_for_nothing(one.fields)
        assert all(path.startswith("/") for path in one.prompts.values())
        assert set(one.response_modes.values()) <= set(get_args(ResponseMode))
        assert (one.opens is not None) == (type(one).open is not Extension.open), "open and opens go together"
        assert bool(one.response_modes) == (type(one).answer is not Extension.answer), "answer and response_modes go together"

    def test_a_client_that_asks_for_nothing_is_stored_and_stays_itself(self) -> None:
        plain = Client(client_id="c1", token_endpoint_auth_method="client_secret_basic", scopes=("openid",))  # noqa: S106

        self.extension().check(Registration(client=plain, open=False))

        completed = self.extension().complete(plain)
        assert completed == plain
        assert self.extension().complete(self.extension().complete(self.client)) == self.extension().complete(self.client)

    @pytest.mark.parametrize("place", PLACES)
    async def test_every_place_is_answered(self, place: str) -> None:
        for empty in (False, True):
            found: object
            try:
                found = await wish_of(self.extension(), self._ask(place, empty=empty))
            except Problem as problem:
                found = problem
            whole = place == "authorize" and not empty
            assert found is None or isinstance(found, Wish if whole else Wish | Problem), f"ask at {place} gave {found!r}"

    async def test_what_is_kept_rests_as_json_and_is_read_back(self) -> None:
        kept, kept_as = await self._kept("authorize"), self.extension().kept_as
        if kept is None:
            pytest.skip("nothing is kept")

        assert kept_as is not None
        assert isinstance(kept, kept_as)
        encoded = msgspec.json.encode(kept)
        assert msgspec.json.decode(encoded, type=kept_as) == kept
        assert len(encoded) <= MAX_KEPT

    async def test_what_is_shown_is_plain_and_the_same_each_time(self) -> None:
        kept = await self._kept("authorize")
        if kept is None:
            pytest.skip("nothing is kept")

        shown = list(await self.extension().shown(kept, "alice@EXAMPLE"))

        assert shown == list(await self.extension().shown(kept, "alice@EXAMPLE"))
        assert all(one.title for one in shown)

    async def test_a_grant_may_run_twice_and_widens_nothing(self) -> None:
        kept, asked = await self._kept("authorize"), await self._kept("token")
        terms = Terms(scopes=("openid", "email"), claims={"act": {"sub": "c2"}}, not_after=1)

        for narrowed in (None, asked):
            said = self.extension().grant(kept, narrowed, terms, self._granting())
            assert said == self.extension().grant(kept, narrowed, terms, self._granting())
            assert set(said.scopes) <= set(terms.scopes)
            assert said.not_after is not None
            assert said.not_after <= 1
            assert {name for name in said.claims if said.claims[name] != terms.claims.get(name)} <= self.extension().claims

    @pytest.mark.parametrize("basis", ["authorization", "client", "exchange"])
    def test_a_grant_of_who_asked_for_nothing_goes_on(self, basis: str) -> None:
        terms = Terms(scopes=("openid",))

        said = self.extension().grant(None, None, terms, self._granting(basis))

        assert isinstance(said, Terms)
        assert set(said.scopes) <= {"openid"}


class FakeAuthorizations:
    """AUTHORIZATIONS (:class:`greatseal.api.authorization.Authorizations`) with the extensions that a test gives.

    Scopes are cut to those of the client; the parameters ``claims`` and ``max_age`` are not read. A person is asked about the clients of
    ``clients`` alone. ``refusal`` is what :meth:`propose` and :meth:`allowed` raise where it is set; ``proposals`` has what was allowed in
    committed transactions and not redeemed, by origin.
    """

    def __init__(self, *extensions: Extension[Any], clients: Sequence[Client] = ()) -> None:
        self._extensions = sorted(extensions, key=lambda one: (one.order, one.name))
        self._clients = {one.client_id: one for one in clients}
        self._approvals: dict[str, _Approval] = {}
        self._kept = Kept(self._approvals)
        self.refusal: Problem | None = None
        self.hints: dict[str, str] = {}
        self.waiting: dict[str, Awaited] = {}

    @property
    def proposals(self) -> Mapping[bytes, Proposal]:
        """What may be redeemed."""
        return {bytes.fromhex(origin): one.proposal for origin, one in self._approvals.items() if not one.used}

    async def open(self, request: ProvenRequest, at: Place) -> Parameters:
        """As the contract says."""
        form = request.form
        ask = Ask(at=at, client=request.client, given=form, sent=form, remote=request.call.remote, proven=request.proven)
        for one in self._extensions:
            if one.opens is not None and one.opens in form:
                ask = msgspec.structs.replace(ask, given=await one.open(ask))
        repeatable = frozenset().union(*(one.repeatable for one in self._extensions))
        for name in ask.given.keys() - repeatable:
            _ = ask.given[name]  # raises BadRequest where it was given twice
        return ask.given

    def hinted(self, hint: str, client: Client) -> str:  # noqa: ARG002
        """As the contract says; ``hints`` has the ID tokens with their subjects, whoever was given them."""
        if hint not in self.hints:
            raise BadRequest("id_token_hint is no ID token that was issued here to this client")
        return self.hints[hint]

    async def read(self, request: ProvenRequest, at: Place, *, given: Parameters | None = None) -> Authorization:
        """As the contract says."""
        client = request.client
        given = await self.open(request, at) if given is None else given
        ask = Ask(at=at, client=client, given=given, sent=request.form, remote=request.call.remote, proven=request.proven)
        wishes = {one.name: wish for one in self._extensions if (wish := await one.ask(ask)) is not None}
        scopes = tuple(scope for scope in ask.given.get("scope", "").split() if scope in client.scopes)
        if not scopes and not any(wish.scopeless for wish in wishes.values()):
            raise InvalidScope("scope: expected one that the client is registered for")
        more = {name: wish.kept for name, wish in wishes.items() if wish.kept is not None}
        return Authorization(
            client_id=client.client_id,
            scopes=scopes,
            acr=tuple(wish.acr for wish in wishes.values() if wish.acr),
            max_age=min((wish.max_age for wish in wishes.values() if wish.max_age is not None), default=None),
            more=msgspec.json.decode(msgspec.json.encode(more)),
        )

    async def awaited(self, return_to: str) -> Awaited | None:
        """What :attr:`waiting` has for it."""
        return self.waiting.get(return_to)

    async def shown(self, authorization: Authorization, subject: str) -> Sequence[Shown]:
        """As the contract says."""
        found: list[Shown] = []
        for one in self._extensions:
            if one.name in authorization.more and one.kept_as is not None:
                found += await one.shown(msgspec.convert(authorization.more[one.name], one.kept_as), subject)
        return found

    async def propose(self, authorization: Authorization, session: SessionView, *, since: int, remote: str) -> Proposal:  # noqa: ARG002
        """As the contract says; every session will do, and every scope of the client may be granted."""
        if self.refusal is not None:
            raise self.refusal
        client = self._clients.get(authorization.client_id)
        if client is None:
            raise NotFound("the client is not registered any more")
        return Proposal(
            client=client,
            authorization=authorization,
            scopes=tuple(ScopeDefinition(scope, f"Use {scope}") for scope in authorization.scopes),
            shown=tuple(await self.shown(authorization, session.subject)),
        )

    def allow(self, tx: Tx, proposal: Proposal, session: SessionView, *, origin: bytes, until: int) -> None:
        """As the contract says; no session ever ends."""
        self._kept.put(tx, origin.hex(), _Approval(proposal, session, until))

    async def allowed(self, request: ProvenRequest, origin: bytes) -> Granted:
        """As the contract says."""
        if self.refusal is not None:
            raise self.refusal
        found = self._approvals.get(origin.hex())
        if found is None or found.used or found.proposal.client.client_id != request.client.client_id:
            raise InvalidGrant("the approval is unknown, used or another client's")
        session, authorization = found.session, found.proposal.authorization
        return Granted(
            subject=session.subject,
            client_id=authorization.client_id,
            scopes=authorization.scopes,
            authentication=Authentication(auth_time=session.auth_time, amr=session.amr, acr=session.acr),
            more=authorization.more,
            may_refresh=True,
            origin=origin,
        )

    def redeem(self, tx: Tx, granted: Granted) -> None:
        """As the contract says."""
        found = None if granted.origin is None else self._kept.get(tx, granted.origin.hex())
        if found is None or found.used or found.until <= tx.now or granted.origin is None:
            raise Refuse(InvalidGrant("the approval is unknown, used or too old"))
        self._kept.put(tx, granted.origin.hex(), msgspec.structs.replace(found, used=True))


class _Approval(msgspec.Struct, frozen=True):
    proposal: Proposal
    session: SessionView
    until: int
    used: bool = False
