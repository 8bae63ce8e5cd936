"""Thousands of odd certificate requests, most of them with a good self-signature: security rows S136 to S140.

Each is refused as badCSR or gives a certificate for the names of the order and nothing else.
"""

import random
from collections import Counter
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from sqlalchemy import select

from greatseal import der
from greatseal.api.acme import BadCsr
from greatseal_ca.tables import certificate

COUNT = 3_000
NAME = "a.localhost"
TEXTS = [
    NAME, NAME.upper(), f"*.{NAME}", f"{NAME}\0.evil.example", f"{NAME}\n", f" {NAME}", f"{NAME}.", "evil.example", "localhost", "::1",
    "127.0.0.1", "é", "\u202e", "x" * 65, "x" * 5000, "", "*", "*.*", "a@b.example", "http://a.localhost/", "xn--a", "-", "_", "a..b",
    "\xff", "1" * 64,
]  # fmt: skip
OIDS = [
    "2.5.4.3", "2.5.4.6", "1.2.840.113549.1.9.1", "2.5.29.17", "2.5.29.19", "2.5.29.15", "2.5.29.37", "2.5.29.14", "2.5.29.30",
    "1.3.6.1.5.5.7.1.24", "1.3.6.1.5.5.7.1.1", "2.23.140.1.31", "1.2.3.4.5", "0.0", "2.999.1",
]  # fmt: skip
EXTENSION_REQUEST = "1.2.840.113549.1.9.14"
KEY = ec.generate_private_key(ec.SECP256R1())


def element(tag: int, *parts: bytes) -> bytes:
    """DER, and other tags than X.690 knows."""
    return der.element(tag, b"".join(parts))


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    return element(6, *map(base128, [first * 40 + second, *rest]))


def base128(number: int) -> bytes:
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(0x80 | number & 0x7F)
    return bytes(reversed(groups))


