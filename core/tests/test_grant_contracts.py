"""The contract of grants, driven by one with a table of its own; and the TOKENS of unit tests."""

import secrets

import msgspec
import pytest
from sqlalchemy import Column, MetaData, insert, select, update

from greatseal.api.clients import Client, ClientMatch, ProvenRequest
from greatseal.api.http import Parameters
from greatseal.api.identity import AccessDenied
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refuse, Refused
from greatseal.api.tokens import AccessToken, Grant, Granted, GrantQuestion, InvalidGrant, SubjectToken
from greatseal.db.tables import Flag, State, Text, param, table
from greatseal.jose.algorithms import verify
from greatseal.jose.compact import parse_compact
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.store import make_tables, open_test_database
from greatseal.testing.tokens import FakeTokens, GrantContract

metadata = MetaData()
ticket = table(
    "t_ticket", metadata, State.OWNED, Column("name", Text, primary_key=True), Column("client_id", Text, nullable=False),
    Column("used", Flag, nullable=False),
)  # fmt: skip
MAKE = insert(ticket).values(name=param("name"), client_id="c1", used=0)
FIND = select(ticket).where(ticket.c.name == param("name"))
CONSUME = update(ticket).where(ticket.c.name == param("name"), ticket.c.used == 0).values(used=1).returning(*ticket.c)
CLIENT = Client(client_id="c1", token_endpoint_auth_method="none", scopes=("openid", "email"))


class Admission(msgspec.Struct, frozen=True):
    name: str
    client_id: str
    scopes: tuple[str, ...]


class Tickets(Grant[Admission]):
    """A ticket admits once."""

    grant_type = "urn:example:ticket"
    handle = ("ticket", "tk")

    def __init__(self, store, tokens):
        self.store = store
        self.tokens = tokens

    async def prepare(self, request):
        name = request.form.get("ticket")
        if name is None:
            raise BadRequest("ticket is required")
        question = GrantQuestion(
            phase="token", subject="alice@EXAMPLE", client=request.client, scopes=frozenset({"openid", "email"}), remote=request.call.remote
        )
        allowed = await self.tokens.permitted(question)
        return Admission(name, request.client.client_id, tuple(sorted(allowed)))

    def redeem(self, tx, prepared):
        row = tx.one(CONSUME, name=prepared.name)
        if row is None:
            if tx.one(FIND, name=prepared.name) is None:
                raise Refuse(InvalidGrant("the ticket is unknown"))
            self.tokens.revoke_origin(tx, prepared.name.encode())
            return Refused(InvalidGrant("the ticket was used"))
        if row.client_id != prepared.client_id:
            raise Refuse(InvalidGrant("the ticket is another client's"))
        return Granted(subject="alice@EXAMPLE", client_id=row.client_id, scopes=prepared.scopes, origin=prepared.name.encode())


@pytest.fixture
async def store(tmp_path):
    url = f"sqlite:///{tmp_path}/tickets.db"
    make_tables(url, metadata)
    async with open_test_database(url) as opened:
        yield opened


async def request_of(store):
    name = secrets.token_urlsafe()
    await store.write(lambda tx: tx.run(MAKE, name=name))
    form = Parameters([("grant_type", Tickets.grant_type), ("ticket", name)])
    return ProvenRequest(call=FakeCall("POST"), form=form, client=CLIENT, match=ClientMatch(subject="c1"))


class TestTickets(GrantContract):
    @pytest.fixture(autouse=True)
    def _store(self, store):
        self.store = store
        self.made = Tickets(store, FakeTokens())

    def grant(self):
        return self.made

    def database(self):
        return self.store

    async def request(self):
        return await request_of(self.store)


class Forgetful(Tickets):
    """Looks, and consumes nothing; whoever asks is answered."""

    def redeem(self, tx, prepared):
        return Granted(subject="alice@EXAMPLE", client_id=prepared.client_id, scopes=prepared.scopes)


