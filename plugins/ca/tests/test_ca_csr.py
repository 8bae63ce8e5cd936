"""The rules for certificate requests: security rows S136 to S140."""

import base64
import subprocess
import warnings
from functools import cache
from ipaddress import ip_address, ip_network

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, mldsa, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.acme import BadCsr, Identifier
from greatseal.der import bit_string, children, element, sequence
from greatseal.testing.parsers import ParserContract
from greatseal_ca import csr
from greatseal_ca.csr import MAX_CSR_BYTES, match
from greatseal_ca.identifiers import BUILT_IN, is_hostname

TYPES = {one.type: one for one in BUILT_IN}


def read_csr(der: bytes):
    return csr.read_csr(der, TYPES)


def dns(*names: str) -> list[Identifier]:
    return [Identifier("dns", name) for name in names]


def accept(der: bytes, *identifiers: Identifier):
    request = read_csr(der)
    match(request, identifiers)
    return request


def refuse(der: bytes, *identifiers: Identifier) -> str:
    with pytest.raises(BadCsr) as refused:
        accept(der, *identifiers)
    return refused.value.detail


# ---- S136: names


def test_s136_the_names_of_the_order_in_any_order_and_case_are_accepted(make_csr):
    request = accept(make_csr("B.example.com", "*.A.example.com"), *dns("*.a.example.com", "b.example.com"))

    assert request.names == set(dns("*.a.example.com", "b.example.com"))


@pytest.mark.parametrize(
    ("names", "cn", "order", "words"),
    [
        (["a.example.com", "evil.example.com"], None, ["a.example.com"], ["names dns:evil.example.com, which the order does not have"]),
        (["a.example.com"], None, ["a.example.com", "b.example.com"], ["the order has dns:b.example.com"]),
        (["b.example.com"], None, ["a.example.com"], ["the order has dns:a.example.com", "the CSR names dns:b.example.com"]),
        (["a.example.com"], "evil.example.com", ["a.example.com"], ["dns:evil.example.com"]),
        ([f"a{number}.example.com" for number in range(100)], None, ["a.example.com"], ["and 95 more"]),
        ([], None, ["a.example.com"], ["names nothing"]),
    ],
    ids=["more", "fewer", "another", "another in the CN", "many", "none"],
)
def test_s136_other_names_than_those_of_the_order_are_refused(make_csr, names, cn, order, words):
    detail = refuse(make_csr(*names, cn=cn), *dns(*order))

    assert [word for word in words if word not in detail] == []


def test_s136_a_host_name_in_the_cn_alone_is_accepted(make_csr):
    accept(make_csr(cn="A.example.com"), *dns("a.example.com"))
    accept(make_csr(cn="localhost"), *dns("localhost"))


@pytest.mark.parametrize("cn", ["Alice", "Alice Adams", "alice@example.com", "-a.example.com", "", "a..example.com"])
def test_s136_a_cn_that_is_no_host_name_does_not_count(make_csr, cn):
    accept(make_csr("a.example.com", cn=cn or None), *dns("a.example.com"))


SMUGGLED = [
    x509.RFC822Name("root@example.com"),
    x509.UniformResourceIdentifier("https://a.example.com/"),
    x509.OtherName(ObjectIdentifier("1.3.6.1.4.1.311.20.2.3"), b"\x0c\x05admin"),
    x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])),
    x509.RegisteredID(ObjectIdentifier("1.2.3")),
    x509.IPAddress(ip_address("192.0.2.1")),
    x509.IPAddress(ip_network("0.0.0.0/0")),
]


@pytest.mark.parametrize("name", SMUGGLED, ids=lambda name: type(name).__name__)
def test_s136_other_kinds_of_names_are_not_smuggled_in(make_csr, name):
    refuse(make_csr("a.example.com", name), *dns("a.example.com"))


def test_s136_a_directory_name_that_is_too_long_is_refused_or_not_heeded_in_silence(make_csr):
    with warnings.catch_warnings(action="ignore"):
        long = x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x" * 65, _validate=False)]))
    smuggled = make_csr("a.example.com", long)
    ignored = make_csr("a.example.com", extensions=[(x509.IssuerAlternativeName([long]), False)])

    refuse(smuggled, *dns("a.example.com"))
    accept(ignored, *dns("a.example.com"))


