"""Proofs, and the binding that reads them at the token endpoint and at resources. Over HTTP: tests/system/oidc."""

import asyncio
import json
from hashlib import sha256
from types import MappingProxyType, SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import example, given
from hypothesis import strategies as st

from greatseal.api.authorization import Ask, Granting, Terms
from greatseal.api.clients import Client, ClientMatch, ProvenRequest
from greatseal.api.http import Parameters
from greatseal.api.problems import Problem
from greatseal.api.tokens import AccessToken, InvalidGrant
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import b64url_encode, sign_compact
from greatseal.jose.jwk import jwk_of, thumbprint_of
from greatseal.testing import FakeClock
from greatseal.testing.bindings import TokenBindingContract
from greatseal.testing.calls import FakeCall
from greatseal.testing.extensions import ExtensionContract, wish_of
from greatseal_dpop.binding import Dpop
from greatseal_dpop.codes import BoundCode, BoundCodes
from greatseal_dpop.nonces import FRESH, LIFE, Nonces
from greatseal_dpop.proofs import Proofs, normal

ISSUER = "https://id.example"
BASE = "https://backend.example:8443/idp"
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
JKT = thumbprint_of(KEY.public_key())
TOKEN = "an-access-token"
ATH = b64url_encode(sha256(TOKEN.encode()).digest())
NOW = 1_562_262_616
EXAMPLE = (  # RFC 9449 figure 2
    "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5"
    "IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsI"
    "mh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0"
    "x7NVY-FNyJK70nfbV37xRZT3Lg"
)


class Clients:
    """Those of whom tokens are, by id."""

    def __init__(self, *clients):
        self.by_id = {client.client_id: client for client in clients}

    async def get(self, client_id):
        return self.by_id.get(client_id)


CLIENTS = Clients()


class Strikes:
    """Remembers for as long as it is told."""

    def __init__(self, clock):
        self.clock = clock
        self.until = {}

    def seen(self, kind, key, until):
        again = self.until.get((kind, key), 0) >= self.clock.now()
        self.until.setdefault((kind, key), until)
        return again


class BlockedKeys:
    def __init__(self):
        self.names = set()

    async def find(self, name):
        return SimpleNamespace(reason="leaked") if name in self.names else None


class Envelopes:
    """Seals of a service of several nodes: ``kept`` is shared, and forgets what is too old."""

    def __init__(self, clock, kept):
        self.clock = clock
        self.kept = kept

    async def seal(self, kind, value, *, seconds):
        name = f"{kind}_n1_{len(self.kept)}"
        self.kept[name] = (value, self.clock.now() + seconds * 1_000_000)
        return name

    async def open(self, kind, text, type):
        value, until = self.kept.get(text, (None, 0))
        return value if text.startswith(kind) and until > self.clock.now() else None


def host_of(issuer, base_url, *, node="n1", kept=None):
    clock = FakeClock(NOW * 1_000_000)
    return SimpleNamespace(
        clock=clock,
        strikes=Strikes(clock),
        blocked_keys=BlockedKeys(),
        issuer=issuer,
        base_url=base_url,
        node_id=node,
        envelopes=Envelopes(clock, {} if kept is None else kept),
    )


@pytest.fixture
def host():
    return host_of(ISSUER, BASE)


@pytest.fixture
def binding(host):
    return Dpop(Proofs(host), CLIENTS)


def claims(**changes):
    whole = {"jti": "j1", "htm": "POST", "htu": f"{ISSUER}/token", "iat": NOW} | changes
    return {name: value for name, value in whole.items() if value is not None}


def proof(body=None, *, key=KEY, alg="ES256", **header):
    """Signed by ``key``; a header of None is left out."""
    whole = {"typ": "dpop+jwt", "alg": alg, "jwk": jwk_of(key.public_key())} | header
    said = {name: value for name, value in whole.items() if value is not None}
    payload = body if isinstance(body, bytes) else json.dumps(claims() if body is None else body).encode()
    return sign_compact(said, payload, lambda message: ALGORITHMS[alg].sign(key, message))


def call(*sent, method="POST", target="/token"):
    return FakeCall(method, BASE + target, headers=[("DPoP", one) for one in sent])


