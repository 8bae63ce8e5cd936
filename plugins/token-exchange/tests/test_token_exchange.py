"""The grant against tokens that a test makes up. Over HTTP: tests/security/test_idp_exchange.py."""

from urllib.parse import urlencode

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.clients import Client, ClientMatch, InvalidClientMetadata, ProvenRequest, Registration
from greatseal.api.http import Parameters
from greatseal.api.identity import AccessDenied, AccountRefused
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.tokens import Authentication, InvalidScope, InvalidTarget, SubjectToken, UnauthorizedClient
from greatseal.api.trust import TrustedIssuer, Vouched
from greatseal.jose.compact import b64url_encode
from greatseal.testing.calls import FakeCall
from greatseal.testing.tokens import FakeTokens, GrantContract
from greatseal.testing.trust import signed
from greatseal_token_exchange.grant import GRANT_TYPE, TokenExchange
from greatseal_token_exchange.order import ACCESS_TOKEN, ID_TOKEN, JWT
from greatseal_token_exchange.registration import Exchangers

ISSUER = "https://issuer.example"
KEY = ec.generate_private_key(ec.SECP256R1())
API = "https://api.example/"
SERVICE = Client(
    client_id="orders",
    token_endpoint_auth_method="client_secret_basic",
    scopes=("openid", "email", "offline_access", "stock"),
    grant_types=(GRANT_TYPE,),
    allow_token_exchange_actor=True,
    more={"resources": [API]},
)
SEEN = Authentication(auth_time=1_000_000, amr=("pwd",), acr="1", session_id="s1")
GOOD = {"subject_token": "ann", "subject_token_type": ACCESS_TOKEN}
ACTOR = {"actor_token": "self", "actor_token_type": ACCESS_TOKEN}
BOUND = {"cnf": {"jkt": "k1"}}


def token(claims=None, **changes):
    fields = {
        "subject": "ann@EXAMPLE",
        "issuer": ISSUER,
        "client_id": "shop",
        "scopes": frozenset({"openid", "email", "offline_access", "admin"}),
        "expires_at": 4_000_000_000_000_000,
        "authentication": SEEN,
        "claims": {"sub": "ann@EXAMPLE", "aud": ISSUER, "scope": "openid email offline_access admin", **(claims or {})},
    }
    return SubjectToken(**{**fields, **changes})


def tokens_of():
    made = FakeTokens(issuer=ISSUER)
    own = {"subject": "orders", "client_id": "orders", "authentication": None, "scopes": frozenset({"stock"})}
    made.subjects = {
        ("ann", ACCESS_TOKEN): token(),
        ("ann", JWT): token(),
        ("id", ID_TOKEN): msgspec.structs.replace(
            token(), client_id="orders", scopes=frozenset({"openid"}), claims={"sub": "ann@EXAMPLE", "aud": "orders"}
        ),
        ("id of shop", ID_TOKEN): msgspec.structs.replace(token(), scopes=frozenset({"openid"}), claims={"aud": "shop"}),
        ("self", ACCESS_TOKEN): token(**own),
        ("self bound", ACCESS_TOKEN): token(BOUND, **own),
        ("ann at orders", ACCESS_TOKEN): token(client_id="orders"),
        ("program", ACCESS_TOKEN): token(client_id="other", subject="other", authentication=None),
        ("of orders for other", ACCESS_TOKEN): token(client_id="other", subject="orders", authentication=None),
        ("foreign", ACCESS_TOKEN): token(issuer="https://other.example"),
        ("bound", ACCESS_TOKEN): token(BOUND),
        ("bound to nothing", ACCESS_TOKEN): token({"cnf": {}}),
        ("bound for us", ACCESS_TOKEN): token({**BOUND, "aud": [API]}),
    }
    return made


@pytest.fixture
def tokens():
    return tokens_of()


def request_of(form, client=SERVICE, **more):
    pairs = form if isinstance(form, list) else list(form.items())
    text = urlencode([("grant_type", GRANT_TYPE), *pairs]).encode()
    return ProvenRequest(
        call=FakeCall("POST"), form=Parameters.parse(text), client=client, match=ClientMatch(subject=client.client_id), **more
    )


@pytest.fixture
def exchange(tokens):
    async def run(form, client=SERVICE, **more):
        return await TokenExchange(tokens, ISSUER).prepare(request_of(form, client, **more))

    return run


