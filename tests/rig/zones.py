"""Real DNS on loopback: Knot serves zones, signed, unsigned and broken in every way; Unbound asks it and validates.

``example.test`` is signed by Knot and ``plain.test`` is not; both take dynamic updates (RFC 2136) from this machine, and the challenge of
``alias.example.test`` is an alias of ``alias.plain.test``. Every other zone has the TXT record ``value`` at ``_acme-challenge``, and its
name says what is wrong with it: ``foreign.test`` is signed by another key than the parent tells. ``sound.test`` has CAA records below it.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dns.dnssec
import dns.dnssectypes
import dns.exception
import dns.message
import dns.name
import dns.node
import dns.query
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.dnskeybase
import dns.rrset
import dns.zone
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.testing.service import free_port

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
PATIENCE = 60.0
ZONE = """\
@ 0 SOA ns.{origin} hostmaster.{origin} 1 3600 600 86400 0
@ 0 NS ns.{origin}
ns 0 A 127.0.0.1
_acme-challenge 0 TXT "value"
"""
ALIAS = "_acme-challenge.alias 0 CNAME alias.plain.test.\n"
CAA = f"""\
deny 0 CAA 0 issue "caatestsuite.com"
cname-deny 0 CNAME deny
cname-cname-deny 0 CNAME cname-deny
permit 0 CAA 0 issue "ca.example"
deny.permit 0 CAA 0 issue "caatestsuite.com"
dname-deny 0 DNAME target
a.target 0 CAA 0 issue "caatestsuite.com"
cname-permit 0 CNAME permit
{"".join(f'big 0 CAA 0 issue "ca{number}.example"{chr(10)}' for number in range(1001))}"""
KNOT = """\
server:
  rundir: {folder}
  listen: 127.0.0.1@{port}
log:
  - target: {folder}/knot.log
    any: info
database:
  storage: {folder}
acl:
  - id: anybody
    address: 127.0.0.1
    action: update
template:
  - id: default
    storage: {folder}
    journal-content: none
