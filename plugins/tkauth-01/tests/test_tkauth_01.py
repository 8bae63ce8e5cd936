"""tkauth-01 without a service: what a token must say, single use, the constraints. Over HTTP: tests/system/test_tkauth_01.py."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwk, jwt
from pyasn1.codec.der.encoder import encode as encode_der
from pyasn1_alt_modules import rfc9118

from greatseal import der
from greatseal.api.acme import VALID, AccountView, Identifier, RejectedIdentifier, Unauthorized
from greatseal.api.issuance import Finalization, ProvenIdentifier
from greatseal.api.problems import BadRequest, Unavailable, Unreachable
from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.testing import FakeClock
from greatseal.testing.identifiers import ExtensionIdentifierContract
from greatseal.testing.issuance import PROFILE
from greatseal.testing.parsers import ParserContract
from greatseal.testing.store import open_test_database
from greatseal.testing.strikes import strikes_of
from greatseal.testing.validators import THUMBPRINT, ResponseValidatorContract, attempt_for
from greatseal_tkauth_01.authorities import Authorities
from greatseal_tkauth_01.constraints import LONGEST, TYPE, JwtClaimConstraints, read
from greatseal_tkauth_01.plugin import Plugin
from greatseal_tkauth_01.settings import AuthorityTable, TkauthSettings
from greatseal_tkauth_01.tkauth_01 import AuthorityToken, ConstrainedNames, Tkauth01, fingerprint

GIVEN = json.loads((Path(__file__).parent / "vectors.json").read_text())
VALUES = {vector["case"]: vector["tkvalue"] for vector in GIVEN["vectors"]}
VALUE, OTHER, HOST = VALUES["user"], VALUES["admin user"], VALUES["host managing others"]
RFC_9118 = bytes.fromhex(
    "3040a00e300c160a636f6e666964656e6365a120301e301c160a636f6e666964656e6365300e0c04686967680c066d656469756da20c300a16087072696f72697479"
)
"""The value in the certificate of RFC 9118 appendix A: all three members."""
KEY, STRANGER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
ISSUER = "https://authority.example"
NOW = 1_800_000_000
IDENTIFIER = Identifier(TYPE, VALUE)
ATC = {"tktype": TYPE, "tkvalue": VALUE, "fingerprint": fingerprint(THUMBPRINT), "ca": False}
CLAIMS: dict[str, Any] = {"iss": ISSUER, "exp": NOW + 900, "jti": "n1/1"}


def public(key=KEY, **more):
    return {"keys": [{**jwk.ECKey.import_key(key.public_key()).as_dict(private=False), **more}]}


def token(key=KEY, *, header=None, atc=None, **claims):
    """One of a library that is not ours; None leaves a member out."""
    atc = {name: value for name, value in {**ATC, **(atc or {})}.items() if value is not None}
    claims = {name: value for name, value in {**CLAIMS, "atc": atc, **claims}.items() if value is not None}
    return jwt.encode({"alg": "ES256", "typ": "JWT", **(header or {})}, claims, jwk.ECKey.import_key(key))


class World:
    """What the plugin sees of a service; ``strikes`` are kept in ``db`` where there is one."""

    def __init__(self, db=None, *tables):
        self.clock = FakeClock(NOW * 1_000_000)
        self.db = db or self
        self.strikes = self if db is None else strikes_of(self.clock, db)
        self.taken = set()
        self.handles = SimpleNamespace(owner_of_key=lambda _: "n1")
        self.blocked = set()
        self.blocked_keys = self
        self.remote = SimpleNamespace(of=self.of)
        made = tables or (AuthorityTable(issuer=ISSUER, jwks=public()),)
        self.validator = Tkauth01(self, Authorities(made, self, self.remote), None)

    async def find(self, name):
        return SimpleNamespace(reason="leaked") if name in self.blocked or "all" in self.blocked else None

    async def of(self, url, header):
        raise Unavailable("the keys that would check the signature cannot be had now", cause=f"{url}: {header['alg']}")

    async def write(self, fn, *args):
        return fn(None, *args)

    def take_within(self, tx, kind, key, until):
        return (kind, key, until) not in self.taken and not self.taken.add((kind, key, until))

    async def validate(self, text, identifier=IDENTIFIER, challenge=None):
        attempt = attempt_for(self.validator, identifier, kept=AuthorityToken(text))
        if challenge is not None:
            attempt = msgspec.structs.replace(attempt, challenge=msgspec.structs.replace(attempt.challenge, id=challenge))
        return await self.validator.validate(attempt)


class TestTkauth01(ResponseValidatorContract):
    identifier = IDENTIFIER
    strange: ClassVar = {TYPE: tuple(VALUES.values())}
    kept = AuthorityToken(token())
    wrong = tuple(map(AuthorityToken, ("", "x", "a.b.c", token(STRANGER), token(iss="https://other.example"), token(exp=NOW - 1))))

    def validator(self):
        return World().validator


class TestJwtClaimConstraints(ExtensionIdentifierContract):
    identifiers = JwtClaimConstraints()
    values = (*VALUES.values(), b64url_encode(RFC_9118))
    refused = ("", "x", VALUE + "=", VALUE[:-2], "MAA", "BQA", b64url_encode(RFC_9118 + b"\0"), "A" * (LONGEST + 1))
    contents = (b"\x05\x00", b"\x30\x00", RFC_9118 + b"\0", der.sequence(der.octet_string(b"x" * LONGEST)))


class TestConstraints(ParserContract):
    valid = (RFC_9118,)
    refusals = ValueError
    costly = ((der.sequence(der.explicit(0, der.sequence(*[b"\x16\x00"] * 700))),),)

    def read(self, *parts):
        found = read(parts[0])
        assert found.must_include or found.permitted or found.must_exclude


class TestTokens(ParserContract):
    valid = (json.dumps({"alg": "ES256", "typ": "JWT"}).encode(), json.dumps({**CLAIMS, "atc": ATC}).encode())
    refusals = Unauthorized

    def read(self, *parts):
        """Signed anew, so that what is changed is read."""
        text = ".".join(map(b64url_encode, parts))
        try:
            asyncio.run(World().validate(f"{text}.{b64url_encode(b'x' * 64)}"))
        except Unauthorized as refused:
            if tuple(parts) != self.valid:
                raise
            assert "no key of the issuer made the signature" in refused.detail  # noqa: PT017


@pytest.mark.parametrize("vector", GIVEN["vectors"], ids=lambda one: one["case"])
def test_the_vectors_are_read(vector):
    found = read(b64url_decode(vector["tkvalue"]))

    assert found.must_include == ("sub",)
    permitted = {"sub": (vector["principal"],), "iss": (vector["issuer"],), **({"dns": tuple(vector["dns"])} if vector["dns"] else {})}
    assert found.permitted == permitted
    types = JwtClaimConstraints()
    assert (types.oid.dotted_string, types.content(vector["tkvalue"]).hex()) == ("1.3.6.1.5.5.7.1.33", vector["der_hex"])


def test_the_value_of_rfc_9118_is_read():
    found = read(RFC_9118)

    assert (found.must_include, found.must_exclude) == (("confidence",), ("priority",))
    assert found.permitted == {"confidence": ("high", "medium")}


def test_the_fingerprint_is_that_of_rfc_9447():
    assert fingerprint(GIVEN["fingerprint"]["thumbprint_b64u"]) == GIVEN["fingerprint"]["rfc9447_fingerprint"]


CLAIM = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
LISTS = st.lists(CLAIM, max_size=4, unique=True)


@given(LISTS, st.dictionaries(CLAIM, st.lists(st.text(max_size=12), min_size=1, max_size=3), max_size=3), LISTS)
def test_what_a_module_of_the_rfc_writes_is_read(must_include, permitted, must_exclude):
    written = rfc9118.EnhancedJWTClaimConstraints()
    for name, some in (("mustInclude", must_include), ("mustExclude", must_exclude)):
        written[name].extend(some)
    for number, (claim, values) in enumerate(permitted.items()):
        written["permittedValues"][number][0] = claim
        written["permittedValues"][number][1].extend(values)
    if not (must_include or permitted or must_exclude):
        return

    found = read(encode_der(written))

    assert (list(found.must_include), list(found.must_exclude)) == (must_include, must_exclude)
    assert {claim: list(values) for claim, values in found.permitted.items()} == permitted


def ia5(text):
    return der.element(0x16, text.encode())


def utf8(text):
    return der.element(0x0C, text.encode())


NAMES, PAIR = der.sequence(ia5("a")), der.sequence(ia5("a"), der.sequence(utf8("x")))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no SEQUENCE of DER"),
        (b"\x31\x00", "no SEQUENCE of DER"),
        (b"\x30\x80\x00\x00", "no SEQUENCE of DER"),
        (der.sequence(), "says nothing"),
        (der.sequence(der.explicit(3, NAMES)), "none of"),
        (der.sequence(der.explicit(2, NAMES), der.explicit(0, NAMES)), "order"),
        (der.sequence(der.explicit(0, NAMES), der.explicit(0, NAMES)), "order"),
        (der.sequence(der.explicit(0, NAMES, NAMES)), "one list"),
        (der.sequence(der.explicit(0)), "one list"),
        (der.sequence(b"\xa0\x03\x30\x05\x00"), "no SEQUENCE of DER"),
        (der.sequence(der.explicit(0, ia5("a"))), "no SEQUENCE"),
        (der.sequence(der.explicit(0, der.sequence())), "empty list"),
        (der.sequence(der.explicit(0, der.sequence(ia5("a"), ia5("a")))), "twice"),
        (der.sequence(der.explicit(0, der.sequence(utf8("a")))), "0x0c and not 0x16"),
        (der.sequence(der.explicit(0, der.sequence(ia5("ä")))), "alphabet"),
        (der.sequence(der.explicit(1, NAMES)), "permitted values that are no SEQUENCE"),
        (der.sequence(der.explicit(1, der.sequence(der.sequence(ia5("a"))))), "one claim and one list"),
        (der.sequence(der.explicit(1, der.sequence(PAIR, PAIR))), "twice"),
        (der.sequence(der.explicit(1, der.sequence(der.sequence(ia5("a"), der.sequence())))), "empty list"),
        (der.sequence(der.explicit(1, der.sequence(der.sequence(ia5("a"), der.sequence(der.element(0x0C, b"\xff")))))), "alphabet"),
        (b"\x30\x81\x07\xa0\x05\x30\x03\x16\x01a", "longer than it need be"),
    ],
)  # fmt: skip
def test_what_is_no_constraints_is_refused_with_the_rule(content, why):
    with pytest.raises(ValueError, match=why):
        read(content)
    with pytest.raises(RejectedIdentifier, match=r"\(RFC 9118 s3\)"):
        JwtClaimConstraints().canonical(b64url_encode(content))


def test_a_value_that_is_too_long_for_an_index_is_refused():
    types = JwtClaimConstraints()
    fits, longer = (der.sequence(der.explicit(0, der.sequence(ia5("a" * length)))) for length in (1520, 1530))

    assert types.canonical(b64url_encode(fits)) == types.of_content(fits)
    with pytest.raises(RejectedIdentifier, match="characters in base64url"):
        types.canonical(b64url_encode(longer))
    with pytest.raises(ValueError, match="characters in base64url"):
        types.of_content(longer)


def test_a_certificate_without_names_is_called_what_it_may_sign_as():
    said = JwtClaimConstraints().common_name
    long, two = (
        b64url_encode(der.sequence(der.explicit(1, der.sequence(der.sequence(ia5("sub"), der.sequence(*map(utf8, values)))))))
        for values in (["x" * 65], ["a", "b"])
    )

    assert said(VALUE) == "alice@CHANCERY.TEST"
    for value in (long, two, b64url_encode(RFC_9118)):
        assert said(value).startswith("JWTClaimConstraints ")
        assert len(said(value)) == 52
    assert len({said(long), said(two)}) == 2


# ---- Tokens


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (token(STRANGER), "no key of the issuer made the signature"),
        (token(iss="https://other.example"), "none of the authorities"),
        (token(iss=None), "none of the authorities"),
        (token(iss=[ISSUER]), "none of the authorities"),
        (token(exp=NOW), "exp is missing, past"),
        (token(exp=NOW + 3600 + 61), "more than 3600 s ahead"),
        (token(exp=None), "exp is missing"),
        (token(iat=NOW + 61), "iat lies in the future"),
        (token(jti=None), "jti is missing"),
        (token(jti=""), "jti is missing"),
        (token(jti=7), "jti is missing"),
        (token(header={"typ": "at+jwt"}), "another kind of token"),
        (token(header={"jwk": {}}), "brings a key"),
        (token(header={"jku": "https://x.example"}), "brings a key"),
        (token(atc={"tktype": "TNAuthList"}), "tktype"),
        (token(atc={"tkvalue": OTHER}), "tkvalue"),
        (token(atc={"tkvalue": VALUE + "="}), "tkvalue"),
        (token(atc={"fingerprint": fingerprint("A" * 43)}), "another account"),
        (token(atc={"fingerprint": fingerprint(THUMBPRINT).lower()}), "another account"),
        (token(atc={"ca": True}), "CA certificate"),
        (token(atc={"ca": "false"}), "atc is no object"),
        (token(atc={"tktype": None}), "atc is no object"),
        (token(atc={"tkvalue": None}), "atc is no object"),
        (token(atc={"fingerprint": None}), "atc is no object"),
        (jwt.encode({"alg": "ES256"}, {**CLAIMS, "atc": "x"}, jwk.ECKey.import_key(KEY)), "atc is no object"),
        ("x" * 20_000, "too long"),
    ],
)  # fmt: skip
async def test_a_token_that_proves_nothing_is_unauthorized_with_the_reason(text, why):
    world = World()

    with pytest.raises(Unauthorized, match=why):
        await world.validate(text)
    assert not world.taken


async def test_an_authority_of_telephone_numbers_may_say_where_its_certificate_is():
    assert await World().validate(token(header={"x5u": "https://authority.example/certificate"})) is VALID
    assert await World().validate(token(atc={"ca": None})) is VALID


async def test_a_blocked_key_of_an_authority_vouches_for_nobody():
    world = World()
    world.blocked.add("all")

    with pytest.raises(Unauthorized, match="the key of the authority is blocked"):
        await world.validate(token())


async def test_each_authority_has_keys_of_its_own():
    tables = (AuthorityTable(issuer=ISSUER, jwks=public()), AuthorityTable(issuer="https://two.example", jwks=public(STRANGER)))

    assert await World(None, *tables).validate(token(STRANGER, iss="https://two.example")) is VALID
    with pytest.raises(Unauthorized, match="no key of the issuer"):
        await World(None, *tables).validate(token(STRANGER))


async def test_keys_that_cannot_be_had_are_told_without_their_place():
    world = World(None, AuthorityTable(issuer=ISSUER, jwks_uri="https://authority.example/jwks"))

    with pytest.raises(Unreachable) as refused:
        await world.validate(token())
    assert "authority.example" not in refused.value.detail
    assert "authority.example/jwks" in refused.value.cause


@pytest.mark.parametrize("payload", [{}, {"tkauth": None}, {"tkauth": 1}, {"tkauth": ""}, {"tkauth": "x" * 16_385}, {"atc": "x"}])
def test_a_response_without_a_token_is_refused(payload):
    validator = World().validator
    challenge = attempt_for(validator, IDENTIFIER).challenge

    with pytest.raises(BadRequest, match="tkauth"):
        validator.accept(None, challenge, payload)
    assert validator.accept(None, challenge, {"tkauth": "x"}) == AuthorityToken("x")


def test_the_challenge_says_where_tokens_are():
    world = World()
    challenge = attempt_for(world.validator, IDENTIFIER).challenge
    with_url = Tkauth01(world, world.validator._authorities, "https://authority.example/at")

    assert world.validator.members(challenge) == {"token": challenge.token, "tkauth-type": "atc"}
    assert with_url.members(challenge)["token-authority"] == "https://authority.example/at"


# ---- Single use


@pytest.fixture
async def world(database_url):
    async with open_test_database(database_url) as db:
        yield World(db)


async def test_a_token_is_good_once_and_again_for_the_same_challenge(world):
    assert await world.validate(token(), challenge="c1") is VALID
    assert await world.validate(token(), challenge="c1") is VALID  # repeated after a crash

    for text in (token(), token(exp=NOW + 800), token(exp=NOW + 1000)):
        for _ in range(2):  # the refused one left no mark
            with pytest.raises(Unauthorized, match="used before"):
                await world.validate(text, challenge="c2")
    assert await world.validate(token(jti="n1/2"), challenge="c2") is VALID


async def test_fifty_challenges_share_one_token_and_one_is_proven(world):
    async def one(number):
        try:
            return await world.validate(token(), challenge=f"c{number}")
        except Unauthorized as refused:
            return refused.detail

    answers = await asyncio.gather(*(one(number) for number in range(50)))

    assert answers.count(VALID) == 1
    assert answers.count("the authority token was used before") == 49


async def test_a_token_of_another_account_does_not_use_it_up(world):
    with pytest.raises(Unauthorized, match="another account"):
        await world.validate(token(atc={"fingerprint": fingerprint("A" * 43)}), challenge="thief")

    assert await world.validate(token(), challenge="c1") is VALID


# ---- Names beside the constraints


def order(*identifiers):
    proven = tuple(ProvenIdentifier(identifier=one, validated_by="tkauth-01") for one in identifiers)
    account = AccountView(id="a1", url="https://ca.example/acme/account/a1", status="valid", thumbprint=THUMBPRINT)
    return Finalization(order_id="o1", profile=PROFILE, identifiers=proven, account=account, csr=None, ca_id="default", payload={})


WEB, DB = Identifier("dns", "web1.chancery.test"), Identifier("dns", "db1.chancery.test")
OTHERS = (("dns", "mail.chancery.test"), ("dns", "*.chancery.test"), ("ip", "192.0.2.1"), ("email", "a@b.example"))


@pytest.mark.parametrize(
    "identifiers",
    [(WEB,), (Identifier(TYPE, VALUE),), (Identifier(TYPE, HOST), WEB), (WEB, Identifier(TYPE, HOST), DB)],
)  # fmt: skip
async def test_names_that_the_constraints_permit_stand_beside_them(identifiers):
    await ConstrainedNames().check(order(*identifiers))


@pytest.mark.parametrize("other", [Identifier(*one) for one in OTHERS])
async def test_no_other_name_stands_beside_constraints(other):
    with pytest.raises(Unauthorized, match=r"do not permit"):
        await ConstrainedNames().check(order(Identifier(TYPE, HOST), WEB, other))


async def test_constraints_without_dns_permit_no_name():
    with pytest.raises(Unauthorized, match=r"do not permit dns:web1\.chancery\.test"):
        await ConstrainedNames().check(order(Identifier(TYPE, VALUE), WEB))


# ---- Settings


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"issuer": " ", "jwks": public()}, "issuer"),
        ({"issuer": ISSUER}, "jwks_uri or jwks"),
        ({"issuer": ISSUER, "jwks": public(), "jwks_uri": "https://a.example/jwks"}, "jwks_uri or jwks"),
        ({"issuer": ISSUER, "jwks_uri": "http://a.example/jwks"}, "jwks_uri: expected an https"),
        ({"issuer": ISSUER, "jwks_uri": "https://a.example:x/jwks"}, "jwks_uri: expected an https"),
        ({"issuer": ISSUER, "jwks_uri": "https://u@a.example/jwks"}, "jwks_uri: expected an https"),
        ({"issuer": ISSUER, "jwks_uri": "https://a.example/#x"}, "jwks_uri: expected an https"),
        ({"issuer": ISSUER, "jwks_uri": "https://"}, "jwks_uri: expected an https"),
        ({"issuer": ISSUER, "jwks": public(), "token_authority": "https://a.example/a b"}, "token_authority: expected an https"),
        ({"issuer": ISSUER, "jwks": public(), "token_authority": "https://ä.example/"}, "token_authority: expected an https"),
        ({"issuer": ISSUER, "jwks": {"keys": []}}, "jwks: "),
    ],
)  # fmt: skip
def test_an_authority_that_cannot_be_is_refused_with_the_key(table, why):
    with pytest.raises(ValueError, match=why):
        AuthorityTable(**table)


def test_an_authority_stands_there_once():
    one = AuthorityTable(issuer=ISSUER, jwks=public())
    with pytest.raises(ValueError, match="twice"):
        TkauthSettings(authorities=(one, one))


def test_without_an_authority_nothing_is_offered():
    host: Any = SimpleNamespace(settings=lambda _: TkauthSettings())
    plugin = Plugin()

    for hook in (plugin.identifier_types, plugin.challenge_validators, plugin.finalize_checks, plugin.operations):
        assert hook(host) == []
