"""The names of certificates, for people."""

from collections.abc import Iterable, Iterator

from cryptography import x509

LONGEST = 255
"""Characters of a name that are looked at in a search."""
LABELS = range(2, 6)
"""Labels of a domain by which the names below it are found."""


def names_of(certificate: x509.Certificate) -> Iterator[str]:
    """Every subject alternative name in words, and the common name where it is none of them."""
    try:
        shown = [_word(name) for name in certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value]
    except x509.ExtensionNotFound:
        shown = []
    common = (str(one.value) for one in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME))
    yield from dict.fromkeys([*shown, *common])


def words_of(names: Iterable[str]) -> list[str]:
    """By what a certificate of these names is found: each name, and behind a dot the domains above host names and mail addresses."""
    found: dict[str, None] = {}
    for name in map(searched, names):
        found[name] = None
        _, at, host = name.rpartition("@")
        labels = host.split(".")
        if not labels[-1].isdigit() and "/" not in name and ":" not in name:
            above = len(labels) if at else len(labels) - 1
            found |= {"." + ".".join(labels[-count:]): None for count in LABELS if count <= above}
    return list(found)


def searched(name: str) -> str:
    """A name, or a domain behind a dot, as it is looked for."""
    return name.lower()[:LONGEST]


def _word(name: x509.GeneralName) -> str:
    match name:
        case x509.DNSName() | x509.RFC822Name() | x509.UniformResourceIdentifier():
            return name.value
        case x509.IPAddress():
            return str(name.value)
        case x509.OtherName():
            return f"other name {name.type_id.dotted_string}"
        case _:
            return type(name).__name__