def client(method="client_secret_basic", **more):
    return Client(client_id="c1", token_endpoint_auth_method=method, more=more)


async def prove(binding, *sent, by=None, **about):
    asking = ProvenRequest(call=call(*sent, **about), form=Parameters(()), client=by or client(), match=ClientMatch(subject="c1"))
    return await binding.prove(asking) if binding.concerns(asking) else None


async def check(binding, *sent, value=JKT, target="/userinfo", **about):
    token = AccessToken(subject="ada", client_id="c1", scopes=frozenset(), expires_at=0, jti="t1", claims={"cnf": {"jkt": value}})
    return await binding.check(call(*sent, method="GET", target=target, **about), TOKEN, token, value)


def at_userinfo(**changes):
    return claims(**{"htm": "GET", "htu": f"{ISSUER}/userinfo", "ath": ATH} | changes)


class TestDpop(TokenBindingContract):
    asking = client(dpop_bound_access_tokens=True)

    def binding(self):
        return Dpop(Proofs(host_of("https://issuer.example", "https://issuer.example")), CLIENTS)

    def prove(self, call, *, key, token=None):
        ath = None if token is None else b64url_encode(sha256(token.encode()).digest())
        call.headers["DPoP"] = proof(claims(htm=call.method, htu=call.url, ath=ath), key=(KEY, OTHER)[key])


async def test_the_example_of_the_rfc_proves_the_key_of_the_rfc(binding, host):
    host.issuer = "https://server.example.com"

    found = await prove(binding, EXAMPLE)

    assert (found.confirmation, found.value) == ("jkt", "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")


@pytest.mark.parametrize(
    ("alg", "key"),
    [
        ("ES256", KEY),
        ("ES384", ec.generate_private_key(ec.SECP384R1())),
        ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
        ("Ed25519", ed25519.Ed25519PrivateKey.generate()),
        ("PS256", RSA := rsa.generate_private_key(65537, 2048)),
        ("RS256", RSA),
    ],
)
async def test_each_key_that_signs_is_proven_by_its_thumbprint(binding, alg, key):
    found = await prove(binding, proof(key=key, alg=alg))

    assert found.value == thumbprint_of(key.public_key())


@pytest.mark.parametrize(("method", "bound"), [("none", True), ("client_secret_basic", False), ("private_key_jwt", False)])
async def test_refresh_tokens_of_public_clients_alone_are_bound(binding, method, bound):
    found = await prove(binding, proof(), by=client(method))

    assert found.access
    assert found.refresh is bound


async def test_a_client_that_asks_for_bound_tokens_may_not_go_without(binding):
    assert await prove(binding) is None

    assert binding.missing(client()) is None
    assert binding.missing(client(dpop_bound_access_tokens=False)) is None
    assert binding.missing(client(dpop_bound_access_tokens=True)).error == "invalid_dpop_proof"


