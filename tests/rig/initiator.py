"""Clients of Kerberos: tokens for services, made by the library of the system. Needs the dependency group ``kerberos``."""

import subprocess
import sys
from base64 import b64decode, b64encode
from typing import NamedTuple

import gssapi
from gssapi import raw
from rig.kdc import PATIENCE, Kdc, clock_that_is_off

from greatseal.der import children, content, element, explicit, octet_string, sequence

KERBEROS = gssapi.MechType.kerberos
SPNEGO = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")
# The same as DER.
KERBEROS_OID = bytes.fromhex("06092a864886f712010202")
SPNEGO_OID = bytes.fromhex("06062b0601050502")
NTLM_OID = bytes.fromhex("060a2b06010401823702020a")
OFFER = b"NTLMSSP\0\x01\0\0\0\x97\x82\x08\xe2" + bytes(16)
"""What a client of NTLM begins with."""


FIRST = f"""
from base64 import b64encode
import gssapi
name = gssapi.Name("HTTP@localhost", gssapi.NameType.hostbased_service)
context = gssapi.SecurityContext(name=name, mech=gssapi.OID.from_int_seq("{SPNEGO.dotted_form}"), usage="initiate")
print("Negotiate", b64encode(context.step()).decode())
"""
"""A program that says the header of a first token."""


class Initiator:
    """A principal with a ticket in a cache of its own."""

    def __init__(self, kdc: Kdc, principal: str, *, password: str = "", keytab: str = "", life: str = "1d") -> None:
        self.cache = f"cc-{principal.replace('/', '-')}"
        self.environ = kdc.ticket_for(principal, password=password, keytab=keytab, cache=self.cache, life=life)
        self._store = f"FILE:{kdc.folder / self.cache}"

    def context(
        self, target: str = "HTTP@localhost", *, mech: gssapi.OID = SPNEGO, binding: bytes | None = None, forward: bool = False
    ) -> gssapi.SecurityContext:
        """An exchange with a service."""
        credential = gssapi.Credentials(usage="initiate", store={"ccache": self._store})
        flags = raw.RequirementFlag.mutual_authentication | raw.RequirementFlag.integrity
        if forward:
            flags |= raw.RequirementFlag.delegate_to_peer
        return gssapi.SecurityContext(
            name=gssapi.Name(target, gssapi.NameType.hostbased_service),
            creds=credential,
            mech=mech,
            flags=flags,
            channel_bindings=None if binding is None else raw.ChannelBindings(application_data=binding),
            usage="initiate",
        )

    def token(self, target: str = "HTTP@localhost", *, binding: bytes | None = None, forward: bool = False) -> bytes:
        """The first token for a service."""
        return self.context(target, binding=binding, forward=forward).step() or b""

    def negotiate_at(self, clock: str) -> str:
        """The header, of a program whose clock is off by so much. It has to have a ticket for the service by then."""
        environ = {**self.environ, **clock_that_is_off(clock)}
        done = subprocess.run((sys.executable, "-c", FIRST), env=environ, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
        return done.stdout.strip()

    def negotiate(self, target: str = "HTTP@localhost", *, binding: bytes | None = None) -> str:
        """The header with it."""
        return header(self.token(target, binding=binding))


def header(token: bytes) -> str:
    """What goes into Authorization."""
    return f"Negotiate {b64encode(token).decode()}"


def answered(header: str) -> bytes:
    """The token of a WWW-Authenticate."""
    scheme, _, text = header.partition(" ")
    assert scheme == "Negotiate", header
    return b64decode(text)


class Legs(NamedTuple):
    """An exchange of three legs (RFC 4178 s5): the client offers NTLM first, so the offer is protected at the end."""

    context: gssapi.SecurityContext
    offered: bytes = sequence(NTLM_OID, KERBEROS_OID)

    def first(self) -> bytes:
        """NegTokenInit without a token of the mechanism."""
        return element(0x60, SPNEGO_OID + explicit(0, sequence(explicit(0, self.offered))))

    def second(self) -> bytes:
        """NegTokenResp with the ticket."""
        return explicit(1, sequence(explicit(2, octet_string(self.context.step() or b""))))

    def third(self, answer: bytes) -> bytes:
        """NegTokenResp with the checksum of what was offered, after the server proved itself."""
        (resp,) = children(answer)
        (told,) = (one for one in children(resp) if one[0] == 0xA2)
        self.context.step(content(content(told)))
        return explicit(1, sequence(explicit(3, octet_string(self.context.get_signature(self.offered)))))