def test_s136_addresses_and_mail_addresses_match_in_canonical_form(make_csr):
    accept(make_csr(x509.IPAddress(ip_address("2001:DB8::0:1"))), Identifier("ip", "2001:db8::1"))
    accept(make_csr(cn="192.0.2.1"), Identifier("ip", "192.0.2.1"))
    accept(make_csr(x509.RFC822Name("Alice@EXAMPLE.com")), Identifier("email", "Alice@example.com"))
    refuse(make_csr(x509.RFC822Name("alice@example.com")), Identifier("email", "Alice@example.com"))


# ---- S137: wishes


def test_s137_an_extension_that_cannot_be_read_is_refused(make_csr):
    garbage = (x509.UnrecognizedExtension(ObjectIdentifier("2.5.29.32"), b"garbage"), False)

    refuse(make_csr("a.example.com", extensions=[garbage]), *dns("a.example.com"))


def test_s137_a_wish_to_be_a_ca_is_refused(make_csr):
    wish = [(x509.BasicConstraints(ca=True, path_length=0), False)]

    assert "CA:TRUE" in refuse(make_csr("a.example.com", extensions=wish), *dns("a.example.com"))


def test_s137_a_duplicate_extension_is_refused(make_csr):
    der = make_csr("a.example.com", extensions=[(x509.UnrecognizedExtension(ObjectIdentifier("2.5.29.18"), b"\x30\x00"), False)])

    # issuerAltName becomes a second subjectAltName
    refuse(der.replace(b"\x06\x03\x55\x1d\x12", b"\x06\x03\x55\x1d\x11"), *dns("a.example.com"))


# ---- S138: keys


ACCEPTED_KEYS = [
    rsa.generate_private_key(65537, 2048),
    ec.generate_private_key(ec.SECP256R1()),
    ec.generate_private_key(ec.SECP384R1()),
    ec.generate_private_key(ec.SECP521R1()),
]
ACCEPTED_RAW_KEYS = [
    one.generate() for one in (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey, mldsa.MLDSA44PrivateKey, mldsa.MLDSA87PrivateKey)
]


@pytest.mark.parametrize("key", [*ACCEPTED_KEYS, *ACCEPTED_RAW_KEYS], ids=lambda key: type(key).__name__)
def test_s138_good_keys_are_accepted_with_their_thumbprint(make_csr, key):
    hash_alg = hashes.SHA256() if key in ACCEPTED_KEYS else None

    assert len(accept(make_csr("a.example.com", key=key, hash_alg=hash_alg), *dns("a.example.com")).thumbprint) == 43


REFUSED_KEYS = {
    "P-192": (ec.generate_private_key(ec.SECP192R1()), "not accepted"),
    "secp256k1": (ec.generate_private_key(ec.SECP256K1()), "not accepted"),
    "dsa": (dsa.generate_private_key(2048), "not accepted"),
    "exponent 3": (rsa.generate_private_key(3, 2048), "65537"),
    **{f"RSA of {bits} bits": (rsa.generate_private_key(65537, bits), "RSA modulus") for bits in (1024, 2047, 2052)},
}


@pytest.mark.parametrize(("key", "words"), REFUSED_KEYS.values(), ids=REFUSED_KEYS)
def test_s138_curves_types_and_sizes_outside_the_list_are_refused(make_csr, key, words):
    assert words in refuse(make_csr("a.example.com", key=key), *dns("a.example.com"))


# RFC 7748 s7: points that anybody can sign for, of order 1, 2, 4 and 8
SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
]


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_s138_a_key_that_anybody_can_sign_for_is_refused(make_csr, point):
    key = ed25519.Ed25519PrivateKey.generate()
    der = make_csr("a.example.com", key=key, hash_alg=None)

    detail = refuse(der.replace(key.public_key().public_bytes_raw(), bytes.fromhex(point)))

    assert detail == "the key of the CSR is not accepted: the point is of small order: anybody could sign"


def with_rsa_numbers(make_csr, n: int, e: int) -> bytes:
    """A CSR with another RSA key in it; its self-signature is wrong, but the key is looked at before."""
    key = ACCEPTED_KEYS[0]
    der = make_csr("a.example.com", key=key)
    numbers = key.public_key().public_numbers()
    changed = der.replace(numbers.n.to_bytes(256), n.to_bytes(256)).replace(b"\x02\x03\x01\x00\x01", b"\x02\x03" + e.to_bytes(3))
    assert changed != der
    return changed


