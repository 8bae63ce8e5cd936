"""The service as a client of its KDC (service TICKETS)."""

import asyncio
import threading
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from urllib.parse import urlsplit

import gssapi
from gssapi import raw
from gssapi.raw.misc import GSSError

from greatseal.api.declarations import Secret
from greatseal.api.kerberos import PasswordVerdict, Unusable
from greatseal.api.problems import Unavailable
from greatseal.host import Host
from greatseal.principals import parse
from greatseal_gssapi import keytab
from greatseal_gssapi.credential import AcceptorCredential, Store
from greatseal_gssapi.exchange import KERBEROS, accept, reason
from greatseal_gssapi.keytab_file import Version, version_of
from greatseal_gssapi.settings import GssapiSettings

POOL = "gssapi-kdc"
RENEWED = 300
"""Seconds before its end at which a ticket of the service is replaced."""
AGAIN = 5.0
"""Seconds after which a KDC that gave no ticket is asked again: meanwhile nobody waits for it."""
LONGEST_PASSWORD = 1024
PATIENCE = 10.0
"""Seconds for the KDC to say something of a password: libkrb5 itself waits half a minute for one that is silent."""
CACHES = 16
"""How many caches in memory are used in turn: one that comes again has nothing in force."""
DOWN = "Kerberos passwords cannot be checked now; try again soon"
OWN_DOWN = "the service cannot get a Kerberos ticket now; try again soon"


class Minor(IntEnum):
    """What a KDC answers (RFC 4120 s7.5.9), as libkrb5 numbers it: KRB5KDC_ERR_NONE is -1765328384."""

    NAME_EXPIRED = -1765328383
    UNKNOWN = -1765328378
    REVOKED = -1765328366
    KEY_EXPIRED = -1765328361
    PREAUTH_FAILED = -1765328360
    BAD_INTEGRITY = -1765328353


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
        self._settings = settings
        self._acceptor = acceptor
        self._lock = threading.Lock()
        self._held: gssapi.Credentials | None = None
        self._until = self._end = 0.0
        self._failed: tuple[float, Unavailable] | None = None
        self._version: Version | str | None = None
        self._caches = 0

    def credentials(self) -> gssapi.Credentials:
        with self._lock:
            version = None if self._settings.keytab_file is None else version_of(self._settings.keytab_file)
            if version != self._version:
                self._held, self._failed, self._version = None, None, version
            if self._held is None or self._host.clock.monotonic() >= self._until:
                self._renew()
            assert self._held is not None
            return self._held

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
            raise Unavailable(DOWN, cause=f"the KDC did not answer within {PATIENCE:.0f} s") from None

    def own(self) -> gssapi.Name:
        """The principal of the service: of the entries of its keytab that of the host of the base URL, else the first of the service."""
        file = self._settings.keytab_file
        if file is None:
            return gssapi.Credentials(usage="initiate", mechs=[KERBEROS]).name
        try:
            principals = [entry.principal for entry in keytab.read(file)]
        except (OSError, ValueError) as error:
            raise Unavailable(OWN_DOWN, cause=f"the keytab {file}: {error}") from None
        return gssapi.Name(self._chosen(principals, file), gssapi.NameType.kerberos_principal)

    def _chosen(self, principals: list[str], file: Path) -> str:
        service, _, host = self._settings.service_name.partition("@")
        host = host or urlsplit(self._host.base_url).hostname or ""
        ours = [one for one in principals if one.startswith(f"{service}/")]
        if not ours:
            raise Unavailable(OWN_DOWN, cause=f"the keytab {file} has no keys of {self._settings.service_name}")
        return next((one for one in ours if one.startswith(f"{service}/{host}@")), ours[0])

    def _renew(self) -> None:
        """Raises Unavailable only without a ticket that is still good."""
        if self._failed is None or self._host.clock.monotonic() - self._failed[0] >= AGAIN:
            try:
                self._acquire()
                self._failed = None
            except Unavailable as problem:
                self._failed = self._host.clock.monotonic(), problem
        if self._failed is not None and (self._held is None or self._host.clock.monotonic() >= self._end):
            raise Unavailable(OWN_DOWN, cause=self._failed[1].cause)

    def _acquire(self) -> None:
        if self._acceptor is None:
            raise Unavailable(OWN_DOWN, cause="[gssapi] is not configured")
        if isinstance(held := self._acceptor.get(), Unusable):
            raise Unavailable(OWN_DOWN, cause=held.reason)
        store: Store = None
        if self._settings.keytab_file is not None:
            # A cache of its own each time: what the one before holds may be of keys, or of a KDC, that are no more.
            self._caches += 1
            cache = f"MEMORY:greatseal-{id(self)}-{self._caches % CACHES}"
            store = {"client_keytab": f"FILE:{self._settings.keytab_file}", "ccache": cache}
        try:
            name = self.own() if store else None
            held = gssapi.Credentials(usage="initiate", name=name, mechs=[KERBEROS], store=store)
            lifetime = held.lifetime
        except GSSError as error:
            raise Unavailable(OWN_DOWN, cause=told(error)) from None
        self._held = held
        now = self._host.clock.monotonic()
        self._until, self._end = now + max(lifetime - RENEWED, lifetime / 2), now + lifetime

    def _checked(self, principal: str, password: bytes) -> PasswordVerdict:
        try:
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            theirs = raw.acquire_cred_with_password(name, password, mechs=[KERBEROS], usage="initiate").creds
        except GSSError as error:
            if (verdict := VERDICTS.get(_minor(error))) is not None:
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
            sent = raw.init_sec_context(self.own(), creds=theirs, mech=KERBEROS)
            proven = accept(held, sent.token or b"", None).principal
        except (GSSError, ValueError) as error:
            why = reason(error) if isinstance(error, GSSError) else str(error)
            cause = f"the KDC took the password of {principal}, and its ticket for this service is not accepted: {why}"
            self._host.log.warning("a KDC that could not prove itself was not believed", reason=cause)
            raise Unavailable(DOWN, cause=cause) from None
        if proven != principal:
            raise Unavailable(DOWN, cause=f"the KDC gave a ticket of {proven} for the password of {principal}")


def told(error: GSSError) -> str:
    """What the library says, and what to do where that is known."""
    if _minor(error) in {Minor.PREAUTH_FAILED, Minor.BAD_INTEGRITY}:
        return f"{reason(error)}: the KDC has other keys of the service than the keytab; export it again"
    return reason(error)


def _minor(error: GSSError) -> int:
    """As libkrb5 means it: the binding has no sign."""
    return error.min_code - (1 << 32) if error.min_code >= 1 << 31 else error.min_code
