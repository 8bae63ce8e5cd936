"""Trusted issuers of the configuration, and the grant, against tokens that a test signs. Over HTTP: tests/security/test_idp_bearer.py."""

import json
from types import SimpleNamespace
from urllib.parse import urlencode

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import example, given
from hypothesis import strategies as st

from greatseal.api.clients import Client, ClientMatch, InvalidClientMetadata, ProvenRequest, Registration
from greatseal.api.directory import User
from greatseal.api.http import Parameters
from greatseal.api.identity import AccessDenied, AccountRefused
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.store import Refused
from greatseal.api.tokens import InvalidGrant, InvalidScope, UnauthorizedClient
from greatseal.api.trust import NotVouched, TrustedIssuer
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.compact import b64url_encode
from greatseal.jose.foreign import LEEWAY, LONGEST, read
from greatseal.jose.jwk import jwk_of
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.directories import FakeDirectories
from greatseal.testing.parsers import ParserContract
from greatseal.testing.store import open_test_database
from greatseal.testing.strikes import strikes_of
from greatseal.testing.tokens import FakeTokens, GrantContract
from greatseal.testing.trust import AUDIENCE, TrustedIssuerContract, signed
from greatseal_jwt_bearer.grant import GRANT_TYPE, REFUSED, JwtBearer
from greatseal_jwt_bearer.issuers import ConfiguredIssuer
from greatseal_jwt_bearer.plugin import Plugin
from greatseal_jwt_bearer.registration import Bearers
from greatseal_jwt_bearer.settings import BearerSettings, IssuerTable

ISSUER = "https://ci.example"
KEY = ec.generate_private_key(ec.SECP256R1())
JWKS = {"keys": [{**jwk_of(KEY.public_key()), "kid": "k1"}]}
ANN = User(username="ann", realm="EXAMPLE", source="users-file")
SCRIPT = Client(
    client_id="deployer",
    token_endpoint_auth_method="client_secret_basic",
    scopes=("openid", "email", "offline_access", "deploy"),
    grant_types=(GRANT_TYPE,),
)


def table(**changes):
    fields = {"issuer": ISSUER, "jwks": JWKS, "subject": "username", **changes}
    return IssuerTable(**{name: value for name, value in fields.items() if value is not None})


class Strikes:
    def __init__(self):
        self.taken = set()

    def take_within(self, tx, kind, key, until):
        return (kind, key, until) not in self.taken and not self.taken.add((kind, key, until))


class World:
    """What the plugin sees of a service."""

    def __init__(self, *tables, jwks=None):
        self.clock = FakeClock()
        self.issuer = AUDIENCE
        self.strikes = Strikes()
        self.blocked_keys = self
        self.blocked = set()
        self.events = []
        self.tokens = FakeTokens(issuer=AUDIENCE, clock=self.clock)
        self.directories = FakeDirectories(ANN)
        self.remote = self
        self.issuers = [ConfiguredIssuer(one, self, self, self.directories) for one in tables or (table(),)]

    async def find(self, name):
        return SimpleNamespace(reason="leaked") if name in self.blocked else None

    async def of(self, url, header):
        raise Unavailable("the keys that would check the signature cannot be had now", cause=url)

    async def audit_log(self, event):
        self.events.append(event)

    def components(self, contract):
        assert contract is TrustedIssuer
        return {one.name: one for one in self.issuers}

    def claims(self, **changes):
        now = self.clock.now() // SECOND
        told = {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "exp": now + 300, "iat": now, "jti": "j1", **changes}
        return {name: value for name, value in told.items() if value is not None}

    def token(self, *, key=KEY, header=None, **changes):
        return signed(key, self.claims(**changes), **{"kid": "k1", **(header or {})})

    async def vouch(self, text=None, **changes):
        return await self.issuers[0].vouch(read(text or self.token(**changes)), frozenset({AUDIENCE}))

    async def bring(self, text=None, *, client=SCRIPT, form=None, **more):
        sent = {"assertion": text or self.token(), **(form or {})}
        return await JwtBearer(self, self.tokens).prepare(request_of(sent, client, **more))

    async def refused(self, text, **more):
        """The cause of a refusal that tells strangers nothing, as the audit event has it."""
        with pytest.raises(InvalidGrant) as refused:
            await self.bring(text, **more)
        assert refused.value.detail == REFUSED
        event = self.events[-1]
        assert (event.event_type, event.outcome, event.client_id) == ("jwt_bearer_failure", "failure", SCRIPT.client_id)
        assert event.detail.endswith(refused.value.cause)
        return event.detail