@pytest.mark.parametrize(
    ("n", "e", "reason"),
    [
        (ACCEPTED_KEYS[0].public_key().public_numbers().n, 65536, "exponent"),
        (ACCEPTED_KEYS[0].public_key().public_numbers().n - 1, 65537, "factor"),
        (ACCEPTED_KEYS[0].public_key().public_numbers().n // 751 * 751, 65537, "factor"),
    ],
    ids=["even exponent", "even modulus", "small factor"],
)
def test_s138_weak_rsa_numbers_are_refused(make_csr, n, e, reason):
    detail = refuse(with_rsa_numbers(make_csr, n, e))

    assert reason in detail or "not a valid DER" in detail


def test_s138_rsa_of_16384_bits_is_refused():
    modulus = b"\x00" + (1 << 16383 | 1).to_bytes(2048)
    rsa_key = sequence(element(0x02, modulus) + element(0x02, b"\x01\x00\x01"))
    spki = sequence(bytes.fromhex("300d06092a864886f70d0101010500") + bit_string(rsa_key))
    body = sequence(element(0x02, b"\x00") + sequence(b"") + spki + element(0xA0, b""))
    der = sequence(body + bytes.fromhex("300d06092a864886f70d01010b0500") + bit_string(bytes(2048)))

    assert "RSA modulus" in refuse(der)


def test_s138_explicit_curve_parameters_are_refused(tmp_path):
    key, out = tmp_path / "key.pem", tmp_path / "csr.der"
    run("openssl", "ecparam", "-name", "prime256v1", "-param_enc", "explicit", "-genkey", "-noout", "-out", key)
    run("openssl", "req", "-new", "-key", key, "-subj", "/CN=a.example.com", "-outform", "DER", "-out", out)

    assert "usual encoding" in refuse(out.read_bytes(), *dns("a.example.com"))


def test_s138_the_point_at_infinity_and_points_off_the_curve_are_refused(make_csr, ec_key):
    der = make_csr("a.example.com")
    numbers = ec_key.public_key().public_numbers()
    point = b"\x04" + numbers.x.to_bytes(32) + numbers.y.to_bytes(32)

    refuse(der.replace(point, b"\x04" + bytes(64)))
    refuse(der.replace(point, b"\x00" + point[1:]))
    refuse(der.replace(point, point[:-1] + bytes((point[-1] ^ 1,))))


# ---- S139: encodings


def indefinite(der: bytes) -> bytes:
    return b"\x30\x80" + der[4:] + b"\x00\x00"


def nested(levels: int) -> bytes:
    deep = b""
    for _ in range(levels):
        deep = sequence(deep)
    return deep


BAD_ENCODINGS = {
    "empty": (lambda der: b"", "not a valid DER"),
    "a byte over the limit": (lambda der: bytes(MAX_CSR_BYTES + 1), str(MAX_CSR_BYTES)),
    "ten megabytes": (lambda der: der + bytes(10_000_000), str(MAX_CSR_BYTES)),
    "trailing bytes": (lambda der: der + b"\x00", "not a valid DER"),
    "cut short": (lambda der: der[:-1], "not a valid DER"),
    "indefinite length": (indefinite, "not a valid DER"),
    "deep nesting": (lambda der: b"\x30\x80" * 30_000, "not a valid DER"),
    "deep nesting with lengths": (lambda der: nested(2_000), "not a valid DER"),
    "PEM": (lambda der: b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.b64encode(der), "send its DER"),
    "base64": (base64.b64encode, "not a valid DER"),
    "bad self-signature": (lambda der: der[:-1] + bytes((der[-1] ^ 1,)), "signature"),
    "version 1": (lambda der: der.replace(b"\x02\x01\x00\x30", b"\x02\x01\x01\x30", 1), "signature"),
    "length with a leading zero": (lambda der: b"\x30\x83\x00" + der[2:], "not a valid DER"),
}


@pytest.mark.parametrize(("spoil", "words"), BAD_ENCODINGS.values(), ids=BAD_ENCODINGS)
def test_s139_bad_encodings_are_refused(make_csr, spoil, words):
    assert words in refuse(spoil(make_csr("a.example.com")), *dns("a.example.com"))


VERSION_KEYS = {
    "ecdsa": (ec.generate_private_key(ec.SECP384R1()), hashes.SHA384()),
    "rsa": (ACCEPTED_KEYS[0], hashes.SHA256()),
    "ed25519": (ACCEPTED_RAW_KEYS[0], None),
    "ml-dsa": (ACCEPTED_RAW_KEYS[2], None),
}


def with_version(make_csr, version: bytes, kind: str) -> bytes:
    """A request of another version, signed as it is."""
    key, hash_alg = VERSION_KEYS[kind]
    request = x509.load_der_x509_csr(make_csr("a.example.com", key=key, hash_alg=hash_alg))
    body = sequence(element(0x02, version) + b"".join(children(request.tbs_certrequest_bytes)[1:]))
    arguments = {"rsa": (padding.PKCS1v15(), hash_alg), "ecdsa": (ec.ECDSA(hash_alg),)}.get(kind, ())
    algorithm = children(request.public_bytes(Encoding.DER))[1]
    return sequence(body + algorithm + bit_string(key.sign(body, *arguments)))


@pytest.mark.parametrize("kind", VERSION_KEYS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_r111_the_versions_that_clients_write_are_accepted(make_csr, version, kind):
    """RFC 2986 has 0 alone, which is v1."""
    request = accept(with_version(make_csr, bytes((version,)), kind), *dns("a.example.com"))

    assert request.der[request.der.index(b"\x02\x01") + 2] == version


@pytest.mark.parametrize("version", [b"\x03", b"\x7f", b"\xff", b"\x01\x00", b"\x7f" * 8])
def test_r111_another_version_is_refused_by_its_number(make_csr, version):
    assert f"version {int.from_bytes(version, signed=True)};" in refuse(with_version(make_csr, version, "ecdsa"))


@pytest.mark.parametrize("spoil", [lambda der: b"\x31" + der[1:], lambda der: b"\x30\x83\x00" + der[2:], lambda der: der + b"\x00"])
def test_r111_a_request_of_an_odd_version_is_no_less_strictly_read(make_csr, spoil):
    assert "not a valid DER" in refuse(spoil(with_version(make_csr, b"\x02", "ecdsa")))
    assert "signature" in refuse(with_version(make_csr, b"\x02", "ecdsa").replace(b"\x02\x01\x02", b"\x02\x01\x01", 1))


OTHER_ALGORITHMS = {
    "ECDSA for an RSA key": ("rsa", "300a06082a8648ce3d040302"),
    "RSA for an EC key": ("ecdsa", "300d06092a864886f70d01010b0500"),
    "Ed448 for an Ed25519 key": ("ed25519", "300506032b6571"),
    "RSA for an ML-DSA key": ("ml-dsa", "300d06092a864886f70d01010b0500"),
    "PSS without its hash": ("rsa", "300b06092a864886f70d01010a"),
}


@pytest.mark.parametrize(("kind", "algorithm"), OTHER_ALGORITHMS.values(), ids=OTHER_ALGORITHMS)
def test_s139_a_signature_algorithm_that_is_not_the_key_s_is_refused(make_csr, kind, algorithm):
    body, _, signature = children(with_version(make_csr, b"\x00", kind))

    refuse(sequence(body + bytes.fromhex(algorithm) + signature), *dns("a.example.com"))


@pytest.mark.parametrize("kind", VERSION_KEYS)
def test_s139_a_request_that_was_changed_after_it_was_signed_is_refused(make_csr, kind):
    der = with_version(make_csr, b"\x00", kind)

    assert "signature" in refuse(der.replace(b"a.example.com", b"b.example.com"))


def test_s139_an_empty_extended_key_usage_is_refused(make_csr):
    refuse(make_csr("a.example.com", extensions=[(x509.UnrecognizedExtension(ObjectIdentifier("2.5.29.37"), b"\x30\x00"), False)]))


@pytest.mark.parametrize("name", ["md5", "sha1", "sha224"])
def test_s139_old_hashes_are_refused(tmp_path, name):
    key, out = tmp_path / "key.pem", tmp_path / "csr.der"
    run("openssl", "genrsa", "-out", key, "2048")
    run("openssl", "req", "-new", f"-{name}", "-key", key, "-subj", "/CN=a.example.com", "-outform", "DER", "-out", out)

    assert "SHA-256" in refuse(out.read_bytes(), *dns("a.example.com"))


def run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@cache
def plain(*names: str) -> bytes:
    """By an Ed25519 key."""
    named = x509.SubjectAlternativeName(list(map(x509.DNSName, names)))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][-13:])])
    builder = x509.CertificateSigningRequestBuilder(subject).add_extension(named, critical=False)
    builder = builder.add_extension(x509.TLSFeature([x509.TLSFeatureType.status_request]), critical=False)
    return builder.sign(ACCEPTED_RAW_KEYS[0], None).public_bytes(Encoding.DER)