zone:
  - domain: example.test
    dnssec-signing: on
    acl: anybody
  - domain: plain.test
    acl: anybody
{broken}
"""
UNBOUND = """\
server:
  interface: 127.0.0.1@{port}
  port: {port}
  do-not-query-localhost: no
  chroot: ""
  username: ""
  directory: "{folder}"
  pidfile: ""
  use-syslog: no
  logfile: "{folder}/unbound.log"
  module-config: "validator iterator"
  cache-max-ttl: 0
  cache-max-negative-ttl: 0
  ede: yes
  local-zone: "test." nodefault
{anchors}
{stubs}
"""


ALGORITHM = dns.dnssectypes.Algorithm.ECDSAP256SHA256


def anchor(zone: str, key: dns.rdata.Rdata) -> str:
    """The trust anchor of a zone that is signed with the key."""
    return f"{zone}. DS {dns.dnssec.make_ds(dns.name.from_text(zone), key, 'SHA256')}"


def signed(origin: str, key: ec.EllipticCurvePrivateKey, *, days: tuple[int, int] = (-1, 30)) -> dns.zone.Zone:
    """The zone, signed from ``days[0]`` to ``days[1]`` from now."""
    text = ZONE.format(origin=f"{origin}.") + (CAA if origin == "sound.test" else "")
    zone = dns.zone.from_text(text, origin=origin, relativize=False)
    now = datetime.now(UTC)
    inception, expiration = (now + timedelta(days=at) for at in days)
    keys: list[Any] = [(key, dns.dnssec.make_dnskey(key.public_key(), ALGORITHM))]
    dns.dnssec.sign_zone(zone, keys=keys, dnskey_ttl=0, inception=inception, expiration=expiration)
    return zone


def challenge(zone: dns.zone.Zone) -> dns.node.Node:
    assert zone.origin is not None
    return zone.find_node(dns.name.from_text("_acme-challenge", zone.origin))


def altered(zone: dns.zone.Zone) -> None:
    """Another value under the signature of the first."""
    assert zone.origin is not None
    changed = dns.rrset.from_text(dns.name.from_text("_acme-challenge", zone.origin), 0, "IN", "TXT", '"forged"')
    challenge(zone).replace_rdataset(changed.to_rdataset())


def stripped(zone: dns.zone.Zone) -> None:
    """The record without its signature."""
    challenge(zone).delete_rdataset(dns.rdataclass.IN, dns.rdatatype.RRSIG, dns.rdatatype.TXT)


def unsigned(zone: dns.zone.Zone) -> None:
    """Nothing of DNSSEC, under an anchor that says there is."""
    for node in zone.nodes.values():
        node.rdatasets = [one for one in node.rdatasets if one.rdtype not in DNSSEC]


def unproven(zone: dns.zone.Zone) -> None:
    """No proof of what is not there."""
    for node in zone.nodes.values():
        node.rdatasets = [one for one in node.rdatasets if dns.rdatatype.NSEC not in (one.rdtype, one.covers)]


DNSSEC = {dns.rdatatype.DNSKEY, dns.rdatatype.RRSIG, dns.rdatatype.NSEC}
BROKEN: dict[str, Callable[[dns.zone.Zone], None]] = {
    "altered.test": altered,
    "stripped.test": stripped,
    "unsigned.test": unsigned,
    "unproven.test": unproven,
}
LIFETIMES = {"expired.test": (-40, -10), "early.test": (10, 40)}
"""Days. Unbound forgives a tenth of a lifetime, and a day at most."""


class Zones:
    """``knot`` and ``unbound`` are ports. What is told to ``UPDATE`` at the one is found at the other at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.knot, self.unbound, self.silent = free_port(), free_port(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.silent.bind(("127.0.0.1", 0))
        self.anchors: list[str] = []

    @staticmethod
    def missing() -> str | None:
        """The first program that is not installed."""
        return next((name for name in ("knotd", "unbound") if shutil.which(name, path=PATH) is None), None)

    @property
    def resolver(self) -> str:
        """`[server] dns_resolver_addr`."""
        return f"127.0.0.1:{self.unbound}"

    @contextlib.contextmanager
    def running(self) -> Iterator["Zones"]:
        """From ready to stopped."""
        names = self._zone_files()
        broken = "\n".join(f"  - domain: {name}" for name in names)
        (self.folder / "knot.conf").write_text(KNOT.format(folder=self.folder, port=self.knot, broken=broken))
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.silent)
            stack.enter_context(self._program("knotd", "-c", self.folder / "knot.conf"))
            self._until(self.knot, "example.test", "DNSKEY")
            self._unbound_configuration(names)
            stack.enter_context(self._program("unbound", "-d", "-c", self.folder / "unbound.conf"))
            self._until(self.unbound, "example.test", "SOA")
            yield self

    def _zone_files(self) -> list[str]:
        """Write every zone; the names of those that are signed here."""
        for name, more in {"example.test": ALIAS, "plain.test": ""}.items():
            (self.folder / f"{name}.zone").write_text(f"$ORIGIN {name}.\n{ZONE.format(origin=f'{name}.')}{more}")
        names = ["sound.test", "foreign.test", *BROKEN, *LIFETIMES]
        for name in names:
            key = ec.generate_private_key(ec.SECP256R1())
            zone = signed(name, key, days=LIFETIMES.get(name, (-1, 30)))
            if name in BROKEN:
                BROKEN[name](zone)
            (self.folder / f"{name}.zone").write_text(zone.to_text(relativize=False))
            anchored = ec.generate_private_key(ec.SECP256R1()) if name == "foreign.test" else key
            self.anchors.append(anchor(name, dns.dnssec.make_dnskey(anchored.public_key(), ALGORITHM)))
        return names

    def _unbound_configuration(self, names: list[str]) -> None:
        (dnskeys,) = self._ask(self.knot, "example.test", "DNSKEY").answer
        roots = [key for key in dnskeys if key.flags & dns.rdtypes.dnskeybase.Flag.SEP]
        self.anchors += [anchor("example.test", key) for key in roots]
        ports = dict.fromkeys([*names, "example.test", "plain.test", "refused.test"], self.knot)
        ports["silent.test"] = self.silent.getsockname()[1]
        stubs = "".join(f'stub-zone:\n  name: "{name}."\n  stub-addr: 127.0.0.1@{port}\n' for name, port in ports.items())
        anchors = "\n".join(f'  trust-anchor: "{anchor}"' for anchor in self.anchors)
        text = UNBOUND.format(folder=self.folder, port=self.unbound, anchors=anchors, stubs=stubs)
        (self.folder / "unbound.conf").write_text(text)

    @contextlib.contextmanager
    def _program(self, name: str, *arguments: object) -> Iterator[None]:
        program = shutil.which(name, path=PATH)
        assert program is not None
        with (self.folder / f"{name}.out").open("wb") as out:
            process = subprocess.Popen([program, *map(str, arguments)], cwd=self.folder, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            process.wait()

    def _ask(self, port: int, name: str, kind: str) -> dns.message.Message:
        return dns.query.tcp(dns.message.make_query(name, kind), "127.0.0.1", timeout=5, port=port)

    def _until(self, port: int, name: str, kind: str) -> None:
        """Return when the server answers, and the zone was signed."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, EOFError, dns.exception.DNSException):
                if self._ask(port, name, kind).answer:
                    return
            time.sleep(0.01)
        raise RuntimeError(f"no answer to {kind} {name} within {PATIENCE:.0f} s:\n{self.log()}")

    def log(self) -> str:
        return "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.iterdir() if path.suffix in {".log", ".out"})
