"""The lines of the interface document on onion-csr-01, the form of RFC 9799, and S133."""

from base64 import b32encode, b64decode
from typing import cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from greatseal import der
from greatseal.api.acme import VALID, AccountView, Attempt, BadCsr, Identifier
from greatseal.api.issuance import CertificateRequest, Finalization, Profile, ProvenIdentifier
from greatseal.api.problems import BadRequest, IncorrectResponse
from greatseal.api.store import Tx
from greatseal.jose.compact import b64url_encode
from greatseal.net.onion import checksum_of, onion_key
from greatseal.testing.finalization import FinalizeCheckContract
from greatseal.testing.parsers import ParserContract
from greatseal.testing.validators import THUMBPRINT, TOKEN, ResponseValidatorContract, attempt_for
from greatseal_onion_csr_01.onion_csr_01 import NONCE_CHARACTERS, OnionCsr01, OnionKeyCheck, OnionResponse
from greatseal_onion_csr_01.request import MAX_BYTES, check
from greatseal_onion_csr_01.settings import OnionAddresses

KEY = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
)  # RFC 8032 s7.1
OTHER = Ed25519PrivateKey.generate()
NAME = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion"
LIVE = "bbcweb3hytmzhn5d532owbu6oqadra5z3ar726vq5kgwwn6aucdccrad.onion"
NO_TX = cast("Tx", None)  # nothing is written
RAW = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
NONCE = "ABCDEFGHIJKLMNOPabcdefgh"
AUTHORIZATION = f"{TOKEN}.{THUMBPRINT}"

CA_NONCE, APPLICANT_NONCE = bytes.fromhex("060467810c29"), bytes.fromhex("060467810c2a")
EXTENSION_REQUEST = bytes.fromhex("06092a864886f70d01090e")
SAN = bytes.fromhex("0603551d11")
ED25519 = bytes.fromhex("300506032b6570")
OCTETS, SET, UTF8, PRINTABLE, IA5 = 0x04, 0x31, 0x0C, 0x13, 0x16


def attribute(oid: bytes, *values: bytes) -> bytes:
    return der.sequence(oid, der.element(SET, b"".join(values)))


def octets(value: bytes) -> bytes:
    return der.element(OCTETS, value)


def csr(*attributes: bytes, key: Ed25519PrivateKey = KEY, signer: Ed25519PrivateKey | None = None, algorithm: bytes = ED25519) -> bytes:
    spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    body = der.sequence(b"\x02\x01\x00", der.sequence(), spki, der.element(0xA0, b"".join(sorted(attributes))))
    return der.sequence(body, algorithm, der.bit_string((signer or key).sign(body)))


OURS = attribute(CA_NONCE, octets(b64decode(NONCE)))
THEIRS = attribute(APPLICANT_NONCE, octets(b"8 bytes!"))


def extensions(nonce: bytes | None = AUTHORIZATION.encode(), *names: str) -> bytes:
    """The attribute extensionRequest."""
    made = [] if nonce is None else [der.sequence(CA_NONCE, octets(nonce))]
    if names:
        made.append(der.sequence(SAN, octets(der.sequence(*(der.element(0x82, name.encode()) for name in names)))))
    return attribute(EXTENSION_REQUEST, der.sequence(*made))


def response(request: bytes) -> OnionResponse:
    return OnionResponse(NONCE, request)


def validator(*, verify_checksum: bool = True) -> OnionCsr01:
    return OnionCsr01(OnionAddresses(onion_verify_checksum=verify_checksum))


def attempt(request: bytes, name: str = NAME) -> Attempt:
    return attempt_for(validator(), Identifier("dns", name), kept=response(request))


class TestOnionCsr01(ResponseValidatorContract):
    identifier = Identifier("dns", NAME)
    kept = response(csr(OURS, THEIRS))
    wrong = (response(csr(OURS, THEIRS, key=OTHER)), response(csr()), response(b""), response(b"\x00" * 1000))

    def validator(self) -> OnionCsr01:
        return validator()


class TestOnionCsr01InTheOtherForm(TestOnionCsr01):
    kept = response(csr(extensions(AUTHORIZATION.encode(), NAME)))


