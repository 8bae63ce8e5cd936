"""What an entry of a log says, for people: of our logs and of any other of the draft."""

from collections.abc import Iterator

import msgspec
from cryptography import x509

from greatseal import der

__all__ = ["Entry", "matches", "read_entry"]

_NULL, _TBS = b"\x00\x00", b"\x00\x01"
_ALGORITHM = der.sequence(der.object_identifier("1.3.6.1.5.5.7.6.36"))
"""id-alg-unsigned: what is read has no signature (RFC 9925)."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate in a log. ``names`` are those of its SAN as text, else its common names; moments are seconds."""

    names: tuple[str, ...]
    subject: str
    not_before: int
    not_after: int
    key_hash: bytes


def read_entry(entry: bytes) -> Entry | None:
    """What a MerkleTreeCertEntry says; None for the null entry. Raises ValueError for what is none of a certificate."""
    start = 2 + int.from_bytes(entry[:2])
    kind, contents = entry[start : start + 2], entry[start + 2 :]
    if kind == _NULL and not contents:
        return None
    if kind != _TBS:
        raise ValueError("not an entry of a certificate")
    fields = der.children(der.sequence(contents))
    version = [fields.pop(0)] if fields and fields[0][0] == 0xA0 else []
    if len(fields) < 5:
        raise ValueError("not an entry of a certificate: fields are missing")
    *names, algorithm, key_hash = fields[:5]
    key = der.sequence(algorithm, b"\x03\x01\x00")
    tbs = der.sequence(*version, der.integer(1), _ALGORITHM, *names, key, *fields[5:])
    try:
        return _read(x509.load_der_x509_certificate(der.signed(tbs, _ALGORITHM, b"")), der.content(key_hash))
    except Exception as error:  # the parser has several classes for what it cannot read
        raise ValueError(f"not an entry of a certificate: {error}") from error


def matches(entry: Entry, domain: str) -> bool:
    """Whether a name of the certificate is ``domain``, or below it."""
    wanted = domain.lower().strip(".")
    return any(name == wanted or name.endswith((f".{wanted}", f"@{wanted}")) for name in map(str.lower, entry.names))


def _read(certificate: x509.Certificate, key_hash: bytes) -> Entry:
    return Entry(
        names=tuple(_names(certificate)),
        subject=certificate.subject.rfc4514_string(),
        not_before=int(certificate.not_valid_before_utc.timestamp()),
        not_after=int(certificate.not_valid_after_utc.timestamp()),
        key_hash=key_hash,
    )


def _names(certificate: x509.Certificate) -> Iterator[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        for attribute in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME):
            yield str(attribute.value)
        return
    for name in found:
        match name:
            case x509.DNSName() | x509.RFC822Name() | x509.UniformResourceIdentifier():
                yield name.value
            case x509.IPAddress():
                yield str(name.value)
            case x509.OtherName():
                yield f"otherName {name.type_id.dotted_string}"
            case _:
                yield type(name).__name__
