"""What every extension of the authorization request must do, as a test class to inherit; and an AUTHORIZATIONS for unit tests."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_args

import msgspec
import pytest

from greatseal.api.authorization import Ask, Authorization, Extension, Granting, Place, ResponseMode, Shown, Terms, Wish
from greatseal.api.clients import Client, ProvenRequest, Registration
from greatseal.api.http import Parameters
from greatseal.api.problems import Problem
from greatseal.api.tokens import InvalidScope
from greatseal.testing.bindings import asks_for_nothing

__all__ = ["ExtensionContract", "FakeAuthorizations"]

MAX_KEPT = 32_768
PLACES = ("authorize", "par", "device", "backchannel", "token")


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
        wish = await self.extension().ask(self._ask(place))
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
                found = await self.extension().ask(self._ask(place, empty=empty))
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

    Scopes are cut to those of the client; the parameter ``claims`` is not read.
    """

    def __init__(self, *extensions: Extension[Any]) -> None:
        self._extensions = sorted(extensions, key=lambda one: (one.order, one.name))

    async def read(self, request: ProvenRequest, at: Place) -> Authorization:
        """As the contract says."""
        form, client = request.form, request.client
        ask = Ask(at=at, client=client, given=form, sent=form, remote=request.call.remote, proven=request.proven)
        for one in self._extensions:
            if one.opens is not None and one.opens in form:
                ask = msgspec.structs.replace(ask, given=await one.open(ask))
        repeatable = frozenset().union(*(one.repeatable for one in self._extensions))
        for name in ask.given.keys() - repeatable:
            _ = ask.given[name]  # raises BadRequest where it was given twice
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

    async def shown(self, authorization: Authorization, subject: str) -> Sequence[Shown]:
        """As the contract says."""
        found: list[Shown] = []
        for one in self._extensions:
            if one.name in authorization.more and one.kept_as is not None:
                found += await one.shown(msgspec.convert(authorization.more[one.name], one.kept_as), subject)
        return found
