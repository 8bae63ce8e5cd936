"""What a user must prove besides: the authentication types that a directory allows a person (FreeIPA's ``ipaUserAuthType``)."""

from collections.abc import Mapping
from types import MappingProxyType

from greatseal.api.directory import User
from greatseal.api.identity import Authenticated

PROVEN_BY: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "password": frozenset({"pwd"}),
        "hardened": frozenset({"pwd"}),
        "otp": frozenset({"otp"}),
        "radius": frozenset({"otp"}),
        "pkinit": frozenset({"sc"}),
        "passkey": frozenset({"hwk", "swk"}),
        "idp": frozenset({"fed"}),
    }
)
"""The authentication method references (RFC 8176) of which one shows each type."""

OFFERED: Mapping[str, str] = MappingProxyType(
    {
        "password": "Password",
        "hardened": "Password",
        "otp": "PasswordAndCode",
        "radius": "PasswordAndCode",
        "pkinit": "NegotiateHeader",
        "passkey": "passkey",
    }
)
"""The credential or login option by which a person can prove each type; ``idp`` is proven at the user's own provider."""


def missing_factors(user: User, authenticated: Authenticated) -> tuple[str, ...]:
    """What the person may sign in with, when nothing that was proven is among the types that the directory allows them; else nothing."""
    allowed = [kind for kind in user.authentication_types if kind in PROVEN_BY]
    if not allowed or any(_shown(kind, authenticated) for kind in allowed):
        return ()
    wanted = (user.upstream or "federation" if kind == "idp" else OFFERED[kind] for kind in allowed)
    return tuple(dict.fromkeys(wanted))


def _shown(kind: str, authenticated: Authenticated) -> bool:
    # Another provider proves people in ways of its own: that they know the password of this directory, it cannot say.
    if authenticated.upstream is not None:
        return kind == "idp"
    # Who has a ticket has proven a password to the KDC, which gives no ticket for one to those who may not sign in so.
    if kind == "password" and "kerberos" in authenticated.amr:
        return True
    return not PROVEN_BY[kind].isdisjoint(authenticated.amr)
