"""The parts of passkeys without a service: what is parsed, the keys, the local store, whom passkeys are made for."""

import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cbor2 import CBORTag, dumps
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, SECP384R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.passkeys import PasskeyStore
from greatseal.jose.compact import b64url_encode
from greatseal.testing.calls import FakeCall
from greatseal.testing.passkeys import PasskeyStoreContract
from greatseal.testing.store import open_test_database
from greatseal_passkey import cbor
from greatseal_passkey.ceremony import Authentication, Registration, Unproven, prove, register
from greatseal_passkey.challenges import owner_of_challenge
from greatseal_passkey.keys import BadKey, cose_of, digest_of, spki_of
from greatseal_passkey.local import LocalPasskeys
from greatseal_passkey.settings import IpaPasskeys, Look, PasskeySettings, RelyingParty, problems, relying_party
from greatseal_passkey.tables import SCHEMA

EXAMPLE = RelyingParty(id="example.org", name="Example", origins=("https://example.org",), verified=False)
PLAIN = st.recursive(
    st.integers(-(2**64), 2**64 - 1) | st.booleans() | st.none() | st.binary(max_size=300) | st.text(max_size=40) | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth_of, inner), default=-1 if not isinstance(value, dict | list) else 0) if isinstance(value, dict | list) else 0


# ---- What is parsed


@given(PLAIN, st.binary(max_size=20))
def test_the_end_of_what_an_authenticator_writes_is_found(value: Any, follows: bytes) -> None:
    encoded = dumps(value)
    if depth_of(value) > cbor.DEPTH:
        with pytest.raises(cbor.NotCanonical):
            cbor.end_of(encoded + follows)
    else:
        assert cbor.end_of(encoded + follows) == len(encoded)


@given(st.dictionaries(st.text(max_size=8), PLAIN.filter(lambda value: depth_of(value) < cbor.DEPTH), max_size=5))
def test_members_are_those_of_the_map(value: dict[str, Any]) -> None:
    assert cbor.members_of(dumps(value)) == {name: dumps(one) for name, one in value.items()}


@given(st.binary(max_size=200))
def test_any_bytes_end_or_are_refused(encoded: bytes) -> None:
    for read in (cbor.end_of, cbor.members_of, cbor.text_of):
        with suppress(cbor.NotCanonical):
            read(encoded)


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x81" * 60_000,
        b"\xa1\x00" * 30_000,
        b"\x9f\xff",
        b"\x5f\x41a\xff",
        b"\xc6\x00",
        dumps(CBORTag(35, "(a|b)" * 9_000)),
        b"\x9b" + b"\x7f" + b"\xff" * 7,
        b"\x5b" + b"\x7f" + b"\xff" * 7,
        b"\x1c",
        b"\x19\x00",
        dumps({number * (2**61 - 1): 0 for number in range(65)}),
        dumps(list(range(65))),
        dumps(dict.fromkeys(range(65))),
    ],
    ids=lambda encoded: f"{encoded[:4].hex()}-{len(encoded)}",
)
def test_s101_bombs_of_cbor_are_refused_at_once(encoded: bytes) -> None:
    with pytest.raises(cbor.NotCanonical):
        cbor.end_of(encoded)


@pytest.mark.parametrize(
    "encoded",
    [
        dumps([]),
        dumps({"a": 1}) + b"\0",
        b"\xa2\x61a\0\x61a\0",
        b"\xa1\x00\x00",
        dumps(b"x"),
        dumps({str(number): 0 for number in range(65)}),
    ],
)
def test_what_is_no_map_of_members_is_refused(encoded: bytes) -> None:
    with pytest.raises(cbor.NotCanonical):
        cbor.members_of(encoded)


def test_a_text_is_no_byte_string() -> None:
    assert cbor.text_of(dumps(b"x")) == b"x"
    with pytest.raises(cbor.NotCanonical):
        cbor.text_of(dumps("x"))


async def test_the_owner_of_a_challenge_is_named_by_it() -> None:
    owner = owner_of_challenge(SimpleNamespace(handles=SimpleNamespace(owner_of_key="of {}".format)), Authentication)  # type: ignore[arg-type]
    used = next(iter(VECTORS.values()))["authentication"]
    given = authentication(used, "00")

    other = msgspec.structs.replace(given, response=msgspec.structs.replace(given.response, client_data="AAAA"))
    first, second = (FakeCall("POST", content=msgspec.json.encode(one)) for one in (given, other))

    digest = b64url_encode(sha256(bytes.fromhex(used["challenge"])).digest())
    assert await owner(first) == f"of passkey:{digest}"
    assert await owner(second) is None


# ---- Keys


