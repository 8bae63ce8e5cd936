"""What an authority token says of a principal: EnhancedJWTClaimConstraints (RFC 9118 s3), always made here, never taken from a caller."""

from collections.abc import Iterable, Mapping, Sequence

from greatseal import der

_IA5, _UTF8 = 0x16, 0x0C
_MUST_INCLUDE, _PERMITTED = 0, 1


def constraints(principal: str, issuer: str, dns: Sequence[str]) -> bytes:
    """The DER: ``sub`` must be there and is the principal, ``iss`` is the issuer, and ``dns`` is one of the names where there are any."""
    permitted: Mapping[str, Sequence[str]] = {"sub": [principal], "iss": [issuer], **({"dns": dns} if dns else {})}
    values = (der.sequence(_text(_IA5, claim), der.sequence(*(_text(_UTF8, one) for one in some))) for claim, some in permitted.items())
    must_include = der.sequence(_text(_IA5, "sub"))
    return der.sequence(der.explicit(_MUST_INCLUDE, must_include), der.explicit(_PERMITTED, der.sequence(*values)))


def names_of(host: str, managed: Iterable[str]) -> list[str]:
    """The names of what a principal manages, with its own host, in lower case, each once, sorted; none where it manages nothing."""
    found = {name.lower() for name in managed}
    return sorted(found | {host}) if found else []


def _text(tag: int, text: str) -> bytes:
    return der.element(tag, text.encode())