class TestTokenExchange(GrantContract):
    @pytest.fixture(autouse=True)
    def _tokens(self, tokens):
        self.tokens = tokens

    def grant(self):
        return TokenExchange(self.tokens, ISSUER)

    def database(self):
        raise NotImplementedError  # nothing is consumed

    async def request(self):
        return request_of({**GOOD, **ACTOR})


async def test_the_new_token_holds_no_more_and_lives_no_longer(exchange, tokens):
    granted = await exchange(GOOD)

    assert granted.subject == "ann@EXAMPLE"
    assert granted.scopes == ("openid", "email"), "of the client and of the subject token, and never offline_access"
    assert granted.not_after == tokens.subjects["ann", ACCESS_TOKEN].expires_at
    assert granted.authentication == SEEN
    assert granted.exchanged == tokens.subjects["ann", ACCESS_TOKEN].claims
    assert (granted.may_refresh, granted.family, granted.id_token) == (False, None, None)
    assert granted.issued_token_type == ACCESS_TOKEN
    assert granted.claims == {"via": ["shop"]}, "without an actor nobody is named but the client that it came from"
    assert [event.event_type for event in granted.events] == ["token_exchange"]
    (question,) = tokens.questions
    assert (question.phase, question.subject, question.actor, question.target_service) == ("exchange", "ann@EXAMPLE", None, None)
    assert question.auth_time == SEEN.auth_time + 999_999, "tokens tell whole seconds"


async def test_what_ends_the_subject_token_ends_the_new_one(exchange, tokens):
    tokens.subjects["ann", ACCESS_TOKEN] = token({"family": "f1", "origin": b64url_encode(b"code")})

    granted = await exchange(GOOD)

    assert granted.claims == {"family": "f1", "via": ["shop"]}
    assert granted.origin == b"code"


async def test_a_token_tells_each_client_that_it_came_from_once(exchange, tokens):
    tokens.subjects["ann", ACCESS_TOKEN] = token({"via": ["first", "orders", "shop"]})
    assert (await exchange(GOOD)).claims == {"via": ["first", "shop"]}, "it ends with its own client anyway"


async def test_s035_idp_053_idp_054_an_actor_is_named_by_its_registration_with_those_before_it(exchange, tokens):
    first = {"sub": "shop", "workload_type": "web"}
    tokens.subjects["ann", ACCESS_TOKEN] = token({"act": first})
    typed = msgspec.structs.replace(SERVICE, workload_type="backend")
    tokens.subjects["self", ACCESS_TOKEN] = msgspec.structs.replace(
        tokens.subjects["self", ACCESS_TOKEN], claims={"workload_type": "forged", "act": {"sub": "forged"}}
    )

    assert (await exchange({**GOOD, **ACTOR}, typed)).claims["act"] == {"sub": "orders", "workload_type": "backend", "act": first}
    assert (await exchange({**GOOD, **ACTOR})).claims["act"] == {"sub": "orders", "act": first}
    assert (await exchange(GOOD)).claims["act"] == first, "impersonation hides nobody"
    assert tokens.questions[0].actor == typed


async def test_five_actors_and_no_more(exchange, tokens):
    act = {"sub": "a1"}
    for number in range(2, 5):
        act = {"sub": f"a{number}", "act": act}
    tokens.subjects["ann", ACCESS_TOKEN] = token({"act": act})
    fifth = (await exchange({**GOOD, **ACTOR})).claims["act"]
    tokens.subjects["ann", ACCESS_TOKEN] = token({"act": fifth})

    with pytest.raises(BadRequest, match="5 actors"):
        await exchange({**GOOD, **ACTOR})
    assert (await exchange(GOOD)).claims["act"] == fifth


@pytest.mark.parametrize(
    ("named", "may"),
    [
        ({"sub": "orders"}, True),
        ({"sub": "orders", "iss": ISSUER}, True),
        ({"sub": "orders", "iss": "https://other.example"}, False),
        ({"sub": "shop"}, False),
        ({}, False),
        ("orders", False),
        (None, False),
    ],
)
async def test_may_act_names_who_may(exchange, tokens, named, may):
    tokens.subjects["ann", ACCESS_TOKEN] = token({"may_act": named})

    for form in (GOOD, {**GOOD, **ACTOR}):
        if may:
            assert (await exchange(form)).claims["may_act"] == named, "it holds for what comes of the token too"
        else:
            with pytest.raises(AccessDenied, match="may_act"):
                await exchange(form)


