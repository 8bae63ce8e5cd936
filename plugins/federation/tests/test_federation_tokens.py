"""What logout tokens, moments and claims of a provider must be, before a signature is looked at."""

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.api.trust import NotVouched
from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.foreign import LONGEST
from greatseal_federation.id_tokens import LOGOUT_EVENT, read_logout, signed_in_at
from greatseal_federation.identity import Identity
from greatseal_federation.upstreams import Upstream

KEY = ec.generate_private_key(ec.SECP256R1())
LOGOUT = {"iss": "https://login.partner.example", "aud": "greatseal", "jti": "j-1", "sub": "ada-1", "events": {LOGOUT_EVENT: {}}}
NOW = 1_800_000_000_000_000
UPSTREAM = Upstream(id="partner", display_name="Partner", issuer="https://login.partner.example", client_id="greatseal", scopes=("openid",))


def token(header: dict[str, Any], **changes: Any) -> str:
    claims = {name: value for name, value in {**LOGOUT, **changes}.items() if value is not None}
    return sign_compact({"alg": "ES256", **header}, msgspec.json.encode(claims), lambda text: ALGORITHMS["ES256"].sign(KEY, text))


@pytest.mark.parametrize("typ", ["JWT", "logout+jwt", "application/logout+jwt", "LOGOUT+JWT"])
def test_a_logout_token_may_say_what_it_is(typ: str) -> None:
    assert read_logout(token({"typ": typ})).claims["sub"] == "ada-1"
    assert read_logout(token({}, sub=None, sid="s")).claims["sid"] == "s"


@pytest.mark.parametrize(
    ("header", "changes", "words"),
    [
        ({}, {"padding": "x" * LONGEST}, "too long"),
        ({"typ": "at+jwt"}, {}, "another kind"),
        ({"typ": 7}, {}, "another kind"),
        ({"typ": None}, {}, "another kind"),
        *(({name: {}}, {}, "brings a key") for name in ("jwk", "jku", "x5u")),
        *(({}, {"events": events}, "events does not say") for events in (None, [LOGOUT_EVENT], {}, {LOGOUT_EVENT: True}, {"x": {}})),
        ({}, {"nonce": "n"}, "nonce"),
        ({}, {"sub": None}, "neither sub nor sid"),
        *(({}, {name: value}, name) for name in ("jti", "sub", "sid") for value in (7, "", ["x"])),
        ({}, {"jti": None}, "jti"),
    ],
)
def test_what_is_no_logout_token_ends_nothing(header: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    with pytest.raises(NotVouched) as refused:
        read_logout(token(header, **changes))
    assert words in str(refused.value.cause)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "....", "eyJhbGciOiJFUzI1NiJ9.W10.AA"])
def test_a_text_that_is_no_token_ends_nothing(text: str) -> None:
    with pytest.raises(NotVouched):
        read_logout(text)


@pytest.mark.parametrize(
    ("told", "found", "assumed"),
    [
        (1_799_999_000, 1_799_999_000_000_000, 1_799_999_000_000_000),
        (1_799_999_000.5, 1_799_999_000_000_000, 1_799_999_000_000_000),
        (1_800_000_020, NOW, NOW),
        (0, 0, 0),
        (None, None, NOW),
        *((wrong, None, None) for wrong in (1_800_001_000, "1799999000", True, -1, 1 << 40, [1_799_999_000], {})),
    ],
)
def test_the_moment_of_a_sign_in_is_told_or_assumed_where_nothing_is_told(told: Any, found: int | None, assumed: int | None) -> None:
    claims = {} if told is None else {"auth_time": told}

    assert signed_in_at(claims, NOW) == found
    assert signed_in_at(claims, NOW, assumed=True) == assumed


def test_a_claim_that_is_null_tells_no_moment() -> None:
    assert (signed_in_at({"auth_time": None}, NOW), signed_in_at({"auth_time": None}, NOW, assumed=True)) == (None, NOW)


def identity(**claims: Any) -> Identity:
    return Identity(upstream=UPSTREAM, issuer=UPSTREAM.issuer, subject="ada-1", claims=claims)


@pytest.mark.parametrize("value", [None, True, ["Ada"], {"a": 1}, "", "x" * 257, "Ada\n", "A\x00"])
def test_a_claim_that_is_no_line_of_text_is_none(value: Any) -> None:
    assert identity(name=value).text("name") is None
    assert identity(name="x" * 256).text("name") == "x" * 256
    assert identity(name=value).told("name") is None
    assert (identity(name="Ada").told("name"), identity(name=7).told("name")) == ("Ada", "7")


@pytest.mark.parametrize("said", [None, False, "yes", 1, "false", ["true"]])
def test_an_address_that_is_not_verified_names_nobody(said: Any) -> None:
    assert identity(email="ada@example.org", email_verified=said).verified_email is None
    if said is not None:
        assert identity(email="ada@example.org", email_verified=said).told("email") is None


@pytest.mark.parametrize("email", [None, "ada", "ada@@example.org", "a@b@example.org", "adä@example.org", 7, "ada@exam\nple.org"])
def test_what_is_no_address_is_not_one_that_is_verified(email: Any) -> None:
    assert identity(email=email, email_verified=True).verified_email is None
    assert identity(email="Ada@Example.org", email_verified=True).verified_email == "ada@example.org"