def spki(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


@pytest.mark.parametrize(
    "key", [generate_private_key(SECP256R1()), Ed25519PrivateKey.generate(), generate_rsa(65537, 2048)], ids=lambda key: type(key).__name__
)
def test_a_key_is_the_same_in_both_forms(key: Any) -> None:
    assert spki_of(cose_of(spki(key))) == spki(key)


@pytest.mark.parametrize(
    "key",
    [generate_private_key(SECP384R1()), Ed448PrivateKey.generate(), generate_rsa(65537, 1024), generate_rsa(3, 2048)],
    ids=lambda key: type(key).__name__,
)
def test_s101_a_key_of_another_kind_is_refused(key: Any) -> None:
    with pytest.raises(BadKey):
        cose_of(spki(key))
    for read in (cose_of, digest_of):
        with pytest.raises(BadKey):
            read(b"no key")
    with pytest.raises(BadKey):
        digest_of(spki(Ed448PrivateKey.generate()))


def ec(key: EllipticCurvePrivateKey) -> dict[int, Any]:
    numbers = key.public_key().public_numbers()
    return {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}


GOOD = ec(generate_private_key(SECP256R1()))
RSA_1024 = generate_rsa(65537, 1024).public_key().public_numbers().n.to_bytes(128)


@pytest.mark.parametrize(
    "cose",
    [
        {**GOOD, 3: -257},
        {**GOOD, 3: -8},
        {**GOOD, 3: -47},
        {**GOOD, 1: 1},
        {**GOOD, -1: 2},
        {**GOOD, -2: b"\0" * 32},
        {**GOOD, -2: "text"},
        {**GOOD, -2: None},
        {1: 2, 3: -7},
        {},
        [],
        "text",
        {1: 3, 3: -257, -1: RSA_1024, -2: b"\1\0\1"},
        {1: 3, 3: -257, -1: b"\xff" * 256, -2: b"\3"},
        {1: 1, 3: -8, -1: 6, -2: b"\0" * 32},
        {1: 1, 3: -8, -1: 6, -2: b"\1"},
        {1: 1, 3: -8, -1: 7, -2: b"\1" * 57},
    ],
)
def test_s101_a_key_that_does_not_fit_is_refused(cose: Any) -> None:
    with pytest.raises(BadKey):
        spki_of(dumps(cose))


# ---- Vectors of WebAuthn Level 3, s16: rpId example.org, origin https://example.org


VECTORS = json.loads((Path(__file__).with_name("vectors.json")).read_text())


def registration(vector: dict[str, str], **changes: str) -> Registration:
    response = {"clientDataJSON": vector["clientDataJSON"], "attestationObject": vector["attestationObject"], **changes}
    id = b64url_encode(bytes.fromhex(vector["credential_id"]))
    whole = {"id": id, "rawId": id, "type": "public-key", "response": {name: _b64(value) for name, value in response.items()}}
    return msgspec.convert(whole, Registration)


def authentication(vector: dict[str, str], id: str, **changes: str) -> Authentication:
    response = {name: _b64({**vector, **changes}[name]) for name in ("clientDataJSON", "authenticatorData", "signature")}
    id = b64url_encode(bytes.fromhex(id))
    return msgspec.convert({"id": id, "rawId": id, "type": "public-key", "response": response}, Authentication)


def _b64(text: str) -> str:
    return b64url_encode(bytes.fromhex(text))


@pytest.mark.parametrize("name", VECTORS)
def test_the_vectors_of_webauthn_level_3(name: str) -> None:
    made, used = VECTORS[name]["registration"], VECTORS[name]["authentication"]

    registered = register(registration(made), EXAMPLE, bytes.fromhex(made["challenge"]))
    proven = prove(authentication(used, made["credential_id"]), EXAMPLE, bytes.fromhex(used["challenge"]), registered.public_key)

    assert registered.id.hex() == made["credential_id"]
    assert registered.aaguid.replace("-", "") == made["aaguid"]
    assert (registered.sign_count, proven.sign_count) == (0, 0)
    flags = bytes.fromhex(used["authenticatorData"])[32]
    assert proven.verified is bool(flags & 4)
    assert proven.backup_eligible is registered.backup_eligible is bool(flags & 8)
    assert proven.backup_state is bool(flags & 16)


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_with_one_bit_changed_proves_nothing(name: str) -> None:
    made, used = VECTORS[name]["registration"], VECTORS[name]["authentication"]
    key = register(registration(made), EXAMPLE, bytes.fromhex(made["challenge"])).public_key
    challenge = bytes.fromhex(used["challenge"])

    for member in ("clientDataJSON", "authenticatorData", "signature"):
        content = bytes.fromhex(used[member])
        for place in range(0, len(content), 5):
            other = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
            with pytest.raises(Unproven):
                prove(authentication(used, made["credential_id"], **{member: other.hex()}), EXAMPLE, challenge, key)


@given(st.binary(max_size=300))
def test_any_attestation_object_is_refused_with_a_reason(content: bytes) -> None:
    made = next(iter(VECTORS.values()))["registration"]

    with pytest.raises(Unproven, match=r"."):
        register(registration(made, attestationObject=content.hex()), EXAMPLE, bytes.fromhex(made["challenge"]))


@given(st.binary(max_size=300))
def test_any_authenticator_data_proves_nothing(content: bytes) -> None:
    one = next(iter(VECTORS.values()))
    made, used = one["registration"], one["authentication"]
    key = register(registration(made), EXAMPLE, bytes.fromhex(made["challenge"])).public_key

    with pytest.raises(Unproven):
        prove(authentication(used, made["credential_id"], authenticatorData=content.hex()), EXAMPLE, bytes.fromhex(used["challenge"]), key)


# ---- The local store


class TestLocalPasskeys(PasskeyStoreContract):
    subject, source = "ann@EXAMPLE", None

    @pytest.fixture(autouse=True)
    async def _database(self, database_url: str) -> Any:
        async with open_test_database(database_url, SCHEMA) as db:
            self.db = db
            yield

    async def store(self) -> PasskeyStore:
        return LocalPasskeys(SimpleNamespace(db=self.db))  # type: ignore[arg-type]


# ---- Whom passkeys are made for


def host_of(issuer: str, *, rp_id: str | None = None, ipa: dict[str, Any] | None = None, base_url: str = "", **own: Any) -> Any:
    bound = {PasskeySettings: PasskeySettings(rp_id=rp_id, **own), IpaPasskeys: IpaPasskeys(**(ipa or {})), Look: Look()}
    return SimpleNamespace(
        issuer=issuer,
        base_url=base_url or issuer,
        settings=bound.__getitem__,
        section_present=lambda name: name == "ipa" and ipa is not None,
    )


def test_without_a_word_passkeys_are_made_for_the_host_of_the_issuer() -> None:
    assert relying_party(host_of("https://id.example.com/idp", base_url="https://ca.example.com")) == RelyingParty(
        id="id.example.com", name="id.example.com", origins=("https://id.example.com",), verified=True
    )


def test_a_domain_above_takes_all_our_origins_below_it() -> None:
    party = relying_party(host_of("https://id.example.com", rp_id="example.com", base_url="https://ca.example.com:8443"))

    assert party is not None
    assert party.origins == ("https://id.example.com", "https://ca.example.com:8443")


@pytest.mark.parametrize("issuer", ["http://127.0.0.1:8080", "http://[::1]:8080", "https://192.0.2.1"])
def test_idp_232_an_address_has_no_passkeys(issuer: str) -> None:
    assert relying_party(host_of(issuer)) is None
    assert problems(host_of(issuer)) == []


def test_idp_232_with_a_directory_its_domain_must_be_given() -> None:
    assert relying_party(host_of("https://id.example.com", ipa={})) is None
    party = relying_party(host_of("https://id.example.com", ipa={"passkey_rp_id": "example.com"}))
    assert party is not None
    assert party.id == "example.com"


@pytest.mark.parametrize(
    ("rp_id", "ipa"), [("example.net", None), ("ample.com", None), ("com.example", {}), (None, {"passkey_rp_id": "x.id.example.com"})]
)
def test_a_domain_that_is_not_above_the_issuer_stops_the_start(rp_id: str | None, ipa: Any) -> None:
    host = host_of("https://id.example.com", rp_id=rp_id, ipa=ipa)

    (problem,) = problems(host)
    assert "id.example.com" in problem
    assert relying_party(host) is None


def test_the_host_of_the_issuer_may_be_named() -> None:
    party = relying_party(host_of("https://id.example.com", rp_id="id.example.com"))

    assert party is not None
    assert party.id == "id.example.com"


def test_two_domains_stop_the_start() -> None:
    (problem,) = problems(host_of("https://id.example.com", rp_id="example.com", ipa={"passkey_rp_id": "id.example.com"}))

    assert "one domain for all passkeys" in problem


@pytest.mark.parametrize(
    "domain", ["", "Example.com", "https://example.com", "example.com:8080", "192.0.2.1", "::1", "a..b", "-a.b", "x" * 64, "exämple.com"]
)
def test_what_is_no_domain_is_refused(domain: str) -> None:
    with pytest.raises(ValueError, match="rp_id"):
        PasskeySettings(rp_id=domain)
    with pytest.raises(ValueError, match="passkey_rp_id"):
        IpaPasskeys(passkey_rp_id=domain)


def test_preferred_lets_a_device_without_a_pin_in() -> None:
    party = relying_party(host_of("https://id.example.com", user_verification="preferred"))

    assert party is not None
    assert (party.verified, party.verification) == (False, "preferred")
