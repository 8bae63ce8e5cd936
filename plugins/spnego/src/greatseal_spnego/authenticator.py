"""Who a ticket signs in, and how they got it."""

import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from greatseal.api.directory import Directories
from greatseal.api.http import Call
from greatseal.api.identity import Attempted, Authenticated, Authenticator, Continue, LoginContext, NegotiateHeader, NotMine
from greatseal.api.kerberos import Absent, Accepted, NegotiateRefused, Negotiator, Ready
from greatseal.api.messages import Message
from greatseal.api.problems import PayloadTooLarge
from greatseal.host import Host
from greatseal_spnego.settings import SpnegoSettings

PROVEN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "hardened": ("pwd",),
        "otp": ("pwd", "otp", "mfa"),
        "radius": ("otp",),
        "pkinit": ("sc",),
        "passkey": ("hwk", "user"),
        "idp": ("fed",),
    }
)
"""What an authentication indicator of the ticket shows (RFC 8129; values of RFC 8176). Without one only the ticket itself is known."""
ASKED = "negotiate"
"""The query parameter of the sign-in page with which it asks for a ticket, once."""


class Spnego(Authenticator[NegotiateHeader]):
    """The KDC has decided by then how somebody may prove themselves (FreeIPA's ``ipaUserAuthType``), and gave no ticket otherwise."""

    name = "spnego"
    credential = NegotiateHeader

    def __init__(self, host: Host, settings: SpnegoSettings, negotiator: Negotiator, directories: Directories) -> None:
        self._host = host
        self._always = settings.challenge
        self._realms = frozenset({host.realm, *settings.realms})
        self._negotiator = negotiator
        self._directories = directories

    async def attempt(self, credential: NegotiateHeader, context: LoginContext) -> Attempted:
        if not isinstance(self._negotiator.state, Ready):
            return NotMine()
        try:
            found = await self._negotiator.accept(credential.call)
        except PayloadTooLarge as problem:
            raise NegotiateRefused(problem.detail) from None
        match found:
            case Absent():
                return NotMine()
            case Continue():
                return found
            case Accepted():
                return await self._authenticated(found, context)

    def challenge(self, call: Call) -> str:
        asked = self._always or ASKED in call.query
        return "Negotiate" if asked and isinstance(self._negotiator.state, Ready) else ""

    async def _authenticated(self, found: Accepted, context: LoginContext) -> Authenticated:
        username, _, realm = found.principal.rpartition("@")
        if realm not in self._realms:
            self._refuse(found.principal, context, f"the realm is none of {', '.join(sorted(self._realms))}")
        user = await self._directories.user(found.principal)
        if user is not None and user.realm != realm:
            self._refuse(found.principal, context, f"the directory is of {user.realm}, and to Kerberos these are two realms")
        if user is not None and user.username != username and _folded(user.username) == _folded(username):
            self._refuse(found.principal, context, f"the directory has {user.username}, and to Kerberos these are two")
        shown = (value for indicator in found.indicators for value in PROVEN.get(indicator, ()))
        amr = tuple(dict.fromkeys(("kerberos", *shown)))
        return Authenticated(username=username, realm=realm, amr=amr, headers=found.headers)

    def _refuse(self, principal: str, context: LoginContext, reason: str) -> NoReturn:
        self._host.log.info("a ticket signs nobody in", principal=principal, reason=reason, address=context.remote)
        raise NegotiateRefused(Message("this ticket signs nobody in here"), cause=f"{principal}: {reason}")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
