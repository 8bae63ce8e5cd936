"""Lines of doctor about Kerberos: the keytab, the KDC, and the name that browsers ask a ticket for. Each says what to do."""

import asyncio
import socket
import tempfile
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import gssapi
from gssapi import raw
from gssapi.raw.misc import GSSError

from greatseal.api.declarations import Check, CheckResult
from greatseal.api.kerberos import Unusable
from greatseal.api.moments import SECOND
from greatseal.api.problems import Unavailable
from greatseal.host import Host
from greatseal_gssapi import keytab as keytabs
from greatseal_gssapi.credential import AcceptorCredential
from greatseal_gssapi.exchange import KERBEROS, accept
from greatseal_gssapi.minors import SEE_KDC, told
from greatseal_gssapi.settings import GssapiSettings
from greatseal_gssapi.ticket_cache import authtime
from greatseal_gssapi.tickets import KerberosTickets

POOL = "gssapi-doctor"
PATIENCE = 4.0
"""Seconds for KDC and DNS: doctor gives a check five."""
SKEW = 120
"""Seconds between our clock and that of the KDC that are told: at 300 tickets are refused (RFC 4120 s1.3)."""


class Doctor:
    """The checks. Without a keytab of its own the service knows little: gssproxy has the keys."""

    def __init__(self, host: Host, settings: GssapiSettings, credential: AcceptorCredential, tickets: KerberosTickets) -> None:
        self._host = host
        self._settings = settings
        self._credential = credential
        self._tickets = tickets
        self._service, _, named = settings.service_name.partition("@")
        self._name = named or urlsplit(host.base_url).hostname or ""

    def checks(self) -> Sequence[Check]:
        """For doctor alone: what is wrong here keeps nobody but holders of tickets out."""
        return [
            Check(name="kerberos keytab", run=self.keytab, ready=False),
            Check(name="kerberos kdc", run=self.kdc, ready=False),
            Check(name="kerberos name", run=self.name, ready=False),
        ]

    async def keytab(self) -> CheckResult:
        """Whose keys there are, and whether they are those that clients will ask for."""
        if isinstance(held := self._credential.get(), Unusable):
            return CheckResult(ok=False, detail="tickets cannot be accepted", cause=held.reason)
        file = self._settings.keytab_file
        if file is None:
            return CheckResult(ok=True, detail=f"gssproxy has the keys of {self._settings.service_name}")
        try:
            entries = keytabs.read(file)
        except (OSError, ValueError) as error:
            return CheckResult(ok=False, detail="the keytab cannot be read", cause=f"{file}: {error}")
        if problem := self._problem(entries):
            return CheckResult(ok=False, detail=problem)
        found = sorted({f"{one.principal} (kvno {one.kvno}, {one.type})" for one in entries})
        return CheckResult(ok=True, detail=f"keys of {', '.join(found)}")

    def _problem(self, entries: Sequence[keytabs.Entry]) -> str | None:
        wanted = f"{self._service}/{self._name}"
        ours = [one for one in entries if one.principal.rpartition("@")[0] == wanted]
        if not ours:
            had = ", ".join(sorted({one.principal for one in entries}))
            return f"clients ask for a ticket for {wanted}, and the keytab has keys of {had} alone: export that principal into it"
        realms = sorted({one.principal.rpartition("@")[2] for one in ours})
        if self._host.realm not in realms:
            return f'[server] realm is {self._host.realm}, and the keytab is of {", ".join(realms)}: set realm = "{realms[0]}"'
        if all(one.enctype in keytabs.WEAK for one in ours):
            types = ", ".join(sorted({one.type for one in ours}))
            return f"the keys of {wanted} are of weak types alone ({types}): export it again with aes256-cts-hmac-sha1-96 or newer"
        return None

    async def kdc(self) -> CheckResult:
        """Whether the KDC answers, has the same keys, and the same time."""
        return await self._bounded(self._ask, f"the KDC did not answer in time: {SEE_KDC}")

    def _ask(self) -> CheckResult:
        if isinstance(held := self._credential.get(), Unusable):
            return CheckResult(ok=False, detail="without a keytab the KDC cannot be asked", cause=held.reason)
        if self._settings.keytab_file is None:
            return CheckResult(ok=True, detail="gssproxy asks the KDC")
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cc"
            store: dict[bytes | str, bytes | str] = {"client_keytab": f"FILE:{self._settings.keytab_file}", "ccache": f"FILE:{cache}"}
            try:
                own = self._tickets.own.name()
                asked_at = self._host.clock.now() // SECOND
                got = gssapi.Credentials(usage="initiate", name=own, mechs=[KERBEROS], store=store)
                sent = raw.init_sec_context(own, creds=got, mech=KERBEROS)
                accept(held, sent.token or b"", None)
                skew = authtime(cache.read_bytes()) - asked_at
            except GSSError as error:
                return CheckResult(ok=False, detail="the KDC gives the service no ticket", cause=told(error))
            except (Unavailable, ValueError, OSError) as error:
                cause = error.cause if isinstance(error, Unavailable) else str(error)
                return CheckResult(ok=False, detail="the service does not accept a ticket of its KDC: export its keytab again", cause=cause)
        if abs(skew) > SKEW:
            side = "behind" if skew > 0 else "ahead of"
            return CheckResult(ok=False, detail=f"the clock is {abs(skew)} s {side} that of the KDC: set it right, for example by NTP")
        return CheckResult(ok=True, detail=f"it gave {own} a ticket, and has the same keys and time")

    async def name(self) -> CheckResult:
        """Under which name browsers ask: they follow an alias of DNS to the name behind it."""
        return await self._bounded(self._resolve, f"DNS did not say in time what {self._name} is")

    def _resolve(self) -> CheckResult:
        try:
            ip_address(self._name)
        except ValueError:
            pass
        else:
            return CheckResult(ok=False, detail=f"base_url has the address {self._name}: clients get tickets for names of hosts alone")
        try:
            found = socket.getaddrinfo(self._name, None, flags=socket.AI_CANONNAME)
        except OSError as error:
            return CheckResult(ok=False, detail=f"DNS has no {self._name}, the host of base_url", cause=str(error))
        behind = (found[0][3] or self._name).rstrip(".").lower()
        file = self._settings.keytab_file
        if behind == self._name.lower() or file is None:
            return CheckResult(ok=True, detail=f"clients ask for {self._service}/{behind}")
        try:
            known = {one.principal.rpartition("@")[0] for one in keytabs.read(file)}
        except (OSError, ValueError) as error:
            return CheckResult(ok=False, detail="the keytab cannot be read", cause=f"{file}: {error}")
        if f"{self._service}/{behind}" in known:
            return CheckResult(ok=True, detail=f"{self._name} is an alias of {behind}, and the keytab has keys of both")
        missing = f"{self._name} is an alias of {behind}, for which most clients ask then: add {self._service}/{behind} to the keytab too"
        return CheckResult(ok=False, detail=missing)

    async def _bounded(self, look: Callable[[], CheckResult], late: str) -> CheckResult:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._host.blocking.run(POOL, look)
        except TimeoutError:
            return CheckResult(ok=False, detail=late)