async def test_the_gate_of_actors_stands_before_everything(exchange, tokens):
    closed = msgspec.structs.replace(SERVICE, allow_token_exchange_actor=False)
    for form in ({**GOOD, **ACTOR}, {"actor_token": "x"}, {**ACTOR, "subject_token": "bad", "subject_token_type": "bad"}):
        with pytest.raises(AccessDenied, match="allow_token_exchange_actor") as refused:
            await exchange(form, closed)
        assert refused.value.status == 403
    assert tokens.questions == []
    assert await exchange(GOOD, closed)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"subject_token": None, "subject_token_type": None}, "invalid_request", "are required"),
        ({"subject_token": None}, "invalid_request", "go together"),
        ({"subject_token_type": None}, "invalid_request", "go together"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:saml2"}, "invalid_request", "subject_token_type: expected"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}, "invalid_request", "subject_token_type: expected"),
        ({"subject_token_type": ""}, "invalid_request", "expected|together"),
        ({"subject_token": "nobody's"}, "invalid_request", "no token of this issuer"),
        ({"subject_token": "foreign"}, "invalid_request", "no token of this issuer"),
        ({"subject_token": "program"}, "invalid_request", "a program's"),
        ({"subject_token": "bound"}, "invalid_request", "bound to a key"),
        ({"subject_token": "bound to nothing"}, "invalid_request", "bound to a key"),
        ({"subject_token": "id of shop", "subject_token_type": ID_TOKEN}, "invalid_request", "the client that it is for"),
        ({"actor_token": "self"}, "invalid_request", "actor_token and actor_token_type go together"),
        ({"actor_token_type": ACCESS_TOKEN}, "invalid_request", "actor_token and actor_token_type go together"),
        ({**ACTOR, "actor_token": "nobody's"}, "invalid_request", "actor_token: expired"),
        ({**ACTOR, "actor_token": "program"}, "invalid_request", "got for itself"),
        ({**ACTOR, "actor_token": "of orders for other"}, "invalid_request", "got for itself"),
        ({**ACTOR, "actor_token": "ann at orders"}, "invalid_request", "got for itself"),
        ({**ACTOR, "actor_token": "self bound"}, "invalid_request", "actor_token: it is bound"),
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}, "invalid_request", "requested_token_type"),
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:saml1"}, "invalid_request", "requested_token_type"),
        ({"audience": "https://elsewhere.example/"}, "invalid_target", "not registered"),
        ({"resource": "https://elsewhere.example/"}, "invalid_target", "not registered"),
        ({"resource": API, "requested_token_type": ID_TOKEN}, "invalid_target", "ID token"),
        ({"scope": "email admin"}, "invalid_scope", "not registered"),
        ({"scope": "email  openid"}, "invalid_scope", "not registered"),
        ({"scope": "stock"}, "invalid_scope", "holds none"),
        ({"scope": "offline_access"}, "invalid_scope", "holds none"),
        ({"scope": "email", "requested_token_type": ID_TOKEN}, "invalid_scope", "openid"),
        ({"target_service": "nobody"}, "invalid_request", "target_service"),
        ({"target_service": "HTTP/a\0b"}, "invalid_request", "target_service"),
        ({"target_service": "HTTP/" + "x" * 256}, "invalid_request", "target_service"),
    ],
)  # fmt: skip
async def test_each_refusal_says_what_was_wrong(exchange, changes, error, said):
    form = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    with pytest.raises(Problem, match=said) as refused:
        await exchange(form)
    assert (refused.value.status, refused.value.error) == (400, error)
    assert not any(value in refused.value.detail for name, value in changes.items() if value and not name.endswith("_token"))


async def test_a_bound_token_is_exchanged_with_its_key_or_by_its_audience(exchange):
    bound = {**GOOD, "subject_token": "bound"}

    assert await exchange(bound, proven={"jkt": "k1"})
    assert await exchange({**GOOD, "subject_token": "bound for us"})
    assert await exchange({**GOOD, **ACTOR, "actor_token": "self bound"}, proven={"jkt": "k1"})
    for proven in ({"jkt": "k2"}, {"x5t#S256": "k1"}):
        with pytest.raises(BadRequest, match="bound"):
            await exchange(bound, proven=proven)


