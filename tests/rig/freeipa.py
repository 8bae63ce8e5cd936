"""What FreeIPA's directory has and a plain one has not: binds with a one-time code behind the password.

A server in front of another one, which does to binds of people what FreeIPA's ipa-pwd-extop does (prepost.c, libotp/otp_token.c).
"""

import socket
import threading
from base64 import b32encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1, sha256, sha384, sha512

from pyotp import HOTP
from rig.slapd import MANAGER, MANAGER_PASSWORD, SUFFIX

from greatseal import der
from greatseal.host import Clock
from greatseal_ipa.ldap3_link import CODE_REQUIRED, Ldap3
from greatseal_ipa.library import Change, Entry, Link, Query, Scope, Terms
from greatseal_ipa.names import is_under
from greatseal_ipa.schema import equals, moment
from greatseal_ipa.servers import server_of

PEOPLE = f"cn=users,cn=accounts,{SUFFIX}"
TOKEN = (
    "objectClass", "ipatokenOTPkey", "ipatokenOTPalgorithm", "ipatokenOTPdigits", "ipatokenTOTPtimeStep", "ipatokenTOTPclockOffset",
    "ipatokenTOTPwatermark", "ipatokenHOTPcounter", "ipatokenDisabled", "ipatokenNotBefore", "ipatokenNotAfter",
)  # fmt: skip
WINDOW, AHEAD = 300, 10
"""Seconds of TOTP, counts of HOTP: FreeIPA's own."""
HASHES = {"sha1": sha1, "sha256": sha256, "sha384": sha384, "sha512": sha512}
BIND, SEARCH, SIMPLE = 0x60, 0x63, 0x80
INVALID_CREDENTIALS = 49


class FreeIpa:
    """In front of the server at ``port``. ``binds`` are those of people: whether a code was asked for, and the result."""

    def __init__(self, port: int, clock: Clock) -> None:
        self.uri = ""
        self.binds: list[tuple[bool, int]] = []
        self.checks = True
        """Otherwise binds go on as they are."""
        self._port = port
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"ldap://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = [self._listener]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._ends += [near, far]
                threading.Thread(target=self._questions, args=(near, far), daemon=True).start()
                threading.Thread(target=_answers, args=(near, far), daemon=True).start()

    def _questions(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while True:
                message = _message(near)
                number, operation, *controls = der.children(message)
                if operation[0] == BIND and (changed := self._bind(near, number, operation, controls)) is not None:
                    far.sendall(changed)
                elif operation[0] == SEARCH and b"supportedControl" in operation and not der.content(der.children(operation)[0]):
                    near.sendall(_root(number))
                elif operation[0] != BIND:
                    far.sendall(message)
        near.close()
        far.close()

    def _bind(self, near: socket.socket, number: bytes, operation: bytes, controls: list[bytes]) -> bytes | None:
        """The message that goes on, None where it is answered here."""
        version, name, authentication = der.children(operation)
        dn = der.content(name).decode()
        if not self.checks or authentication[0] != SIMPLE or not is_under(dn, PEOPLE):
            return der.sequence(number, operation, *controls)
        required = any(CODE_REQUIRED.encode() in one for one in controls)
        with self._one_at_a_time:  # ipa-otp-counter
            password = self._stripped(dn, der.content(authentication), required=required)
            self.binds.append((required, INVALID_CREDENTIALS if password is None else self._result(dn, password)))
        if password is None:
            near.sendall(der.sequence(number, der.element(0x61, b"\x0a\x01\x31\x04\x00\x04\x00")))
            return None
        return der.sequence(number, der.element(BIND, version + name + der.element(SIMPLE, password)))

    def _stripped(self, dn: str, typed: bytes, *, required: bool) -> bytes | None:
        """The password without its code, None for what is wrong already."""
        with self._asking() as link:
            entry = link.search(Query(base=dn, attributes=("ipaUserAuthType",), scope=Scope.BASE)).entries[0]
            types = entry.texts("ipaUserAuthType") or ("password",)
            if "otp" in types:
                filter_ = f"(&(objectClass=ipaToken){equals('ipatokenOwner', dn)})"
                found = link.search(Query(base=f"cn=otp,{SUFFIX}", filter=filter_, attributes=TOKEN)).entries
                active = [one for one in found if self._is_active(one)]
                if not active:
                    return None if required else typed
                for one in active:
                    digits = int(one.text("ipatokenOTPdigits") or 0)
                    if self._takes(link, one, typed[-digits:].decode(errors="replace")):
                        return typed[:-digits]
            return typed if "password" in types and not required else None

    def _is_active(self, token: Entry) -> bool:
        now, starts, ends = self._clock.now(), moment(token.text("ipatokenNotBefore")), moment(token.text("ipatokenNotAfter"))
        return token.text("ipatokenDisabled") != "TRUE" and (starts or 0) <= now and (ends is None or now <= ends)

    def _takes(self, link: Link, token: Entry, code: str) -> bool:
        key = b32encode(token.values["ipatokenotpkey"][0]).decode()
        algorithm = HASHES[token.text("ipatokenOTPalgorithm") or "sha1"]
        counted = HOTP(key, digits=int(token.text("ipatokenOTPdigits") or 6), digest=algorithm)
        step = int(token.text("ipatokenTOTPtimeStep") or 30)
        totp = "ipatokenTOTP" in token.texts("objectClass")
        attribute = "ipatokenTOTPwatermark" if totp else "ipatokenHOTPcounter"
        least = int(token.text(attribute) or 0)
        here = (self._clock.now() // 1_000_000 + int(token.text("ipatokenTOTPclockOffset") or 0)) // step if totp else least
        window = range(here - WINDOW // step, here + WINDOW // step) if totp else range(here, here + AHEAD)
        for count in window:
            if count >= least and counted.at(count) == code:
                return link.modify(token.dn, [Change("replace", attribute, [str(count + 1)])]).ok
        return False

    def _result(self, dn: str, password: bytes) -> int:
        link = Ldap3().open(server_of(f"ldap://127.0.0.1:{self._port}"), Terms(start_tls=False))
        try:
            return link.bind(dn, password.decode()).code if password else INVALID_CREDENTIALS
        finally:
            link.close()

    @contextmanager
    def _asking(self) -> Iterator[Link]:
        link = Ldap3().open(server_of(f"ldap://127.0.0.1:{self._port}"), Terms(start_tls=False))
        try:
            assert link.bind(MANAGER, MANAGER_PASSWORD).ok
            yield link
        finally:
            link.close()


def _answers(near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError):
        while octets := far.recv(65536):
            near.sendall(octets)
    near.close()


def _message(source: socket.socket) -> bytes:
    """One whole message."""
    head = _exactly(source, 2)
    if head[1] & 0x80:
        head += _exactly(source, head[1] & 0x7F)
        return head + _exactly(source, int.from_bytes(head[2:]))
    return head + _exactly(source, head[1])


def _exactly(source: socket.socket, size: int) -> bytes:
    octets = b""
    while len(octets) < size:
        more = source.recv(size - len(octets))
        if not more:
            raise EOFError
        octets += more
    return octets


def _root(number: bytes) -> bytes:
    """The root entry with the control, and that this is all."""
    attribute = der.sequence(der.octet_string(b"supportedControl"), der.element(0x31, der.octet_string(CODE_REQUIRED.encode())))
    entry = der.element(0x64, der.octet_string(b"") + der.sequence(attribute))
    return der.sequence(number, entry) + der.sequence(number, der.element(0x65, b"\x0a\x01\x00\x04\x00\x04\x00"))