def request_of(form, client=SCRIPT, **more):
    text = urlencode([("grant_type", GRANT_TYPE), *form.items()]).encode()
    return ProvenRequest(
        call=FakeCall("POST"), form=Parameters.parse(text), client=client, match=ClientMatch(subject=client.client_id), **more
    )


@pytest.fixture
def world():
    return World()


class TestConfiguredIssuer(TrustedIssuerContract):
    key = KEY

    def issuer(self, clock, jwks):
        world = World()
        world.clock = clock
        return ConfiguredIssuer(table(jwks=jwks), world, world, world.directories)

    def claims(self, now):
        return {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "exp": now + 60, "iat": now, "jti": "1"}


class TestJwtBearer(GrantContract):
    @pytest.fixture(autouse=True)
    async def _store(self, tmp_path):
        self.world, self.brought = World(table(clients=("deployer",))), 0
        async with open_test_database(f"sqlite:///{tmp_path}/bearer.db") as self.store:
            self.world.strikes = strikes_of(self.world.clock, self.store)
            yield

    def grant(self):
        return JwtBearer(self.world, self.world.tokens)

    def database(self):
        return self.store

    async def request(self):
        self.brought += 1
        return request_of({"assertion": self.world.token(jti=f"j{self.brought}")})


# ---- Whom a token means


async def test_idp_353_a_person_is_one_that_the_directory_knows(world):
    prepared = await world.bring()
    granted = prepared.granted

    assert (granted.subject, granted.client_id, granted.scopes) == ("ann@EXAMPLE", "deployer", ("openid", "email", "deploy"))
    assert granted.authentication.auth_time == world.clock.now() // SECOND * SECOND
    assert (granted.authentication.amr, granted.authentication.acr, granted.authentication.session_id) == ((), None, None)
    assert (granted.may_refresh, granted.family, granted.id_token, granted.claims, granted.exchanged) == (False, None, None, {}, {})
    (event,) = granted.events
    assert (event.event_type, event.sub, event.principal, event.client_id) == ("jwt_bearer", "ann", "ann@EXAMPLE", "deployer")
    assert event.detail == "iss=https://ci.example jti=j1"
    (question,) = world.tokens.questions
    assert (question.phase, question.subject, question.client) == ("token", "ann@EXAMPLE", SCRIPT)
    assert question.auth_time == granted.authentication.auth_time + SECOND - 1
    assert await world.refused(world.token(sub="ben")) == "iss=https://ci.example no directory knows the person"


async def test_the_sign_in_is_the_one_that_the_issuer_tells_of(world):
    now = world.clock.now() // SECOND

    assert (await world.vouch(auth_time=now - 50)).authenticated_at == (now - 50) * SECOND
    assert (await world.vouch(iat=now + LEEWAY)).authenticated_at == world.clock.now()
    assert (await world.vouch(iat=None)).authenticated_at == world.clock.now()


async def test_another_claim_may_name_the_person():
    world = World(table(subject="claim:preferred_username"))

    assert (await world.vouch(sub="4711", preferred_username="ann")).local == "ann@EXAMPLE"
    with pytest.raises(NotVouched, match="expired"):
        await world.vouch()


