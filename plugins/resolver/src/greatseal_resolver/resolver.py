"""Questions and answers (RFC 1035), and the words for what went wrong."""

import asyncio
import ssl
from collections.abc import Sequence
from functools import cached_property
from ipaddress import ip_address
from typing import Any

import dns.asyncresolver
import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.nameserver
import dns.resolver

from greatseal.api.problems import DnsFailure, Internal
from greatseal.api.services import CaaRecord, Found
from greatseal.net import excerpt, parse_server
from greatseal_resolver.bounded import MAX_RECORDS, BoundedBackend
from greatseal_resolver.names import LOOPBACK, canonical, is_localhost, parse_name
from greatseal_resolver.nameservers import PLAIN_PORT, TLS_PORT, TlsNameserver, system_servers, tls_context
from greatseal_resolver.settings import DnsSettings, HostsSettings

SERVER_SECONDS = 2.0
LIFETIME_SECONDS = 5.0
MAX_REASONS = 3
UDP_PAYLOAD = 1232  # DNS flag day 2020: below every path's fragment size
BACKEND: Any = BoundedBackend()


class DnsResolver:
    """The RESOLVER service. Nothing is cached: a validation sees what stands in the zone now."""

    def __init__(self, settings: DnsSettings, hosts: HostsSettings) -> None:
        self.settings = settings
        self.hosts = hosts.table()

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The context of every query over TLS."""
        return tls_context()

    async def addresses(self, name: str) -> Sequence[str]:
        """IPv4 and IPv6 addresses, IPv4 first; an IP literal is its own answer. Empty is a DnsFailure."""
        if _is_literal(name):
            return [name]
        key = canonical(name)
        if is_localhost(key):
            return LOOPBACK
        if key in self.hosts:
            return self.hosts[key]
        answers = await asyncio.gather(self.query(name, "A"), self.query(name, "AAAA"), return_exceptions=True)
        found = [record.address for answer in answers if not isinstance(answer, BaseException) for record in answer.records]
        if found:
            return found  # a zone whose servers fail AAAA alone is still reachable
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        raise DnsFailure(f"{key} has neither A nor AAAA records")

    async def txt(self, name: str, *, server: str | None = None) -> Found[str]:
        """TXT values, the strings of each record joined (RFC 1035 s3.3.14)."""
        found = await self.query(name, "TXT", server=server)
        return Found([b"".join(record.strings).decode(errors="backslashreplace") for record in found.records], found.server)

    async def caa(self, name: str) -> Found[CaaRecord]:
        """CAA records at exactly this name, aliases followed. A name that does not exist has none (RFC 8659 s3)."""
        try:
            found = await self.query(name, "CAA")
        except Nxdomain as none:
            return Found((), none.server)
        return Found([_caa(record) for record in found.records], found.server)

    async def query(self, name: str, kind: str, *, server: str | None = None) -> Found[Any]:
        """Records of any type, as dnspython rdata; none is an empty list."""
        if is_localhost(canonical(name)):
            return Found((), "this machine")
        answer = await self._answer(name, kind, server)
        records = list(answer.rrset or ())
        if len(records) > MAX_RECORDS:
            raise DnsFailure(f"{kind} {canonical(name)}: {len(records)} records; at most {MAX_RECORDS} are read")
        return Found(records, f"{answer.nameserver} port {answer.port}")

    async def validates(self) -> bool:
        """Whether the resolver calls its answer for the signed root zone authentic."""
        answer = await self._answer(".", "SOA", None)
        return bool(answer.response.flags & dns.flags.AD)

    async def _answer(self, name: str, kind: str, server: str | None) -> dns.resolver.Answer:
        question = f"{kind} {canonical(name) or '.'}"
        stub = self._stub(question, server)
        try:
            return await stub.resolve(parse_name(canonical(name)), kind, raise_on_no_answer=False, search=False, backend=BACKEND)
        except ValueError as error:
            raise DnsFailure(f"{question}: {error}") from error
        except dns.resolver.NXDOMAIN as error:
            raise Nxdomain(question, _listed(stub)) from error
        except dns.resolver.NoNameservers as error:
            raise DnsFailure(f"{question}: {_tried(error)}") from error
        except dns.resolver.LifetimeTimeout as error:
            raise DnsFailure(f"{question}: no answer from {_listed(stub)} within {LIFETIME_SECONDS:g} s") from error
        except dns.exception.DNSException as error:
            raise DnsFailure(f"{question}: {type(error).__name__} from {_listed(stub)}: {error}") from error

    def _stub(self, question: str, server: str | None) -> dns.asyncresolver.Resolver:
        """A dnspython resolver for the servers that this question goes to."""
        stub = dns.asyncresolver.Resolver(configure=False)
        stub.nameservers = self._servers(question, server)
        stub.timeout, stub.lifetime = SERVER_SECONDS, LIFETIME_SECONDS
        stub.use_edns(0, dns.flags.DO if self.settings.validate_dnssec else 0, UDP_PAYLOAD)
        # AD asks for the verdict (RFC 6840 s5.7); CD asks for the answer whatever the verdict is (RFC 4035 s3.2.2).
        stub.flags = dns.flags.RD | (dns.flags.AD if self.settings.validate_dnssec else dns.flags.CD)
        return stub

    def _servers(self, question: str, server: str | None) -> list[dns.nameserver.Nameserver]:
        given = server or self.settings.dns_resolver_addr
        if given is None:
            try:
                return [self._server(address, None) for address in system_servers()]
            except LookupError as error:
                raise DnsFailure(f"{question}: {error}") from error
        try:
            address, port = parse_server(given)
        except ValueError as error:
            raise Internal("the address of the DNS resolver is not usable", cause=str(error)) from error
        return [self._server(address, port)]

    def _server(self, address: str, port: int | None) -> dns.nameserver.Nameserver:
        tls_name = self.settings.dns_dot_server_name
        if tls_name is None:
            return dns.nameserver.Do53Nameserver(address, port or PLAIN_PORT)
        return TlsNameserver(address, port or TLS_PORT, tls_name, self.tls)


class Nxdomain(DnsFailure):
    """The name does not exist, says ``server``."""

    def __init__(self, question: str, server: str) -> None:
        super().__init__(f"{question}: NXDOMAIN from {server}")
        self.server = server


def _caa(record: Any) -> CaaRecord:
    return CaaRecord(record.flags, record.tag.decode(errors="replace"), record.value.decode(errors="backslashreplace"))


def _is_literal(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _listed(stub: dns.asyncresolver.Resolver) -> str:
    return ", ".join(_place(server) for server in stub.nameservers)


def _place(server: object) -> str:
    """The server in a message: ``Do53:192.0.2.1@53`` is how dnspython writes it."""
    return str(server).partition(":")[2].replace("@", " port ")


def _tried(error: dns.resolver.NoNameservers) -> str:
    """What each server did. dnspython's tuples are (server, over TCP, port, exception or rcode, response)."""
    tried = error.kwargs["errors"]
    return "; ".join(f"{_said(what)} from {_place(server)}{_because(response)}" for server, _, _, what, response in tried)


def _because(response: dns.message.Message | None) -> str:
    """Why, where the resolver tells it (RFC 8914): what is wrong with the signatures of a zone, above all."""
    errors = response.extended_errors() if response is not None else ()
    return "".join(f" ({_words(error)})" for error in errors[:MAX_REASONS])


def _words(error: dns.edns.EDEOption) -> str:
    kind = error.code.name.replace("_", " ")
    return f"{kind}: {excerpt(error.text)}" if error.text else kind


def _said(what: object) -> str:
    """An rcode, or how the transport failed."""
    if isinstance(what, OSError):
        return what.strerror or type(what).__name__
    return f"{type(what).__name__}: {what}" if isinstance(what, Exception) else str(what)
