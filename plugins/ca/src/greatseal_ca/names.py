"""The names of certificates, for people."""

from collections.abc import Iterator

from cryptography import x509


def names_of(certificate: x509.Certificate) -> Iterator[str]:
    """Every subject alternative name in words, and the common name where it is none of them."""
    try:
        shown = [_word(name) for name in certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value]
    except x509.ExtensionNotFound:
        shown = []
    common = (str(one.value) for one in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME))
    yield from dict.fromkeys([*shown, *common])


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
