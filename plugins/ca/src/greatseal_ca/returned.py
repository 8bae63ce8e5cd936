"""What an issuer returned, held against what was recorded: field by field, but for those that it may change."""

from cryptography import x509

from greatseal import der
from greatseal.api.issuance import Issued, Issuer, Prepared
from greatseal.api.problems import Internal
from greatseal_ca.build import assemble

_FIELDS = ("version", "serial", "algorithm", "issuer", "validity", "subject", "key", "extensions")


def check_returned(issuer: Issuer, prepared: Prepared, issued: Issued) -> Issued:
    """The certificate, where it is the recorded one. Raises Internal that names what differs."""
    try:
        tbs, algorithm, _ = der.children(issued.der)
        if tbs == prepared.tbs and issued.serial == prepared.serial:
            return issued
        wrong = _differing(issuer, prepared.tbs, tbs)
        fields = der.children(tbs)
        if algorithm != fields[2]:
            wrong.append("the algorithm beside the signature")
        if issued.serial != _number(fields[1]):
            wrong.append("the serial that was told")
        if "extensions" in issuer.changes and _promised(prepared.tbs) != _promised(tbs):
            wrong.append("names, extended key usages or CA flag")
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        wrong = [f"it cannot be read ({error})"]
    if wrong:
        what = f"issuer {issuer.issue_as!r} returned another certificate than the recorded {prepared.id}"
        raise Internal(cause=f"{what}: {', '.join(wrong)}; it is not recorded, mend or update its plugin")
    return issued


def _differing(issuer: Issuer, recorded: bytes, returned: bytes) -> list[str]:
    before, after = der.children(recorded), der.children(returned)
    if len(before) != len(after):
        raise ValueError("the number of its fields is another")
    fields = zip(_FIELDS, before, after, strict=True)
    return [name for name, one, other in fields if one != other and name not in issuer.changes]


def _promised(tbs: bytes) -> tuple[frozenset[x509.GeneralName], frozenset[x509.ObjectIdentifier], bool]:
    """Names, extended key usages and CA flag."""
    found = {type(one.value): one.value for one in x509.load_der_x509_certificate(assemble(tbs, b"")).extensions}
    san, eku, constraints = (found.get(kind) for kind in (x509.SubjectAlternativeName, x509.ExtendedKeyUsage, x509.BasicConstraints))
    return frozenset(san or ()), frozenset(eku or ()), constraints is not None and constraints.ca


def _number(serial: bytes) -> bytes:
    """The serial without sign byte."""
    content = der.content(serial)
    return content[1:] if content[:1] == b"\0" and len(content) > 1 else content