def test_the_vectors_of_rfc_9799_and_of_tor() -> None:
    assert onion_key(NAME, verify_checksum=True).public_bytes_raw() == RAW
    assert checksum_of(RAW).hex() == "bec9"
    assert checksum_of(onion_key(LIVE, verify_checksum=True).public_bytes_raw()).hex() == "2144"
    assert onion_key(f"www.{NAME}", verify_checksum=True).public_bytes_raw() == RAW
    shape = der.element(0xA0, attribute(CA_NONCE, octets(b"\x01" * 8)))
    assert shape.hex() == "a01430120604" + "67810c29" + "310a0408" + "01" * 8


def address(raw: bytes, checksum: bytes | None = None, version: bytes = b"\x03") -> str:
    return b32encode(raw + (checksum or checksum_of(raw)) + version).decode().lower() + ".onion"


NO_ADDRESS = {
    "version 2": ("expyuzz4wqqyqhjn.onion", "no onion address of version 3"),
    "version 4": (address(RAW, version=b"\x04"), "of version 4; expected 3"),
    "a wrong checksum": (address(RAW, b"\0\0"), "checksum of the onion address is 0000; that of its key is bec9"),
    "upper case": (NAME.upper().replace(".ONION", ".onion"), "no onion address of version 3"),
    "a character more": (f"a{NAME}", "no onion address of version 3"),
    "a digit of none": (NAME.replace("2", "1"), "no onion address of version 3"),
    "no name under .onion": (NAME.removesuffix(".onion"), "no onion address of version 3"),
    "another domain": (NAME.replace(".onion", ".example"), "no onion address of version 3"),
    "a key of small order": (address(b"\x01" + bytes(31)), "the point is of small order"),
}


@pytest.mark.parametrize(("name", "wrong"), NO_ADDRESS.values(), ids=NO_ADDRESS)
async def test_s133_ca_240_ca_245_what_is_no_address_of_version_3_is_an_incorrect_response(name: str, wrong: str) -> None:
    with pytest.raises(IncorrectResponse) as raised:
        await validator().validate(attempt(csr(OURS, THEIRS), name))

    assert raised.value.detail.startswith(f"{name}: ")
    assert wrong in raised.value.detail


async def test_ca_240_the_switch_lets_a_wrong_checksum_pass() -> None:
    name = address(RAW, b"\0\0")

    assert await validator(verify_checksum=False).validate(attempt(csr(OURS, THEIRS), name)) is VALID
    assert await validator(verify_checksum=False).validate(attempt(csr(extensions(AUTHORIZATION.encode(), name)), name)) is VALID


PROVES = {
    "RFC 9799": csr(OURS, THEIRS),
    "RFC 9799, with names that nobody looks at": csr(OURS, THEIRS, extensions(None, "somebody.example")),
    "a longer nonce of the applicant": csr(OURS, attribute(APPLICANT_NONCE, octets(bytes(64)))),
    "bare": csr(extensions(AUTHORIZATION.encode(), NAME)),
    "UTF8String": csr(extensions(der.element(UTF8, AUTHORIZATION.encode()), NAME)),
    "IA5String": csr(extensions(der.element(IA5, AUTHORIZATION.encode()), NAME)),
    "PrintableString": csr(extensions(der.element(PRINTABLE, AUTHORIZATION.encode()), NAME)),
    "one name of several": csr(extensions(AUTHORIZATION.encode(), f"www.{NAME}", NAME)),
    "upper case in the request": csr(extensions(AUTHORIZATION.encode(), NAME.upper())),
}


@pytest.mark.parametrize("request_", PROVES.values(), ids=PROVES)
async def test_ca_241_ca_242_ca_243_ca_244_both_forms_prove_it(request_: bytes) -> None:
    assert await validator().validate(attempt(request_)) is VALID