class Requests:
    """Certificate requests of every kind, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.oddness = 1.0
        self.spki = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def pick(self, choices: list) -> Any:
        """The first, which is as it should be, or in an odd request any."""
        return self.random.choice(choices) if self.odd() else choices[0]

    def odd(self) -> bool:
        return self.random.random() < self.oddness

    def next(self) -> bytes:
        """One request. Some are altered before they are signed, some after."""
        self.oddness = self.random.choice([0.06, 0.2, 0.3, 0.5])
        body = self.body()
        if self.odd() and self.odd():
            body = self.altered(body)
        digest = self.pick([hashes.SHA256(), hashes.SHA256(), hashes.SHA384(), hashes.SHA1()])
        number = {"sha256": 2, "sha384": 3, "sha1": 0}[digest.name]
        algorithm = oid("1.2.840.10045.4.1") if not number else oid(f"1.2.840.10045.4.3.{number}")
        algorithm = element(0x30, algorithm, self.pick([b"", b"", b"", element(5), oid("1.2.3")]))
        signature = element(3, b"\0", KEY.sign(body, ec.ECDSA(digest)))
        whole = element(0x30, body, algorithm, signature)
        match self.random.randrange(12) if self.odd() else 9:
            case 0:
                return self.altered(whole)
            case 1:
                return whole + b"\0"
            case 2:
                return whole[: self.random.randrange(len(whole))]
        return whole

    def body(self) -> bytes:
        version = self.pick([b"\0", b"\0", b"\0", b"\0", b"\1", b"\xff", b"", b"\0" * 9])
        return element(0x30, element(2, version), self.subject(), self.spki, self.attributes())

    def subject(self) -> bytes:
        names = [element(0x31, *[self.attribute() for _ in range(self.pick([1, 1, 1, 0, 2]))]) for _ in range(self.pick([0, 0, 1, 1, 2]))]
        return element(self.pick([0x30] * 9 + [0x31]), *names)

    def attribute(self) -> bytes:
        tag = self.pick([0x0C, 0x0C, 0x13, 0x14, 0x16, 0x1C, 0x1E, 0x02, 0x30, 0x05])
        return element(
            0x30, oid(self.pick(["2.5.4.3", "2.5.4.3", *OIDS])), element(tag, self.pick([NAME, NAME, *TEXTS]).encode("latin-1", "replace"))
        )

    def attributes(self) -> bytes:
        kinds = [
            element(0x30, oid(EXTENSION_REQUEST), element(0x31, *[self.extensions() for _ in range(self.pick([1, 1, 1, 1, 0, 2]))]))
            for _ in range(self.pick([1, 1, 1, 1, 1, 0, 2]))
        ]
        if self.random.random() < 0.1:
            kinds.append(
                element(0x30, oid("1.2.840.113549.1.9.7"), element(0x31, element(0x0C, self.pick(TEXTS).encode("latin-1", "replace"))))
            )
        return element(0xA0, *kinds)

    def extensions(self) -> bytes:
        found = [self.extension("2.5.29.17", element(0x30, *[self.general_name() for _ in range(self.pick([1, 1, 1, 2, 0, 30]))]))]
        found += [self.extension(self.pick(OIDS), self.extension_value()) for _ in range(self.pick([0, 0, 1, 3]))]
        self.random.shuffle(found)
        return element(0x30, *found[: self.pick([9, 9, 9, 0])])

    def extension(self, kind: str, value: bytes) -> bytes:
        critical = self.pick([b"", b"", element(1, b"\xff"), element(1, b"\0"), element(1, b"\1")])
        return element(0x30, oid(kind), critical, element(4, value))

    def general_name(self) -> bytes:
        text = self.pick([NAME] * 20 + TEXTS).encode("latin-1", "replace")
        match self.random.randrange(30) if self.odd() else 9:
            case 0:
                return element(0x87, self.random.randbytes(self.pick([0, 3, 4, 5, 8, 16, 32])))
            case 1:
                return element(0xA0, oid("1.3.6.1.4.1.311.20.2.3"), element(0xA0, element(0x0C, text)))
            case 2:
                return element(0xA4, self.subject())
            case 3:
                return element(self.pick([0x81, 0x86, 0x88, 0x83, 0xA3, 0xA5, 0x89, 0x8F, 0x30, 0x05]), text)
        return element(0x82, text)

    def extension_value(self) -> bytes:
        deep = b""
        for _ in range(self.pick([1, 50, 500])):
            deep = element(0x30, deep)
        yes = element(1, b"\xff")
        return self.random.choice([
            b"", element(0x30), element(0x30, yes), element(0x30, yes, element(2, b"\0")), element(3, b"\1\x86"), element(3),
            element(3, b"\0\xff\xff"), element(0x30, oid("2.5.29.37.0")), element(0x30, oid("1.3.6.1.5.5.7.3.9")), element(4, b"x" * 20),
            element(0x30, element(0xA0, element(0x30, element(0x82, b"example")))), deep, self.random.randbytes(200),
        ])  # fmt: skip

    def altered(self, data: bytes) -> bytes:
        raw = bytearray(data)
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(raw))
            match self.random.randrange(4):
                case 0:
                    raw[at] = self.random.choice([0, 0x80, 0xFF, raw[at] ^ 1, self.random.randrange(256)])
                case 1:
                    raw[at:at] = self.random.randbytes(self.pick([1, 3]))
                case 2:
                    del raw[at : at + self.random.randint(1, 4)]
                case 3:
                    raw[at:at] = raw[at : at + 30]
            if not raw:
                break
        return bytes(raw)


async def test_s136_s137_s138_s139_s140_odd_requests_are_refused_or_give_what_was_ordered(desk):
    requests = Requests(8555)
    found: Counter[bool] = Counter()
    for _ in range(COUNT):
        csr = requests.next()
        try:
            leaf = await desk.leaf(NAME, csr=csr)
        except BadCsr:
            found[False] += 1
        else:
            found[True] += 1
            check_certificate(leaf)

    assert found[True] > COUNT // 100
    assert found[False] > COUNT // 2
    assert len(await desk.rows(select(certificate))) == found[True]


def check_certificate(leaf: x509.Certificate) -> None:
    extensions = {type(one.value): one.value for one in leaf.extensions}
    assert extensions[x509.SubjectAlternativeName] == x509.SubjectAlternativeName([x509.DNSName(NAME)])
    assert list(extensions[x509.ExtendedKeyUsage]) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not extensions[x509.BasicConstraints].ca if x509.BasicConstraints in extensions else True
    assert not extensions[x509.KeyUsage].key_cert_sign
    assert [(one.oid.dotted_string, one.value) for one in leaf.subject] in ([], [("2.5.4.3", NAME)])
    assert not {x509.UnrecognizedExtension, x509.TLSFeature, x509.NameConstraints} & extensions.keys()