async def test_targets_are_those_of_the_registration(exchange):
    both = [*GOOD.items(), ("audience", API), ("resource", ISSUER), ("resource", API)]

    assert (await exchange(both)).audiences == (API, ISSUER)
    assert (await exchange(GOOD)).audiences == ()
    with pytest.raises(InvalidTarget):
        await exchange([*both, ("audience", "x")])


async def test_each_type_of_token(exchange):
    assert (await exchange({**GOOD, "subject_token_type": JWT, "requested_token_type": JWT})).issued_token_type == JWT
    mine = {"subject_token": "id", "subject_token_type": ID_TOKEN}
    assert (await exchange(mine)).scopes == ("openid",)
    identity = await exchange({**mine, "requested_token_type": ID_TOKEN})
    assert (identity.issued_token_type, identity.id_token is not None) == (ID_TOKEN, True)
    opaque = msgspec.structs.replace(SERVICE, more={"access_token_format": "opaque"})
    assert await exchange(GOOD, opaque)
    with pytest.raises(BadRequest, match="no JWT"):
        await exchange({**GOOD, "requested_token_type": JWT}, opaque)


async def test_policy_decides_about_scopes_accounts_and_targets(exchange, tokens):
    tokens.withheld = frozenset({"email"})
    assert (await exchange({**GOOD, "target_service": "HTTP/stock.example"})).scopes == ("openid",)
    assert tokens.questions[0].target_service == "HTTP/stock.example"
    with pytest.raises(AccessDenied):
        await exchange({**GOOD, "scope": "email"})
    tokens.refusal = AccountRefused("the account is locked")
    with pytest.raises(BadRequest, match="no token of this issuer"):
        await exchange(GOOD)


async def test_a_client_that_proves_nothing_exchanges_nothing(exchange):
    with pytest.raises(UnauthorizedClient):
        await exchange(GOOD, msgspec.structs.replace(SERVICE, token_endpoint_auth_method="none"))


@pytest.mark.parametrize("source", ["dynamic", "document", "federation"])
async def test_a_client_that_says_of_itself_what_it_may_exchanges_nothing(exchange, source):
    with pytest.raises(UnauthorizedClient, match="administrator"):
        await exchange(GOOD, msgspec.structs.replace(SERVICE, source=source))
    assert await exchange(GOOD, msgspec.structs.replace(SERVICE, source="static"))


@pytest.mark.parametrize(
    ("changes", "open", "said"),
    [
        ({}, True, "only an administrator"),
        ({"source": "dynamic"}, False, "only an administrator"),
        ({"source": "document"}, False, "only an administrator"),
        ({"token_endpoint_auth_method": "none"}, False, "proves itself"),
    ],
)
def test_only_an_administrator_registers_who_may_exchange(changes, open, said):
    client = msgspec.structs.replace(SERVICE, **changes)
    with pytest.raises(InvalidClientMetadata, match=said):
        Exchangers().check(Registration(client=client, open=open))
    without = msgspec.structs.replace(client, grant_types=("authorization_code",))
    Exchangers().check(Registration(client=without, open=open))
    Exchangers().check(Registration(client=SERVICE, open=False))


async def test_a_scope_that_policy_took_away_makes_no_id_token(exchange, tokens):
    tokens.withheld = frozenset({"openid"})
    with pytest.raises(InvalidScope, match="openid"):
        await exchange({**GOOD, "requested_token_type": ID_TOKEN})


NAMES = (
    "subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type", "audience", "resource", "scope",
    "target_service",
)  # fmt: skip
VALUES = ("ann", "id", "self", "bound", ACCESS_TOKEN, ID_TOKEN, JWT, API, ISSUER, "openid", "email openid", "HTTP/stock.example")
ANY = st.one_of(st.sampled_from(VALUES), st.text(max_size=40))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(("sub", "iss", "act", "x")), inner, max_size=3)),
    max_leaves=12,
)
CLAIMS = st.fixed_dictionaries({}, optional={"act": JSON, "may_act": JSON, "aud": st.one_of(ANY, st.lists(ANY, max_size=3))})


@given(st.lists(st.tuples(st.sampled_from(NAMES), ANY), max_size=8), CLAIMS)
async def test_no_request_and_no_claims_are_a_fault_or_widen_anything(pairs, claims):
    tokens = tokens_of()
    tokens.subjects["ann", ACCESS_TOKEN] = before = token(claims)
    form = [*{**GOOD, **dict(pairs)}.items(), *(pair for pair in pairs if pair[0] in {"audience", "resource"})]
    granted, refused = None, None
    try:
        granted = await TokenExchange(tokens, ISSUER).prepare(request_of(form))
    except Problem as problem:
        refused = problem

    if granted is None:
        assert refused is not None
        assert 400 <= refused.status < 500
        return
    assert set(granted.scopes) <= {"openid", "email"}
    assert set(granted.audiences) <= {ISSUER, API}
    assert granted.not_after == before.expires_at


