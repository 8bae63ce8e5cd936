"""The service as a client of its KDC (service TICKETS)."""

import asyncio
from collections.abc import Mapping

import gssapi
from gssapi import raw
from gssapi.raw.misc import GSSError

from greatseal.api.declarations import Secret
from greatseal.api.kerberos import PasswordVerdict, Unusable
from greatseal.api.problems import Unavailable
from greatseal.host import Host
from greatseal.principals import parse
from greatseal_gssapi.credential import AcceptorCredential
from greatseal_gssapi.exchange import KERBEROS, accept, reason
from greatseal_gssapi.minors import SEE_KDC, Minor, minor, told
from greatseal_gssapi.own import OwnTickets
from greatseal_gssapi.settings import GssapiSettings

POOL = "gssapi-kdc"
LONGEST_PASSWORD = 1024
PATIENCE = 10.0
"""Seconds for the KDC to say something of a password: libkrb5 itself waits half a minute for one that is silent."""
DOWN = "Kerberos passwords cannot be checked now; try again soon"
VERDICTS: Mapping[int, PasswordVerdict] = {
    Minor.NAME_EXPIRED: PasswordVerdict.ACCOUNT_EXPIRED,
    Minor.UNKNOWN: PasswordVerdict.UNKNOWN,
    Minor.REVOKED: PasswordVerdict.REVOKED,
    Minor.KEY_EXPIRED: PasswordVerdict.EXPIRED,
    Minor.PREAUTH_FAILED: PasswordVerdict.WRONG,
    Minor.BAD_INTEGRITY: PasswordVerdict.WRONG,
}


class KerberosTickets:
    """See :class:`greatseal.api.kerberos.Tickets`."""

    def __init__(self, host: Host, settings: GssapiSettings, acceptor: AcceptorCredential | None) -> None:
        self._host = host
        self._acceptor = acceptor
        self.own = OwnTickets(host, settings, acceptor)

    def credentials(self, service: str) -> gssapi.Credentials:
        return self.own.of(service)

    async def password(self, principal: str, password: Secret) -> PasswordVerdict:
        try:
            parse(principal)
        except ValueError:
            return PasswordVerdict.UNKNOWN
        secret = password.value.encode("utf-8", "surrogatepass")
        # libkrb5 reads a password up to its first NUL, and refuses an empty one.
        if not secret or b"\0" in secret or len(secret) > LONGEST_PASSWORD:
            return PasswordVerdict.WRONG
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._host.blocking.run(POOL, self._checked, principal, secret)
        except TimeoutError:
            raise Unavailable(DOWN, cause=f"the KDC did not answer within {PATIENCE:.0f} s; {SEE_KDC}") from None

    def _checked(self, principal: str, password: bytes) -> PasswordVerdict:
        try:
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            theirs = raw.acquire_cred_with_password(name, password, mechs=[KERBEROS], usage="initiate").creds
        except GSSError as error:
            if (verdict := VERDICTS.get(minor(error))) is not None:
                return verdict
            raise Unavailable(DOWN, cause=told(error)) from None
        self._prove(theirs, principal)
        return PasswordVerdict.RIGHT

    def _prove(self, theirs: raw.Creds, principal: str) -> None:
        """Accept a ticket of theirs for the service: only the KDC that knows the key of the service can make one. Raises Unavailable."""
        if self._acceptor is None:
            raise Unavailable(DOWN, cause="[gssapi] is not configured")
        if isinstance(held := self._acceptor.get(), Unusable):
            raise Unavailable(DOWN, cause=held.reason)
        try:
            sent = raw.init_sec_context(self.own.name(), creds=theirs, mech=KERBEROS)
            proven = accept(held, sent.token or b"", None).principal
        except (GSSError, ValueError) as error:
            why = reason(error) if isinstance(error, GSSError) else str(error)
            cause = f"the KDC took the password of {principal}, and its ticket for this service is not accepted: {why}"
            self._host.log.warning("a KDC that could not prove itself was not believed", reason=cause)
            raise Unavailable(DOWN, cause=cause) from None
        if proven != principal:
            raise Unavailable(DOWN, cause=f"the KDC gave a ticket of {proven} for the password of {principal}")