async def test_a_map_names_people_and_nobody_else():
    world = World(table(subject="map", people={"repo:shop": "ann", "repo:gone": "gone"}))

    assert (await world.vouch(sub="repo:shop")).local == "ann@EXAMPLE"
    for subject in ("repo:gone", "repo:other", "ann"):
        with pytest.raises(NotVouched):
            await world.vouch(sub=subject)


async def test_a_workload_is_no_person_and_no_client():
    world = World(table(subject="workload", workloads=("system:serviceaccount:build:ci", "repo:shop/*"), scopes=("openid", "deploy")))

    granted = (await world.bring(world.token(sub="system:serviceaccount:build:ci"))).granted
    assert granted.subject == "https://ci.example#system:serviceaccount:build:ci"
    assert (granted.authentication, granted.scopes) == (None, ("deploy",)), "scopes about people are for people"
    assert world.tokens.questions[-1].phase == "client"
    assert (await world.vouch(sub="repo:shop/site@EXAMPLE#ann")).local == "https://ci.example#repo:shop/site%40EXAMPLE%23ann"
    for subject in ("repo:shop", "system:serviceaccount:build:ci2", "ann"):
        assert "none of those that may come" in await world.refused(world.token(sub=subject))


async def test_only_tokens_with_the_claims_that_the_configuration_requires():
    world = World(table(require={"repository_owner": "shop"}))

    assert (await world.vouch(repository_owner="shop")).local == "ann@EXAMPLE"
    for value in (None, "other", ["shop"], 1):
        with pytest.raises(NotVouched):
            await world.vouch(repository_owner=value)


async def test_a_further_audience_and_a_longer_life_are_the_configurations():
    world = World(table(audiences=("greatseal",), max_lifetime=60))
    now = world.clock.now() // SECOND

    assert await world.vouch(aud=["greatseal"], exp=now + 60 + LEEWAY)
    with pytest.raises(NotVouched):
        await world.vouch(exp=now + 61 + LEEWAY)


async def test_keys_that_cannot_be_had_are_an_outage_and_no_verdict():
    world = World(table(jwks=None, jwks_uri="https://ci.example/keys"))

    with pytest.raises(Unavailable):
        await world.bring()
    assert world.events == []


async def test_a_blocked_key_vouches_for_nobody(world):
    world.blocked = {spki_sha256(KEY.public_key())}

    assert "blocked" in await world.refused(world.token())


# ---- What an assertion may not be


@pytest.mark.parametrize("header", [{"jwk": JWKS["keys"][0]}, {"jku": "https://x.example"}, {"x5u": "https://x.example"}])
async def test_s042_a_token_brings_no_key_of_its_own(world, header):
    assert "brings a key" in await world.refused(world.token(header=header))


@pytest.mark.parametrize(
    "header", [{"crit": ["b64"]}, {"b64": False}, {"typ": "at+jwt"}, {"typ": "logout+jwt"}, {"typ": 1}, {"kid": "k2"}, {"kid": 1}]
)
async def test_s050_another_kind_of_token_is_no_assertion(world, header):
    await world.refused(world.token(header=header))


async def test_a_logout_token_without_a_type_is_none(world):
    await world.refused(world.token(events={"http://schemas.openid.net/event/backchannel-logout": {}}))


@pytest.mark.parametrize("typ", ["JWT", "jwt", "application/jwt", "authorization-grant+jwt"])
async def test_the_types_of_assertions(world, typ):
    assert await world.bring(world.token(header={"typ": typ}))


async def test_s047_an_assertion_has_a_jti_and_is_used_once(world):
    for value in (None, "", "a\0b", "a\nb", "x" * 257, 1, ["j"]):
        await world.refused(world.token(jti=value))
    grant, prepared = JwtBearer(world, world.tokens), await world.bring()
    events = []
    tx = SimpleNamespace(audit=events.append)

    assert grant.redeem(tx, prepared) == prepared.granted
    again = grant.redeem(tx, await world.bring())
    assert isinstance(again, Refused)
    assert again.problem.detail == REFUSED
    assert [(event.event_type, event.outcome, event.detail) for event in events] == [
        ("jwt_bearer_failure", "failure", "iss=https://ci.example jti=j1 used before")
    ]