@pytest.mark.parametrize(
    "promise",
    ["a_handle_is_redeemed_once", "another_client_gets_nothing_and_burns_nothing", "a_handle_that_is_none_is_refused_and_no_error"],
)
async def test_the_contract_notices_a_grant_that_consumes_nothing(store, promise):
    contract = TestTickets()
    contract.store, contract.made = store, Forgetful(store, FakeTokens())

    with pytest.raises(pytest.fail.Exception):
        await getattr(contract, f"test_{promise}")()


async def test_an_origin_is_revoked_when_a_second_use_commits_and_not_before(store):
    tokens = FakeTokens()
    grant, request = Tickets(store, tokens), await request_of(store)
    prepared = await grant.prepare(request)
    await store.write(grant.redeem, prepared)

    def undone(tx):
        grant.redeem(tx, prepared)
        raise Refuse(BadRequest("undone"))

    with pytest.raises(BadRequest):
        await store.write(undone)
    assert tokens.revoked == []
    assert isinstance(await store.write(grant.redeem, prepared), Refused)
    assert tokens.revoked == [prepared.name.encode()]


# ---- TOKENS


async def test_the_fake_tokens_leave_what_is_not_withheld():
    tokens = FakeTokens()
    tokens.withheld = frozenset({"email"})
    question = GrantQuestion(
        phase="token", subject="alice@EXAMPLE", client=CLIENT, scopes=frozenset({"openid", "email"}), remote="192.0.2.1"
    )

    assert await tokens.permitted(question) == {"openid"}
    with pytest.raises(AccessDenied):
        await tokens.permitted(msgspec.structs.replace(question, scopes=frozenset({"email"})))
    assert await tokens.permitted(msgspec.structs.replace(question, scopes=frozenset())) == frozenset()
    assert tokens.questions[0] == question


async def test_the_fake_tokens_expire_by_the_clock():
    clock = FakeClock()
    tokens = FakeTokens(clock=clock)
    end = clock.now() + 60_000_000
    tokens.live["a"] = AccessToken(subject="alice@EXAMPLE", client_id="c1", scopes=frozenset(), expires_at=end, jti="1", claims={})
    tokens.subjects["b", "urn:t"] = SubjectToken(
        subject="alice@EXAMPLE", issuer="i", client_id=None, scopes=frozenset(), expires_at=end, authentication=None, claims={}
    )

    assert (await tokens.access("a"), await tokens.access("b")) == (tokens.live["a"], None)
    assert (await tokens.subject("b", "urn:t"), await tokens.subject("a", "urn:t")) == (tokens.subjects["b", "urn:t"], None)
    with pytest.raises(BadRequest):
        await tokens.subject("b", "urn:other")
    clock.advance(60)
    assert (await tokens.access("a"), await tokens.subject("b", "urn:t")) == (None, None)


async def test_the_fake_tokens_sign_for_others_and_never_what_grants_give():
    tokens = FakeTokens()

    jws = parse_compact(await tokens.sign("logout+jwt", {"sub": "alice@EXAMPLE"}))

    assert (jws.header["typ"], msgspec.json.decode(jws.payload)) == ("logout+jwt", {"sub": "alice@EXAMPLE", "iss": tokens.issuer})
    verify("ES256", tokens.key.public_key(), jws.signing_input, jws.signature)
    for typ in ("at+jwt", "application/at+jwt", "JWT"):
        with pytest.raises(ValueError, match="grants alone"):
            await tokens.sign(typ, {"sub": "alice@EXAMPLE", "aud": "c1"})
    for claims in ({"sub": "alice@EXAMPLE"}, {"aud": "c1"}):
        assert parse_compact(await tokens.sign("JWT", claims)).header["typ"] == "JWT", "an ID token has both"
    with pytest.raises(KeyError):
        await tokens.sign("logout+jwt", {}, alg="RS256")
