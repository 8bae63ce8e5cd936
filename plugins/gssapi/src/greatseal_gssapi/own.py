"""Tickets of the service itself for other services: kept, renewed before they end, and never waited for as long as libkrb5 would."""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import gssapi
import msgspec
from gssapi import raw
from gssapi.raw.misc import GSSError

from greatseal.api.kerberos import Unusable
from greatseal.api.problems import Unavailable
from greatseal.host import Host
from greatseal_gssapi import keytab
from greatseal_gssapi.credential import AcceptorCredential, Store
from greatseal_gssapi.exchange import KERBEROS
from greatseal_gssapi.keytab_file import Version, version_of
from greatseal_gssapi.minors import SEE_KDC, told
from greatseal_gssapi.settings import GssapiSettings

RENEWED = 300
"""Seconds before its end at which a ticket of the service is replaced."""
AGAIN = 5.0
"""Seconds after which a KDC that gave no ticket is asked again: meanwhile nobody waits for it."""
PATIENCE = 5.0
"""Seconds for a KDC to give a ticket: libkrb5 itself waits half a minute for one that is silent."""
CACHES = 16
"""How many caches in memory are used in turn: one that comes again has nothing in force."""
MOST_SERVICES = 64
"""Services whose tickets are kept: servers of a directory, of which there are few."""
DOWN = "the service cannot get a Kerberos ticket now; try again soon"


class OwnTickets:
    """By service, in its host-based form."""

    def __init__(self, host: Host, settings: GssapiSettings, acceptor: AcceptorCredential | None) -> None:
        self._host = host
        self._settings = settings
        self._acceptor = acceptor
        self._lock = threading.Lock()
        self._kept: dict[str, _Ticket] = {}
        self._made = 0

    def of(self, service: str) -> gssapi.Credentials:
        """Credentials with a ticket for the service. Waits :data:`PATIENCE` at most. Raises Unavailable."""
        with self._lock:
            kept = self._kept.pop(service, None)
            if kept is None:
                self._made += 1
                kept = _Ticket(self._host, self._settings, partial(self._acquired, service, self._made % (2 * MOST_SERVICES)))
            self._kept[service] = kept
            if len(self._kept) > MOST_SERVICES:
                del self._kept[next(iter(self._kept))]
        return kept.get()

    def name(self) -> gssapi.Name:
        """The principal of the service: of the entries of its keytab that of the host of the base URL, else the first of the service."""
        file = self._settings.keytab_file
        if file is None:
            return gssapi.Credentials(usage="initiate", mechs=[KERBEROS]).name
        try:
            principals = [entry.principal for entry in keytab.read(file)]
        except (OSError, ValueError) as error:
            raise Unavailable(DOWN, cause=f"the keytab {file}: {error}") from None
        return gssapi.Name(self._chosen(principals, file), gssapi.NameType.kerberos_principal)

    def _chosen(self, principals: list[str], file: Path) -> str:
        service, _, host = self._settings.service_name.partition("@")
        host = host or urlsplit(self._host.base_url).hostname or ""
        ours = [one for one in principals if one.startswith(f"{service}/")]
        if not ours:
            raise Unavailable(DOWN, cause=f"the keytab {file} has no keys of {self._settings.service_name}")
        return next((one for one in ours if one.startswith(f"{service}/{host}@")), ours[0])

    def _acquired(self, service: str, place: int, number: int) -> tuple[gssapi.Credentials, int]:
        """New credentials with the ticket in them, and the seconds that it is good for. Asks the KDC. Raises Unavailable."""
        if self._acceptor is None:
            raise Unavailable(DOWN, cause="[gssapi] is not configured")
        if isinstance(held := self._acceptor.get(), Unusable):
            raise Unavailable(DOWN, cause=held.reason)
        store: Store = None
        if self._settings.keytab_file is not None:
            # A cache of its own each time: what the one before holds may be of keys, or of a KDC, that are no more.
            cache = f"MEMORY:greatseal-{id(self)}-{place}-{number % CACHES}"
            store = {"client_keytab": f"FILE:{self._settings.keytab_file}", "ccache": cache}
        try:
            made = gssapi.Credentials(usage="initiate", name=self.name() if store else None, mechs=[KERBEROS], store=store)
            sent = raw.init_sec_context(gssapi.Name(service, gssapi.NameType.hostbased_service), creds=made, mech=KERBEROS)
        except GSSError as error:
            raise Unavailable(DOWN, cause=told(error)) from None
        return made, min(made.lifetime, sent.lifetime)


Acquire = Callable[[int], tuple[gssapi.Credentials, int]]
"""By the number of the attempt."""


class _Work:
    """An acquisition in a thread of its own."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self._began = time.monotonic()

    def wait(self) -> None:
        self.done.wait(max(0.0, self._began + PATIENCE - time.monotonic()))


class _Held(msgspec.Struct, frozen=True):
    """Credentials, when they are to be replaced, and their end; monotonic seconds."""

    credentials: gssapi.Credentials
    until: float
    end: float


class _Ticket:
    """For one service."""

    def __init__(self, host: Host, settings: GssapiSettings, acquire: Acquire) -> None:
        self._host = host
        self._keytab = settings.keytab_file
        self._acquire = acquire
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._failed: tuple[float, str] | None = None
        self._work: _Work | None = None
        self._version: Version | str | None = None
        self._count = 0

    def get(self) -> gssapi.Credentials:
        with self._lock:
            self._follow()
            now = self._host.clock.monotonic()
            if self._held is not None and now < self._held.until:
                return self._held.credentials
            waits = self._work is None or not self._is_good()
            if self._work is None and (self._failed is None or now - self._failed[0] >= AGAIN):
                self._begin()
            work = self._work
        if work is not None and waits:
            work.wait()
        with self._lock:
            if self._held is not None and self._is_good():
                return self._held.credentials
            raise Unavailable(DOWN, cause=self._failed[1] if self._failed else f"no KDC answered within {PATIENCE:.0f} s; {SEE_KDC}")

    def _follow(self) -> None:
        """What was made with another keytab counts no more."""
        version = None if self._keytab is None else version_of(self._keytab)
        if version != self._version:
            self._held, self._failed, self._work, self._version = None, None, None, version

    def _is_good(self) -> bool:
        return self._held is not None and self._host.clock.monotonic() < self._held.end

    def _begin(self) -> None:
        self._work, self._failed = _Work(), None
        self._count += 1
        # A daemon: one that a KDC holds up does not hold up the end of the process.
        threading.Thread(target=self._run, args=(self._work, self._count), name="gssapi-own", daemon=True).start()

    def _run(self, work: _Work, number: int) -> None:
        held, failed = None, ""
        try:
            credentials, lifetime = self._acquire(number)
            now = self._host.clock.monotonic()
            held = _Held(credentials, now + max(lifetime - RENEWED, lifetime / 2), now + lifetime)
        except Unavailable as problem:
            failed = problem.cause
        except Exception as error:  # whoever waits must hear of it
            failed = f"{type(error).__name__}: {error}"
            self._host.log.exception("a ticket of the service could not be asked for")
        with self._lock:
            if self._work is work:
                self._work = None
                if held is not None:
                    self._held = held
                else:
                    self._failed = self._host.clock.monotonic(), failed
        work.done.set()