async def test_the_owner_of_an_assertion_is_named_by_its_jti(world):
    grant = JwtBearer(world, world.tokens)

    assert grant.outside_key({"assertion": world.token()}) == f"jwt_bearer:{len(ISSUER)}:{ISSUER}:j1"
    for form in ({}, {"assertion": "x"}, {"assertion": world.token(jti=None)}, {"assertion": world.token(iss=1)}):
        assert grant.outside_key(form) is None


async def test_a_stranger_and_an_issuer_that_is_there_twice_are_refused(world):
    assert await world.refused(world.token(iss="https://stranger.example")) == "no trusted issuer takes it for its own"
    world.issuers = world.issuers * 2
    world.components = lambda _: dict(enumerate(world.issuers))
    assert await world.refused(world.token()) == "more than one trusted issuer takes it for its own"


async def test_actors_of_others_are_nobody_here(world):
    named = {"sub": "deployer", "iss": AUDIENCE}

    assert await world.bring(world.token(may_act=named))
    for may_act in ({"sub": "deployer"}, {**named, "iss": ISSUER}, {**named, "sub": "x"}, "deployer", []):
        assert "may_act" in await world.refused(world.token(may_act=may_act))
    assert "actors" in await world.refused(world.token(act={"sub": "x"}))


async def test_a_bound_assertion_needs_its_key(world):
    bound = world.token(cnf={"jkt": "t"})

    assert await world.bring(bound, proven={"jkt": "t"})
    for proven in ({}, {"jkt": "u"}, {"x5t#S256": "t"}):
        assert "bound to a key" in await world.refused(bound, proven=proven)
    for cnf in ({}, "t", []):
        await world.refused(world.token(cnf=cnf), proven={"jkt": "t"})


# ---- Which client, which scopes


async def test_an_issuer_may_be_for_some_clients_alone():
    assert await World(table(clients=("deployer",))).bring()
    assert "none of those" in await World(table(clients=("other",))).refused(None)


async def test_who_brings_an_assertion_is_known_and_proven(world):
    for change in ({"source": "registration"}, {"token_endpoint_auth_method": "none"}):
        with pytest.raises(UnauthorizedClient):
            await world.bring(client=msgspec.structs.replace(SCRIPT, **change))
    with pytest.raises(BadRequest, match="assertion is required") as refused:
        await JwtBearer(world, world.tokens).prepare(request_of({}))
    assert refused.value.error == "invalid_request"


@pytest.mark.parametrize(
    ("change", "open"),
    [({}, True), ({"source": "registration"}, False), ({"token_endpoint_auth_method": "none"}, False)],
)
def test_only_an_administrator_registers_who_brings_assertions(change, open):
    bearers = Bearers()
    bearers.check(Registration(client=SCRIPT, open=False))
    bearers.check(Registration(client=msgspec.structs.replace(SCRIPT, grant_types=(), **change), open=open))

    with pytest.raises(InvalidClientMetadata):
        bearers.check(Registration(client=msgspec.structs.replace(SCRIPT, **change), open=open))


async def test_scopes_are_those_of_client_issuer_and_policy():
    world = World(table(scopes=("email", "deploy")))

    assert (await world.bring()).granted.scopes == ("email", "deploy")
    assert (await world.bring(form={"scope": "deploy openid deploy"})).granted.scopes == ("deploy",)
    for scope in ("openid", "admin", "deploy admin"):
        with pytest.raises(InvalidScope):
            await world.bring(form={"scope": scope})
    assert (await world.bring(form={"scope": "openid"}, scopeless=True)).granted.scopes == ()
    world.tokens.withheld = frozenset({"email"})
    assert (await world.bring()).granted.scopes == ("deploy",)
    world.tokens.refusal = AccessDenied("policy")
    with pytest.raises(AccessDenied):
        await world.bring()