PRIVATE = jwk_of(KEY.public_key()) | {"d": "AQ"}
REFUSED = {
    "no JWT": ("no-jwt", "no JWT"),
    "no typ": (proof(typ=None), "typ"),
    "another typ": (proof(typ="JWT"), "typ"),
    "no jwk": (proof(jwk=None), "jwk"),
    "a private jwk": (proof(jwk=PRIVATE), "private member d"),
    "a shared secret": (proof(jwk={"kty": "oct", "k": "AQ"}), "private member k"),
    "a key for encryption": (proof(jwk=jwk_of(KEY.public_key()) | {"use": "enc"}), "use is not sig"),
    "a weak key": (proof(jwk={"kty": "RSA", "n": "AQ", "e": "AQAB"}), "not accepted"),
    "the key of somebody else": (proof(jwk=jwk_of(OTHER.public_key())), "signature"),
    "another alg": (proof(jwk=jwk_of(RSA.public_key())), "signature"),
    "no signature": (f"{proof().rpartition('.')[0]}.", "signature"),
    "claims that are no object": (proof(b"[]"), "claims"),
    "a claim twice": (proof(b'{"jti":"a","jti":"b"}'), "claims"),
    "another method": (proof(claims(htm="GET")), "htm is not POST"),
    "a method in small letters": (proof(claims(htm="post")), "htm is not POST"),
    "no method": (proof(claims(htm=None)), "htm"),
    "another endpoint": (proof(claims(htu=f"{ISSUER}/par")), ISSUER),
    "another host": (proof(claims(htu="https://evil.example/token")), ISSUER),
    "no URL": (proof(claims(htu=None)), ISSUER),
    "half a URL": (proof(claims(htu="/token")), ISSUER),
    "a URL that is a number": (proof(claims(htu=1)), ISSUER),
    "a typ that is a number": (proof(typ=1), "typ"),
    "a jti that is a number": (proof(claims(jti=1)), "jti"),
    "an iat beyond all years": (proof(claims(iat=1 << 40)), "iat is no NumericDate"),
    "no iat": (proof(claims(iat=None)), "iat is missing"),
    "an iat that is text": (proof(claims(iat=str(NOW))), "iat is no NumericDate"),
    "an iat that is a boolean": (proof(claims(iat=True)), "iat is no NumericDate"),
    "an old one": (proof(claims(iat=NOW - 61)), "iat differs by more than 60 s"),
    "one of the future": (proof(claims(iat=NOW + 61)), "iat differs by more than 60 s"),
    "an expired one": (proof(claims(exp=NOW)), "expired"),
    "one that begins later": (proof(claims(nbf=NOW + 61)), "not valid yet"),
    "no jti": (proof(claims(jti=None)), "jti"),
    "an empty jti": (proof(claims(jti="")), "jti"),
    "a long jti": (proof(claims(jti="j" * 257)), "jti"),
}


@pytest.mark.parametrize(("sent", "said"), REFUSED.values(), ids=list(REFUSED))
async def test_a_proof_that_is_not_good_is_400_with_the_reason(binding, sent, said):
    with pytest.raises(Problem, match=said) as refused:
        await prove(binding, sent)

    assert (refused.value.status, refused.value.error) == (400, "invalid_dpop_proof")


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers(), max_size=2)
CLAIMS = st.dictionaries(st.sampled_from(("jti", "htm", "htu", "iat", "exp", "nbf", "ath", "nonce")), JSON, max_size=3)
HEADER = st.dictionaries(st.sampled_from(("typ", "alg", "jwk", "crit")), JSON, max_size=1)
GOOD = proof()


async def outcome(sent):
    """Whether a proof is good, else the error."""
    try:
        await prove(Dpop(Proofs(host_of(ISSUER, BASE)), CLIENTS), sent)
    except Problem as problem:
        return f"{problem.status} {problem.error}"
    return "good"


@given(st.text(max_size=200) | st.integers(0, len(GOOD) - 1))
@example(GOOD.replace(".", "..", 1))
@example("." * 60_000)
def test_any_header_is_a_proof_or_refused(what):
    """Any text, or a good proof with one character changed."""
    sent = what if isinstance(what, str) else f"{GOOD[:what]}{'A' if GOOD[what] != 'A' else 'B'}{GOOD[what + 1 :]}"

    assert asyncio.run(outcome(sent)) == "400 invalid_dpop_proof"