def signed(body: bytes) -> bytes:
    """What the holder of a key would send, whatever its body is."""
    return sequence(body + bytes.fromhex("300506032b6570") + bit_string(ACCEPTED_RAW_KEYS[0].sign(body)))


def with_subject(attribute: bytes, times: int) -> bytes:
    version, _, *rest = children(children(plain("a.example.com"))[0])
    return signed(sequence(version + sequence(element(0x31, attribute) * times) + b"".join(rest)))


def with_attributes(attributes: bytes) -> bytes:
    version, subject, key, _ = children(children(plain("a.example.com"))[0])
    return signed(sequence(version + subject + key + element(0xA0, attributes)))


def asking(extension: bytes, times: int) -> bytes:
    return with_attributes(sequence(bytes.fromhex("06092a864886f70d01090e") + element(0x31, sequence(extension * times))))


class TestAnyRequest(ParserContract):
    """S139: the request as it comes."""

    valid = (plain("a.example.com", "*.b.example.com"),)
    refusals = BadCsr
    costly = tuple(
        (der,)
        for der in (
            bytes(MAX_CSR_BYTES),
            b"\x30\x80" * (MAX_CSR_BYTES // 2),
            b"\x30\x82\xff\x00" * (MAX_CSR_BYTES // 4),
            nested(4000),
            plain(*(f"{number:x}.a" for number in range(7000))),
            plain(*["a.example.com"] * 4200),
            plain(*["a." * 120 + "a"] * 260),
            with_subject(sequence(bytes.fromhex("0603550403") + element(0x0C, b"a")), 5400),
            with_attributes(sequence(bytes.fromhex("06032a0304") + element(0x31, b"")) * 7000),
            asking(sequence(bytes.fromhex("06032a0304") + element(0x04, b"")), 7000),
            asking(sequence(bytes.fromhex("0603551d12") + element(0x04, sequence(b""))), 5000),
        )
    )

    def read(self, *parts: bytes) -> None:
        request = read_csr(parts[0])
        assert request.spki in parts[0]
        assert request.names


class TestAnySignedBody(ParserContract):
    """S139: what the holder of a key signed."""

    valid = (children(plain("a.example.com", "*.b.example.com"))[0],)
    refusals = BadCsr

    def read(self, *parts: bytes) -> None:
        request = read_csr(signed(parts[0]))
        assert request.public_key == ACCEPTED_RAW_KEYS[0].public_key()
        match(request, sorted(request.names))


# ---- S140: characters


def raw_dns_san(*values: bytes) -> x509.UnrecognizedExtension:
    return x509.UnrecognizedExtension(ObjectIdentifier("2.5.29.17"), sequence(b"".join(element(0x82, value) for value in values)))


ODD_NAMES = [
    b"a.example.com\x00.evil.example", b"a.example.com\n", b" a.example.com", b"a.example.com ", b"a b.example.com", b"a.example.com.", b"",
    b".", b"*", b"a.*.example.com", b"**.example.com", b"a*.example.com", b"*.*.example.com", b"a_b.example.com", b"-a.example.com",
    b"a-.example.com", b"a..example.com", b"\xc3\xa4.example.com", b"\xff.example.com", b"a" * 64 + b".example.com", b"a." * 127 + b"a",
    b"a.example.com,DNS:evil.example", b"a/b.example.com", b"a.example.com\r\nX: y",
]  # fmt: skip


@pytest.mark.parametrize("value", ODD_NAMES, ids=repr)
def test_s140_odd_dns_names_are_refused(make_csr, value):
    refuse(make_csr(extensions=[(raw_dns_san(value), False)]), *dns("a.example.com"))
    refuse(make_csr(extensions=[(raw_dns_san(b"a.example.com", value), False)]), *dns("a.example.com"))


@pytest.mark.parametrize("cn", ["a.example.com\x00", "a.example.com\n", "a.*.example.com", "\u00e4.example.com", "a b", "*", "a" * 300])
def test_s140_odd_common_names_are_not_host_names(make_csr, cn):
    accept(make_csr("a.example.com", cn=cn), *dns("a.example.com"))
    assert "names nothing" in refuse(make_csr(cn=cn))


def test_s140_a_wildcard_must_be_in_the_order(make_csr):
    refuse(make_csr("*.example.com"), *dns("example.com"))
    refuse(make_csr("a.example.com", cn="*.example.com"), *dns("a.example.com"))
    accept(make_csr("*.example.com", cn="*.example.com"), *dns("*.example.com"))


@given(st.text(max_size=80))
def test_s140_host_names_are_plain_ascii(text):
    if is_hostname(text):
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.*")
        assert "*" not in text.removeprefix("*.")