async def test_an_account_that_may_not_sign_in_is_an_assertion_of_nobody(world):
    world.tokens.refusal = AccountRefused("the account is disabled")

    assert await world.refused(world.token()) == "iss=https://ci.example the account is disabled"


# ---- The configuration


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"issuer": "http://ci.example"}, "issuer: expected an https"),
        ({"issuer": "https://ci.example?x=1"}, "issuer: expected"),
        ({"issuer": "https://u@ci.example"}, "issuer: expected"),
        ({"issuer": "https://ci.example#x"}, "issuer: expected"),
        ({"issuer": "https://ci.example:x"}, "issuer: expected"),
        ({"issuer": "https://ci example"}, "issuer: expected"),
        ({"issuer": "https://"}, "issuer: expected"),
        ({"issuer": "ci@example.org"}, "issuer: expected"),
        ({"jwks": None, "jwks_uri": "http://ci.example/keys"}, "jwks_uri: expected"),
        ({"jwks": None}, "expected one of them"),
        ({"jwks_uri": "https://ci.example/keys"}, "expected one of them"),
        ({"jwks": {"keys": []}}, "jwks: "),
        ({"jwks": {"keys": [{"kty": "oct", "k": "AA"}]}}, "jwks: "),
        ({"subject": "sub"}, "subject: expected"),
        ({"subject": "claim:"}, "subject: expected"),
        ({"subject": "map"}, "people: given"),
        ({"people": {"x": "ann"}}, "people: given"),
        ({"subject": "workload"}, "workloads: given"),
        ({"workloads": ("x",)}, "workloads: given"),
        ({"subject": "workload", "workloads": ("*",)}, "workloads: expected"),
        ({"subject": "workload", "workloads": ("a*b",)}, "workloads: expected"),
    ],
)
def test_a_table_that_cannot_be_right_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        table(**changes)


def test_this_service_is_no_issuer_that_it_trusts(world):
    def said(*tables):
        world.settings = lambda _: BearerSettings(issuers=tables)
        return list(Plugin().verify(world))

    assert said(table()) == []
    (line,) = said(table(), table(issuer=AUDIENCE))
    assert line.startswith("[jwt_bearer] issuers: this service is among them")


def test_an_issuer_stands_there_once():
    with pytest.raises(ValueError, match="is there twice"):
        BearerSettings(issuers=(table(), table()))


# ---- Bytes of strangers


class TestAssertions(ParserContract):
    """Header, claims and signature change each for itself."""

    valid = (b'{"alg":"ES256","kid":"k1"}', json.dumps(World().claims()).encode(), b"x" * 64)
    refusals = NotVouched

    def read(self, *parts):
        token = read(".".join(map(b64url_encode, parts)))
        assert isinstance(token.header["alg"], str)
        assert isinstance(token.claims, dict)

    def test_what_is_no_token_is_refused(self):
        for text in ("", ".", "..", "a.b.c", "ä.b.c", "x" * (LONGEST + 1)):
            with pytest.raises(NotVouched):
                read(text)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=5,
)
NAMES = ("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "auth_time", "act", "may_act", "cnf", "events")


@given(
    st.dictionaries(st.sampled_from(NAMES), JSON), st.dictionaries(st.sampled_from(("typ", "kid", "x5t#S256", "jwk", "crit", "cty")), JSON)
)
@example({"sub": "ann\0"}, {})
@example({"aud": [[]]}, {"kid": []})
@example({"exp": 1e400}, {})
async def test_whatever_an_issuer_signs_is_taken_or_refused(claims, header):
    world = World()
    text = signed(KEY, world.claims(**claims), **{"kid": "k1", **header})

    try:
        prepared = await world.bring(text)
    except InvalidGrant:
        assert len(world.events) == 1
    else:
        assert prepared.granted.subject == "ann@EXAMPLE"