@given(CLAIMS, HEADER)
def test_any_claims_and_header_are_read_and_only_good_ones_prove(changed, header):
    """Signed by the right key, so that nothing but the content can be wrong."""
    whole = {"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk_of(KEY.public_key())} | header
    body = claims() | changed
    signed = ".".join(b64url_encode(json.dumps(part).encode()) for part in (whole, body))
    sent = f"{signed}.{b64url_encode(ALGORITHMS['ES256'].sign(KEY, signed.encode()))}"

    said = asyncio.run(outcome(sent))

    if said == "good":
        assert not header
        assert (body["htm"], body["htu"]) == ("POST", f"{ISSUER}/token")
        assert isinstance(body["jti"], str)
        assert abs(body["iat"] - NOW) <= 60
    else:
        assert said == "400 invalid_dpop_proof"


async def test_two_proofs_are_refused(binding):
    with pytest.raises(Problem, match="two DPoP headers"):
        await prove(binding, proof(), proof(claims(jti="j2")))


async def test_a_blocked_key_is_refused(binding, host):
    host.blocked_keys.names.add(spki_sha256(KEY.public_key()))

    with pytest.raises(Problem, match="blocked"):
        await prove(binding, proof())
    assert await prove(binding, proof(key=OTHER))


@pytest.mark.parametrize("ago", [60, 10, -10, -60])
async def test_a_clock_may_differ_by_a_minute_and_a_proof_is_good_once_for_as_long(binding, host, ago):
    sent = proof(claims(iat=NOW - ago))
    assert await prove(binding, sent)

    host.clock.advance(60 - ago)

    with pytest.raises(Problem, match="used before"):
        await prove(binding, sent)
    host.clock.advance(1)
    with pytest.raises(Problem, match="iat differs"):
        await prove(binding, sent)


async def test_a_jti_is_of_its_key(binding):
    assert await prove(binding, proof())
    assert await prove(binding, proof(key=OTHER))

    with pytest.raises(Problem, match="used before"):
        await prove(binding, proof(claims(iat=NOW + 1)))


async def test_a_proof_that_was_refused_is_not_used_up(binding):
    with pytest.raises(Problem, match="htm"):
        await prove(binding, proof(), method="GET")

    assert await prove(binding, proof())


@pytest.mark.parametrize(
    ("htu", "target"),
    [
        (f"{ISSUER}/token", "/token"),
        (f"{BASE}/token", "/token"),
        ("HTTPS://ID.example:443/token", "/token?x=1"),
        (f"{ISSUER}/token?x=1#y", "/token"),
        (f"{ISSUER}/a%2fb%7Ec", "/a%2Fb~c"),
    ],
)
async def test_a_url_may_be_spelt_in_every_way_that_means_it(binding, htu, target):
    assert await prove(binding, proof(claims(htu=htu)), target=target)


@pytest.mark.parametrize(
    ("url", "spelt"),
    [
        ("https://id.example", "https://id.example/"),
        ("https://id.example:", "https://id.example/"),
        ("http://[::1]:80/a", "http://[::1]/a"),
        ("http://id.example:443/a", "http://id.example:443/a"),
        ("https://id.example/A/../a", "https://id.example/A/../a"),
        ("https://user@id.example/a", "https://user@id.example/a"),
        ("https://id.example::443/a", None),
        ("ftp://id.example/a", None),
        ("https://id.example/a\n", None),
        ("", None),
    ],
)
def test_urls_are_compared_in_one_spelling(url, spelt):
    assert normal(url) == spelt


# ---- At a resource


async def test_a_bound_token_goes_with_a_proof_of_its_own(binding):
    assert await check(binding, proof(at_userinfo())) == ()


UNPROVEN = {
    "nothing": ((), "no DPoP header"),
    "no ath": ((proof(at_userinfo(ath=None)),), "ath"),
    "the ath of another token": ((proof(at_userinfo(ath=b64url_encode(sha256(b"other").digest()))),), "ath"),
    "another method": ((proof(at_userinfo(htm="POST")),), "htm is not GET"),
    "another endpoint": ((proof(at_userinfo(htu=f"{ISSUER}/token")),), "htu"),
    "an odd escape": ((proof(b'{"a":"\\x"}'),), "claims"),
}


@pytest.mark.parametrize(("sent", "said"), UNPROVEN.values(), ids=list(UNPROVEN))
async def test_a_proof_that_is_not_good_is_401_with_a_challenge(binding, sent, said):
    with pytest.raises(Problem, match=said) as refused:
        await check(binding, *sent)

    challenge = refused.value.headers["WWW-Authenticate"]
    assert (refused.value.status, refused.value.error) == (401, "invalid_dpop_proof")
    assert challenge.startswith('DPoP error="invalid_dpop_proof", error_description="')
    assert challenge.endswith(f', algs="{" ".join(ALGORITHMS)}"')
    assert challenge.count('"') == 6
    assert "\\" not in challenge


async def test_the_key_of_somebody_else_is_an_invalid_token(binding):
    with pytest.raises(Problem, match="another key") as refused:
        await check(binding, proof(at_userinfo(), key=OTHER))

    assert (refused.value.status, refused.value.error) == (401, "invalid_token")
    assert refused.value.headers["WWW-Authenticate"].startswith('DPoP error="invalid_token"')


async def test_a_proof_is_good_for_one_call(binding):
    sent = proof(at_userinfo())
    await check(binding, sent)

    with pytest.raises(Problem, match="used before"):
        await check(binding, sent)


async def test_the_second_example_of_the_rfc_is_good_at_its_resource(binding, host):
    """RFC 9449 figures 12 and 13."""
    host.issuer = "https://resource.example.org"
    host.clock.advance(2)
    token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
    call = FakeCall("GET", f"{BASE}/protectedresource", headers=[("DPoP", AT_A_RESOURCE)])
    jkt = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"

    assert await binding.check(call, token, AccessToken(**ABOUT, claims={"cnf": {"jkt": jkt}}), jkt) == ()


ABOUT = {"subject": "ada", "client_id": "c1", "scopes": frozenset(), "expires_at": 0, "jti": "t1"}
AT_A_RESOURCE = (
    "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5"
    "IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwia"
    "HR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG"
    "9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA"
)


# ---- With a nonce of the server


@pytest.fixture
def asking(host):
    """The binding of a service that asks for nonces."""
    return Dpop(Proofs(host, Nonces(host)), CLIENTS)


async def refused_nonce(waiting):
    """The refusal for want of a nonce, and the nonce that came with it."""
    with pytest.raises(Problem) as refused:
        await waiting
    assert refused.value.error == "use_dpop_nonce", refused.value.detail
    return refused.value, refused.value.headers["DPoP-Nonce"]


async def test_a_proof_without_the_nonce_is_refused_with_it_and_is_not_used_up(asking):
    told, nonce = await refused_nonce(prove(asking, proof()))
    assert told.status == 400

    found = await prove(asking, proof(claims(nonce=nonce)))

    assert (found.value, found.headers) == (JKT, (("DPoP-Nonce", nonce),))
    with pytest.raises(Problem, match="used before"):
        await prove(asking, proof(claims(nonce=nonce)))


async def test_a_resource_asks_for_the_nonce_too(asking):
    told, nonce = await refused_nonce(check(asking, proof(at_userinfo())))
    assert told.status == 401
    assert told.headers["WWW-Authenticate"].startswith('DPoP error="use_dpop_nonce"')

    assert await check(asking, proof(at_userinfo(nonce=nonce))) == (("DPoP-Nonce", nonce),)
    with pytest.raises(Problem, match="another key") as refused:
        await check(asking, proof(at_userinfo(nonce=nonce), key=OTHER))
    assert refused.value.headers["DPoP-Nonce"] == nonce


@pytest.mark.parametrize("nonce", ["", "x", "dpn_n1_99", "other_n1_0", 7, ["dpn_n1_0"], None, True])
async def test_what_is_no_nonce_of_ours_is_refused(asking, nonce):
    await refused_nonce(prove(asking, proof(claims(nonce=nonce))))


async def test_a_nonce_is_handed_out_for_a_minute_and_good_for_five(asking, host):
    _, first = await refused_nonce(prove(asking, proof()))
    host.clock.advance(FRESH // 1_000_000 - 1)
    later = NOW + FRESH // 1_000_000 - 1
    assert (await prove(asking, proof(claims(jti="1", iat=later, nonce=first)))).headers == (("DPoP-Nonce", first),)

    host.clock.advance(1)
    ((_, second),) = (await prove(asking, proof(claims(jti="2", iat=later, nonce=first)))).headers
    assert second != first

    host.clock.advance(LIFE)
    await refused_nonce(prove(asking, proof(claims(jti="3", iat=later + LIFE, nonce=first))))


async def test_a_clock_that_was_set_back_does_not_keep_a_nonce(asking, host):
    _, first = await refused_nonce(prove(asking, proof()))
    host.clock.advance(-3600)

    _, second = await refused_nonce(prove(asking, proof(claims(iat=NOW - 3600))))

    assert second != first


async def test_a_restart_refuses_the_nonces_of_before_and_other_nodes_take_them(asking, host):
    _, nonce = await refused_nonce(prove(asking, proof()))
    restarted, other = (host_of(ISSUER, BASE, node=node, kept=host.envelopes.kept) for node in ("n1", "n2"))

    await refused_nonce(prove(Dpop(Proofs(restarted, Nonces(restarted)), CLIENTS), proof(claims(nonce=nonce))))
    assert await prove(Dpop(Proofs(other, Nonces(other)), CLIENTS), proof(claims(nonce=nonce)))


async def test_a_bad_proof_is_told_the_nonce_as_well(asking):
    with pytest.raises(Problem) as refused:
        await prove(asking, proof(claims(htm="GET")))

    assert refused.value.error == "invalid_dpop_proof"
    assert refused.value.headers["DPoP-Nonce"]


# ---- Codes that are bound to a key


class TestBoundCodes(ExtensionContract):
    parameters = (("dpop_jkt", JKT),)
    cnf = MappingProxyType({"jkt": JKT})

    def extension(self):
        return BoundCodes()


async def asked(members, proven=None, at="authorize"):
    sent = Parameters(members.items())
    keys = {} if proven is None else {"jkt": proven}
    wish = await wish_of(BoundCodes(), Ask(at=at, client=client(), given=sent, sent=sent, remote="192.0.2.1", proven=keys))
    return wish and wish.kept


OTHERS = thumbprint_of(OTHER.public_key())


async def test_a_code_is_bound_by_the_parameter_or_by_the_proof_of_a_pushed_request():
    assert await asked({}) is None
    assert await asked({"dpop_jkt": JKT}) == BoundCode(jkt=JKT)
    for members in ({}, {"dpop_jkt": JKT}):
        assert await asked(members, JKT, "par") == BoundCode(jkt=JKT)
    with pytest.raises(Problem, match="dpop_jkt") as refused:
        await asked({"dpop_jkt": JKT}, OTHERS, "par")
    assert refused.value.error == "invalid_dpop_proof"


@pytest.mark.parametrize("place", ["token", "device", "backchannel"])
async def test_where_there_is_no_code_nothing_is_bound(place):
    assert await asked({"dpop_jkt": JKT}, JKT, place) is None


@pytest.mark.parametrize("jkt", ["x", JKT[1:], f"{JKT}A", f"{JKT[1:]}=", f"{JKT[1:]}/", f"{JKT}\n", "ä" * 43], ids=range(7))
async def test_what_is_no_thumbprint_is_refused(jkt):
    with pytest.raises(Problem, match="dpop_jkt") as refused:
        await asked({"dpop_jkt": jkt})
    assert refused.value.error == "invalid_request"


@pytest.mark.parametrize(
    ("kept", "proven", "grant_type", "good"),
    [
        (JKT, JKT, "authorization_code", True),
        (JKT, OTHERS, "authorization_code", False),
        (JKT, None, "authorization_code", False),
        (None, OTHERS, "authorization_code", True),
        (None, None, "authorization_code", True),
        (JKT, OTHERS, "refresh_token", True),
    ],
    ids=range(6),
)
def test_a_bound_code_is_redeemed_by_its_key_alone(kept, proven, grant_type, good):
    keys = {"jkt": proven} if proven else {}
    granting = Granting(grant_type=grant_type, client=client(), subject="ada", cnf=keys or None, proven=keys, basis="authorization")
    terms, bound = Terms(scopes=("openid",)), BoundCode(jkt=kept) if kept else None

    if good:
        assert BoundCodes().grant(bound, None, terms, granting) == terms
        return
    with pytest.raises(InvalidGrant, match="RFC 9449"):
        BoundCodes().grant(bound, None, terms, granting)


@pytest.mark.parametrize(("names", "good"), [(None, True), (["ES256"], True), (["PS256", "Ed25519"], False)])
async def test_a_client_uses_the_algorithms_that_it_registered_alone(host, names, good):
    mine = client() if names is None else client(allowed_signing_algs=names)
    binding = Dpop(Proofs(host), Clients(mine))

    if good:
        assert (await prove(binding, proof(), by=mine)).value == JKT
        assert await check(binding, proof(at_userinfo(jti="j2"))) == ()
        return
    for made in (prove(binding, proof(), by=mine), check(binding, proof(at_userinfo(jti="j2")))):
        with pytest.raises(Problem) as refused:
            await made
        assert refused.value.error == "invalid_dpop_proof"
        assert "alg is none" in refused.value.detail
