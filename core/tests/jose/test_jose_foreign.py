"""Tokens of other issuers: how they are read, who signed them, what their claims may be."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.api.clients import Client
from greatseal.api.trust import NotVouched, Vouched, check_use
from greatseal.jose.foreign import LEEWAY, LONGEST, LONGEST_TEXT, authenticated_at, check_claims, read, signed_by, text_of
from greatseal.jose.jwk import jwk_of
from greatseal.jose.keysets import read_key_set
from greatseal.testing.trust import signed

KEY = ec.generate_private_key(ec.SECP256R1())
NOW = 1_800_000_000
HERE = frozenset({"https://here.example"})
GOOD = {"aud": "https://here.example", "exp": NOW + 60}


@pytest.mark.parametrize("header", [{}, {"typ": "JWT"}, {"typ": "application/jwt"}, {"typ": "authorization-grant+jwt"}])
def test_a_token_is_read(header):
    token = read(signed(KEY, {"sub": "ann"}, **header))

    assert token.claims == {"sub": "ann"}
    assert signed_by(token, read_key_set({"keys": [jwk_of(KEY.public_key())]})).kid is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (signed(KEY, {"sub": "x" * LONGEST}), "too long"),
        ("a.b.c", "not readable"),
        (signed(KEY, {"sub": "x"}).replace(".", "\u00e4."), "not readable"),
        (signed(KEY, {}, crit=["x"]), "not readable"),
        (signed(KEY, {}, typ=1), "another kind"),
        (signed(KEY, {}, typ="at+jwt"), "another kind"),
        (signed(KEY, {"events": {}}), "another kind"),
        *((signed(KEY, {}, **{name: "x"}), "brings a key") for name in ("jwk", "jku", "x5u")),
    ],
)
def test_what_is_no_token_of_this_kind_is_refused(text, said):
    with pytest.raises(NotVouched) as refused:
        read(text)
    assert said in refused.value.cause


def test_a_key_that_did_not_sign_is_none():
    other = ec.generate_private_key(ec.SECP256R1()).public_key()

    with pytest.raises(NotVouched):
        signed_by(read(signed(KEY, {})), read_key_set({"keys": [jwk_of(other)]}))


@pytest.mark.parametrize(
    "claims", [{}, {"aud": ["x", "https://here.example"]}, {"exp": NOW + 1}, {"exp": NOW + 60.5}, {"nbf": NOW + LEEWAY}]
)
def test_claims_that_are_right(claims):
    whole = {**GOOD, **claims}
    assert check_claims(whole, HERE, now=NOW * 10**6, longest=60) == int(whole["exp"]) * 10**6


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": None}, {"aud": "x"}, {"aud": []}, {"aud": {"https://here.example": 1}}, {"aud": ["https://here.example", 1]},
        {"aud": "https://here.example/"}, {"exp": None}, {"exp": NOW}, {"exp": NOW + 61 + LEEWAY}, {"exp": True}, {"exp": str(NOW + 1)},
        {"exp": -1}, {"exp": 1 << 40}, {"nbf": NOW + LEEWAY + 1}, {"iat": NOW + LEEWAY + 1}, {"nbf": "x"}, {"nbf": True}, {"iat": -1},
    ],
)  # fmt: skip
def test_claims_that_are_not(claims):
    with pytest.raises(NotVouched):
        check_claims({**GOOD, **claims}, HERE, now=NOW * 10**6, longest=60)


def test_a_sign_in_is_never_later_than_now():
    assert authenticated_at({}, now=NOW * 10**6) == NOW * 10**6
    assert authenticated_at({"iat": NOW + 5}, now=NOW * 10**6) == NOW * 10**6
    assert authenticated_at({"iat": NOW - 5, "auth_time": NOW - 9}, now=NOW * 10**6) == (NOW - 9) * 10**6


@pytest.mark.parametrize("value", [None, 1, "", "x" * (LONGEST_TEXT + 1), "a\nb", " ", "ann ", ["ann"]])
def test_a_claim_that_is_no_text_in_a_line(value):
    assert text_of({"sub": "ann b"}, "sub") == "ann b"
    with pytest.raises(NotVouched):
        text_of({"sub": value}, "sub")


@pytest.mark.parametrize(
    ("claims", "more"),
    [
        ({}, {"clients": frozenset({"other"})}),
        *(({"cnf": cnf}, {}) for cnf in ({"jkt": "other"}, {}, "key", {"jkt": "key", "x5t#S256": "x"})),
        ({"act": {"sub": "x"}}, {}),
        *(({"may_act": named}, {}) for named in ({"sub": "c1"}, {"sub": "c1", "iss": "x"}, {"sub": "x", "iss": "us"}, "c1")),
    ],
)
def test_who_may_not_use_what_was_vouched_for(claims, more):
    client = Client(client_id="c1", token_endpoint_auth_method="client_secret_basic")
    good = {"cnf": {"jkt": "key"}, "may_act": {"sub": "c1", "iss": "us"}}
    fields = {"issuer": "them", "subject": "a", "kind": "person", "local": "ann@X", "expires_at": 1, "authenticated_at": 0, "jti": None}
    check_use(Vouched(**fields, claims=good, clients=frozenset({"c1"})), client, {"jkt": "key"}, "us")

    with pytest.raises(NotVouched):
        check_use(Vouched(**fields, claims=claims, **more), client, {"jkt": "key"}, "us")
