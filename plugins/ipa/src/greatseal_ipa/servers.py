"""Which servers there are, and which of them answer."""

import random
import threading
import time
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

import msgspec
from structlog.stdlib import BoundLogger

from greatseal.api.problems import DnsFailure
from greatseal.api.services import Resolver
from greatseal_ipa.library import Down, NoTicket, Server

PORTS = {"ldap": 389, "ldaps": 636}
MOST = 16
"""Servers that are asked, of those that DNS names."""
SRV_SECONDS = 300.0
AGAIN_SECONDS = 30.0
"""After this a server that was down is asked by whoever comes, should nobody have looked after it meanwhile."""


def server_of(uri: str) -> Server:
    """The server of an LDAP URI. Raises ValueError that says what is wrong."""
    parts = urlsplit(uri)
    if parts.scheme == "ldapi":
        path = unquote(parts.netloc)
        if not path.startswith("/"):
            raise ValueError(f"{uri!r}: ldapi:// is followed by the path of a socket, with %2F for each slash")
        return Server("ldapi", "", 0, path)
    if parts.scheme not in PORTS:
        raise ValueError(f"{uri!r} begins with none of ldap://, ldaps:// and ldapi://")
    if not parts.hostname or parts.path.strip("/") or parts.query or parts.username is not None:
        raise ValueError(f"{uri!r}: a host, and a port where it is not the usual one, is all that may follow {parts.scheme}://")
    return Server(parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme])


def is_of_this_machine(server: Server) -> bool:
    """Whether nothing that is said to it leaves the machine."""
    if server.scheme == "ldapi" or server.host == "localhost":
        return True
    try:
        return ip_address(server.host).is_loopback
    except ValueError:
        return False


class Standing(msgspec.Struct):
    """How a server was seen last. ``since`` is monotonic seconds; None when it answers."""

    since: float | None = None
    reason: str = ""


class Servers:
    """Servers in order of preference. One that does not answer is asked no more until it was seen to answer again."""

    def __init__(self, configured: Sequence[Server], realm: str, resolver: Resolver | None, log: BoundLogger) -> None:
        self._configured = tuple(configured)
        self._domain = realm.lower()
        self._resolver = resolver
        self._log = log
        self._found: tuple[Server, ...] = ()
        self._found_at = -SRV_SECONDS
        self._standings: dict[Server, Standing] = {}
        self._lock = threading.Lock()

    @property
    def all(self) -> Sequence[Server]:
        """As they were found last."""
        return self._configured or self._found

    async def find(self) -> None:
        """Ask DNS, where the configuration names no server. Raises DnsFailure as long as none was ever found."""
        if self._configured or self._resolver is None or time.monotonic() - self._found_at < SRV_SECONDS:
            return
        try:
            records = (await self._resolver.query(f"_ldap._tcp.{self._domain}", "SRV")).records
        except DnsFailure as problem:
            self._log.warning("no servers of the directory in DNS", cause=problem.detail)
            if not self._found:
                raise
        else:
            self._found = tuple(self._of(records))[:MOST] or self._found
        self._found_at = time.monotonic()

    def usable(self) -> list[Server]:
        """Those that may be asked now."""
        now = time.monotonic()
        with self._lock:
            return [server for server in self.all if (at := self._standing(server).since) is None or now - at > AGAIN_SECONDS]

    def down(self) -> list[Server]:
        """Those that did not answer."""
        with self._lock:
            return [server for server in self.all if self._standing(server).since is not None]

    def why(self) -> str:
        """What is the matter, for the operator."""
        with self._lock:
            said = [standing.reason for server in self.all if (standing := self._standing(server)).since is not None]
        return "; ".join(said) or "no server is known"

    def failed(self, server: Server, error: Down) -> None:
        """It did not answer."""
        with self._lock:
            standing = self._standing(server)
            told = standing.since is None
            standing.since, standing.reason = time.monotonic(), str(error)
        if told:
            what = "a server of the directory is not asked" if isinstance(error, NoTicket) else "a server of the directory does not answer"
            self._log.error(what, server=str(server), cause=str(error))

    def answered(self, server: Server) -> None:
        """It answers."""
        with self._lock:
            standing = self._standing(server)
            told, standing.since, standing.reason = standing.since is not None, None, ""
        if told:
            self._log.info("a server of the directory answers again", server=str(server))

    def _standing(self, server: Server) -> Standing:
        return self._standings.setdefault(server, Standing())

    def _of(self, records: Sequence[object]) -> list[Server]:
        """Sorted by priority, and by chance as their weights say (RFC 2782).

        DNS without DNSSEC may name any host, whose certificate would be right: only hosts of the realm's own domain are asked.
        """
        found = []
        for record in records:
            host = str(getattr(record, "target", "")).rstrip(".").lower()
            if host != self._domain and not host.endswith(f".{self._domain}"):
                self._log.warning("a server of the directory that DNS names is not in the domain of the realm", server=host)
                continue
            weight, port = int(getattr(record, "weight", 0)), int(getattr(record, "port", PORTS["ldap"]))
            order = random.random() ** (1 / (weight + 0.01))  # noqa: S311  # load, no secret
            found.append((int(getattr(record, "priority", 0)), -order, Server("ldap", host, port)))
        return [server for *_, server in sorted(found, key=lambda one: one[:2])]
