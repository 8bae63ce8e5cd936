"""Principals as KRB5PrincipalName (RFC 4556 s3.2.2, RFC 4120 s5.2.2)."""

from greatseal import der
from greatseal.principals import Principal
from greatseal.principals import parse as parse_principal

NT_PRINCIPAL, NT_SRV_HST = 1, 3
_GENERAL_STRING, _INTEGER = 0x1B, 0x02


def parse(text: str) -> Principal:
    """A principal that a certificate can hold. Raises ValueError with the reason, worded to follow "the principal"."""
    if not text.isascii() or not text.isprintable():
        raise ValueError("has characters beyond printable ASCII, which its form in certificates does not have")
    return parse_principal(text)


def name_type(principal: Principal) -> int:
    """NT-SRV-HST for a service on a host, NT-PRINCIPAL for a name of one component."""
    return NT_SRV_HST if principal.is_service else NT_PRINCIPAL


def encoded(principal: Principal) -> bytes:
    """The DER of the KRB5PrincipalName."""
    names = der.sequence(*(_general_string(one) for one in principal.components))
    kind = der.element(_INTEGER, bytes((name_type(principal),)))
    name = der.sequence(der.explicit(0, kind), der.explicit(1, names))
    return der.sequence(der.explicit(0, _general_string(principal.realm)), der.explicit(1, name))


def _general_string(text: str) -> bytes:
    return der.element(_GENERAL_STRING, text.encode("ascii"))