STRANGER = AUTHORIZATION.replace(THUMBPRINT, THUMBPRINT[::-1]).encode()
FORGED = csr(OURS, THEIRS, signer=OTHER)
DOES_NOT = {
    "not DER": (b"\x30\x82", "is not a DER PKCS#10 certificate request"),
    "PEM": (b"-----BEGIN CERTIFICATE REQUEST-----", "is not a DER PKCS#10 certificate request"),
    "bytes behind": (csr(OURS, THEIRS) + b"\0", "is not a DER PKCS#10 certificate request"),
    "large": (csr(OURS, attribute(APPLICANT_NONCE, octets(bytes(MAX_BYTES)))), f"bytes; at most {MAX_BYTES} are read"),
    "another key": (csr(OURS, THEIRS, key=OTHER), "has another key than the onion service"),
    "another signer": (FORGED, "is not signed by the key of the onion service"),
    "another key, signed by that of the service": (csr(OURS, THEIRS, key=OTHER, signer=KEY), "has another key than the onion service"),
    "another algorithm": (
        csr(OURS, THEIRS, algorithm=bytes.fromhex("300a06082a8648ce3d040302")), "is signed by another algorithm than Ed25519",
    ),
    "neither form": (csr(), "has 2.23.140.41 neither as an attribute (RFC 9799 s3.2) nor as an extension"),
    "names alone": (csr(extensions(None, NAME)), "has 2.23.140.41 neither as an attribute"),
    "the nonce of another challenge": (csr(attribute(CA_NONCE, octets(bytes(18))), THEIRS), f"the challenge, {b64decode(NONCE).hex()}"),
    "the nonce as text": (csr(attribute(CA_NONCE, octets(NONCE.encode())), THEIRS), "with another value than the nonce"),
    "the nonce as a string": (csr(attribute(CA_NONCE, der.element(UTF8, b64decode(NONCE))), THEIRS), "with another value than the nonce"),
    "two nonces": (csr(attribute(CA_NONCE, octets(bytes(18))), OURS, THEIRS), "with another value than the nonce"),
    "no nonce of the applicant": (csr(OURS), "lacks the attribute 2.23.140.42, an OCTET STRING of 8 bytes or more"),
    "a short nonce of the applicant": (csr(OURS, attribute(APPLICANT_NONCE, octets(b"7 bytes"))), "lacks the attribute 2.23.140.42"),
    "a nonce of the applicant as text": (csr(OURS, attribute(APPLICANT_NONCE, der.element(UTF8, bytes(9)))), "lacks the attribute"),
    "the key authorization of another": (csr(extensions(STRANGER, NAME)), f'expected "{AUTHORIZATION}"'),
    "the key authorization and more": (csr(extensions(AUTHORIZATION.encode() + b"\n", NAME)), f'expected "{AUTHORIZATION}"'),
    "no name": (csr(extensions()), f"does not have {NAME} as a dNSName"),
    "another name": (csr(extensions(AUTHORIZATION.encode(), LIVE)), f"does not have {NAME} as a dNSName"),
    "a name below": (csr(extensions(AUTHORIZATION.encode(), f"www.{NAME}")), f"does not have {NAME} as a dNSName"),
    "both forms": (csr(OURS, THEIRS, extensions(AUTHORIZATION.encode(), NAME)), "as an extension and has attributes of the other form"),
    "half of each": (csr(THEIRS, extensions(AUTHORIZATION.encode(), NAME)), "as an extension and has attributes of the other form"),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "wrong"), DOES_NOT.values(), ids=DOES_NOT)
async def test_s133_ca_241_ca_242_ca_243_ca_244_ca_245_a_request_that_proves_nothing(request_: bytes, wrong: str) -> None:
    with pytest.raises(IncorrectResponse) as raised:
        await validator().validate(attempt(request_))

    assert raised.value.detail.startswith(f"{NAME}: the CSR ")
    assert wrong in raised.value.detail


async def test_a_key_of_another_type_is_another_key() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)

    with pytest.raises(IncorrectResponse, match="has another key than the onion service"):
        await validator().validate(attempt(request))


@pytest.mark.parametrize("name", [f"*.{NAME}", NAME])
async def test_a_wildcard_is_proven_by_its_base_or_by_itself(name: str) -> None:
    wildcard = attempt_for(validator(), Identifier("dns", f"*.{NAME}"), kept=response(csr(extensions(AUTHORIZATION.encode(), name))))

    assert await validator().validate(wildcard) is VALID


@pytest.mark.parametrize(("name", "offered"), [(NAME, True), (f"www.{NAME}", True), ("a.example", False), ("onion.example", False)])
def test_it_is_offered_for_onion_names_alone(name: str, offered: bool) -> None:
    assert validator().offers(Identifier("dns", name)) is offered


def test_the_nonce_is_random_and_one_text_in_all_spellings_of_base64() -> None:
    challenge = attempt(b"").challenge
    made = {validator().create(NO_TX, challenge).nonce for _ in range(20)}

    assert len(made) == 20
    assert all(one.isalnum() and len(one) == NONCE_CHARACTERS and len(b64decode(one, validate=True)) == 18 for one in made)
    assert validator().members(challenge) == {"token": TOKEN, "nonce": NONCE}