# ---- Tokens of trusted issuers


class Other(TrustedIssuer):
    """Vouches for what a test says."""

    name = "https://other.example"

    def __init__(self, **found):
        self.found = found

    def issued(self, token):
        return token.claims.get("iss") == self.name

    async def vouch(self, token, audiences):
        assert audiences == {ISSUER, f"{ISSUER}/token"}
        fields = {"issuer": self.name, "subject": "a-1", "kind": "person", "local": "ann@EXAMPLE", "expires_at": 3_000_000_000_000_000}
        return Vouched(**{**fields, "authenticated_at": 2_000_000, "jti": None, "claims": token.claims, **self.found})


def foreign(**claims):
    return signed(KEY, {"iss": Other.name, "scope": "admin openid", "authorization_details": [{"type": "payment"}], **claims})


async def bring(tokens, text, client=SERVICE, *, type=ID_TOKEN, form=None, found=None, **more):
    sent = {"subject_token": text, "subject_token_type": type, **(form or {})}
    return await TokenExchange(tokens, ISSUER, lambda: {Other.name: Other(**(found or {}))}).prepare(request_of(sent, client, **more))


@pytest.mark.parametrize("type", [ID_TOKEN, JWT])
async def test_a_token_of_a_trusted_issuer_is_exchanged_for_whom_it_means(tokens, type):
    granted = await bring(tokens, foreign(groups=["admin"], origin="x", family="y"), type=type)

    assert (granted.subject, granted.scopes, granted.not_after) == ("ann@EXAMPLE", ("openid", "email", "stock"), 3_000_000_000_000_000)
    assert (granted.claims, granted.exchanged, granted.origin) == ({}, {}, None), "its claims are none of ours"
    assert granted.authentication == Authentication(auth_time=2_000_000, amr=(), acr=None)
    (question,) = tokens.questions
    assert (question.phase, question.subject, question.auth_time) == ("exchange", "ann@EXAMPLE", 2_999_999)
    (event,) = granted.events
    assert event.detail == "by=impersonation iss=https://other.example"


async def test_a_trusted_issuer_vouches_for_its_scopes_and_an_actor_is_named_as_ever(tokens):
    granted = await bring(tokens, foreign(), form=ACTOR, found={"scopes": frozenset({"stock", "admin"})})

    assert granted.scopes == ("stock",)
    assert granted.claims == {"act": {"sub": "orders"}}


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ({"iss": "https://stranger.example"}, {}),
        ({"act": {"sub": "shop"}}, {}),
        ({"may_act": {"sub": "orders"}}, {}),
        ({"cnf": {"jkt": "k1"}}, {}),
        ({"cnf": {"jkt": "k1"}, "aud": "orders"}, {}),
        ({}, {"clients": frozenset({"shop"})}),
        ({"events": {}}, {}),
    ],
)
async def test_a_foreign_token_that_is_not_good_is_refused_in_the_words_of_ours(tokens, claims, found):
    with pytest.raises(BadRequest, match="subject_token: expired, revoked or no token"):
        await bring(tokens, foreign(**claims), found=found)


async def test_a_foreign_token_is_no_access_token_and_no_actor_and_no_programs(tokens):
    with pytest.raises(BadRequest, match="subject_token: expired"):
        await bring(tokens, foreign(), type=ACCESS_TOKEN)
    with pytest.raises(BadRequest, match="actor_token: expired"):
        await bring(tokens, "id", form={"actor_token": foreign(), "actor_token_type": ID_TOKEN})
    with pytest.raises(BadRequest, match="it is a program's"):
        await bring(tokens, foreign(), found={"kind": "workload"})


async def test_a_foreign_token_that_names_this_client_and_this_issuer_is_its(tokens):
    may_act = {"sub": "orders", "iss": ISSUER}

    granted = await bring(tokens, foreign(may_act=may_act, cnf={"jkt": "k1"}), proven={"jkt": "k1"})
    assert granted.claims == {}, "what the other issuer permits ends here"