def test_ca_106_the_payload_is_the_request_in_base64url() -> None:
    challenge = attempt(b"").challenge

    assert validator().accept(NO_TX, challenge, {"csr": b64url_encode(b"any bytes"), "more": 1}) == OnionResponse(NONCE, b"any bytes")


@pytest.mark.parametrize(
    "payload", [{}, {"csr": None}, {"csr": 1}, {"csr": ["AA"]}, {"csr": "A"}, {"csr": "AA=="}, {"csr": "+/8"}, {"csr": "ü"}]
)
def test_ca_106_another_payload_is_refused(payload: dict[str, object]) -> None:
    with pytest.raises(BadRequest, match=r"^csr is "):
        validator().accept(NO_TX, attempt(b"").challenge, payload)


GOOD = csr(OURS, THEIRS, extensions(None, NAME))
SIGNED = der.children(GOOD)[0]


class TestAnyRequest(ParserContract):
    """S133: the request as it comes."""

    valid = (GOOD,)
    refusals = ValueError
    costly = (
        (csr(attribute(CA_NONCE, octets(b"") * 8000)),),
        (csr(*[THEIRS] * 500),),
        (csr(extensions(AUTHORIZATION.encode(), *["a.example"] * 1300)),),
        (b"\x30\x80" * (MAX_BYTES // 2),),
    )

    def read(self, *parts: bytes) -> None:
        """It is what was signed, or it is refused."""
        check(parts[0], KEY.public_key(), [NAME], key_authorization=AUTHORIZATION, nonce=b64decode(NONCE))
        assert SIGNED in parts[0]


class TestAnyAttributes(ParserContract):
    """S133: what a stranger signed; the two attributes and the extension."""

    valid = (OURS, THEIRS, extensions(None, NAME))
    refusals = ValueError

    def read(self, *parts: bytes) -> None:
        """The nonce of the challenge, or the key authorization, is in it."""
        check(csr(*parts), KEY.public_key(), [NAME], key_authorization=AUTHORIZATION, nonce=b64decode(NONCE))
        whole = b"".join(parts)
        assert b64decode(NONCE) in whole or AUTHORIZATION.encode() in whole


@given(st.lists(st.binary(max_size=30), max_size=5), st.binary(max_size=60))
def test_s133_attributes_of_a_stranger_are_refused_though_they_are_signed(attributes: list[bytes], nonce: bytes) -> None:
    for request in (csr(*attributes), csr(attribute(CA_NONCE, nonce), *attributes), csr(extensions(nonce), *attributes)):
        with pytest.raises(ValueError, match=r"^(is|has|holds|lacks|does) "):
            check(request, KEY.public_key(), [NAME], key_authorization=AUTHORIZATION, nonce=b64decode(NONCE))


def request_with(key: Ed25519PrivateKey) -> CertificateRequest:
    data = csr(extensions(None, NAME), key=key)
    return CertificateRequest(
        der=data,
        spki=b"",
        spki_sha256="",
        public_key=key.public_key(),
        thumbprint=None,
        names=frozenset(),
        csr=x509.load_der_x509_csr(data),
    )


def finalization(key: Ed25519PrivateKey, name: str = NAME, validated_by: str = "onion-csr-01") -> Finalization:
    return Finalization(
        order_id="o1",
        profile=Profile(id="default", description="", issue_as="x509", ca_id="main", validity_days=90, eku=("serverAuth",)),
        identifiers=(
            ProvenIdentifier(identifier=Identifier("dns", "a.example"), validated_by="http-01"),
            ProvenIdentifier(identifier=Identifier("dns", name), validated_by=validated_by),
        ),
        account=AccountView(id="a1", url="https://ca.example/acme/account/a1", status="valid", thumbprint=THUMBPRINT),
        csr=request_with(key),
        ca_id="main",
        payload={},
    )


class TestOnionKeyCheck(FinalizeCheckContract):
    passes = finalization(OTHER)
    refuses = finalization(KEY)

    def check(self) -> OnionKeyCheck:
        return OnionKeyCheck()


@pytest.mark.parametrize("name", [NAME, f"www.{NAME}", f"*.{NAME}", address(RAW, b"\0\0")])
async def test_the_key_of_the_service_is_never_that_of_a_certificate(name: str) -> None:
    with pytest.raises(BadCsr, match="the key of the request is that of the onion service"):
        await OnionKeyCheck().check(finalization(KEY, name))
