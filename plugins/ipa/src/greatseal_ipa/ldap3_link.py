"""ldap3 2.9.1 behind :class:`greatseal_ipa.library.Library`.

ldap3 does the encoding alone: connections, TLS, time and size are ours. Its own receive timeout starts again with each octet, its TLS
verifies nothing unless told, and it would follow referrals.
"""

import socket
import ssl
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cryptography.x509 import load_der_x509_certificate

from greatseal import der
from greatseal_ipa.library import (
    EXPIRED,
    PAGE,
    SUCCESS,
    Change,
    Credentials,
    Down,
    Entry,
    Found,
    NoTicket,
    Outcome,
    Oversized,
    Query,
    Refused,
    Server,
    Terms,
    Unusable,
)
from greatseal_ipa.names import is_under

with warnings.catch_warnings():
    # It imports two names that pyasn1 has renamed.
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3
    from ldap3.core.exceptions import LDAPException, LDAPSessionTerminatedByServerError, LDAPSocketOpenError

START_TLS = "1.3.6.1.4.1.1466.20037"
PASSWORD_POLICY = "1.3.6.1.4.1.42.2.27.8.5.1"  # noqa: S105  # the OID of a control
PAGED = "1.2.840.113556.1.4.319"
CODE_REQUIRED = "2.16.840.1.113730.3.8.10.7"
"""FreeIPA's control of a bind: the password ends with a one-time code (ipa-pwd-extop)."""
HOW = {"add": ldap3.MODIFY_ADD, "delete": ldap3.MODIFY_DELETE, "replace": ldap3.MODIFY_REPLACE}
RECEIVE = 65536
CLOSE_SECONDS = 0.2
SEE_KDC = "see that a KDC of the realm runs, that krb5.conf or DNS names it, and that the firewall lets this machine ask it"
CURES = {
    -1765328243: "get one with kinit",
    -1765328352: "get another one with kinit",
    -1765328377: "[ipa] ldap_uri has to name the server as the KDC does",
    -1765328228: SEE_KDC,
}
"""What to do by the code of libkrb5: nothing in the cache, ended, a server that is not in the KDC, and no KDC."""
TIME_LIMIT, SIZE_LIMIT, REFERRAL, NO_SUCH_OBJECT, BUSY, UNAVAILABLE = 3, 4, 10, 32, 51, 52


class Ldap3:
    """The library."""

    def open(self, server: Server, terms: Terms) -> "Ldap3Link":
        """See :class:`greatseal_ipa.library.Library`."""
        try:
            line = _Line(_connected(server, terms), terms.max_answer)
        except (OSError, UnicodeError) as error:
            raise Down(f"{server}: {_reason(error)}", silent=isinstance(error, TimeoutError)) from error
        link = Ldap3Link(server, terms, line)
        if server.scheme == "ldap" and terms.start_tls:
            link.start_tls()
        return link


class Ldap3Link:
    """One connection."""

    def __init__(self, server: Server, terms: Terms, line: "_Line") -> None:
        self._server = server
        self._terms = terms
        self._line = line
        there = ldap3.Server(server.host or "localhost", server.port or 389, get_info=ldap3.NONE)
        self._connection = connection = ldap3.Connection(
            there, client_strategy=ldap3.SAFE_SYNC, auto_referrals=False, check_names=False, raise_exceptions=False
        )
        strategy = connection.strategy
        strategy.socket_size = RECEIVE
        strategy._outstanding = {}  # noqa: SLF001  # what open() sets, which would make a socket of its own
        connection.socket, connection.closed = line, False
        strategy._start_listen()  # noqa: SLF001

    def start_tls(self) -> None:
        """RFC 4511 s4.14; a server that will not is left. Raises Down."""
        with self._asking():
            _, result, *_ = self._connection.extended(START_TLS)
        if result["result"] != SUCCESS:
            self.close()
            raise Down(f"{self._server}: no StartTLS: {_said(result)}")
        try:
            self._line.secure(_context(self._terms), self._server.host, self._terms.connect_seconds)
        except OSError as error:
            self.close()
            raise Down(f"{self._server}: {_reason(error)}", silent=isinstance(error, TimeoutError)) from error

    def bind(self, dn: str, password: str, *, with_code: bool = False) -> Outcome:
        """See :class:`greatseal_ipa.library.Link`."""
        if not password or not dn:
            raise ValueError("a bind without name or password is an anonymous one")
        controls = [(PASSWORD_POLICY, False, None), *([(CODE_REQUIRED, True, None)] if with_code else [])]
        # As octets: ldap3 would prepare a text by RFC 4013, which the server did not when the password was set.
        return self._bind(controls, authentication=ldap3.SIMPLE, user=dn, password=password.encode())

    def bind_gssapi(self, credentials: Credentials | None) -> Outcome:
        """See :class:`greatseal_ipa.library.Link`."""
        host = self._server.host or "localhost"
        own = None if credentials is None else credentials(f"ldap@{host}")
        try:
            return self._bind(None, authentication=ldap3.SASL, sasl_mechanism=ldap3.KERBEROS, sasl_credentials=(host, None, _copied(own)))
        except (Down, Unusable) as error:
            if (why := self._ticket_problem(error.__cause__)) is None:
                raise
            raise NoTicket(f"no bind by a ticket at {self._server}: {why}") from error
        except Exception as error:
            self.close()
            raise NoTicket(f"no bind by a ticket at {self._server}: {_reason(error)}") from error

    def search(self, query: Query) -> Found:
        """See :class:`greatseal_ipa.library.Link`."""
        entries: list[Entry] = []
        cookie: bytes | None = None
        paged = query.limit > PAGE
        with self._asking():
            while True:
                wanted = query.limit - len(entries)
                _, result, response, _ = self._connection.search(
                    query.base,
                    query.filter,
                    search_scope=query.scope.value,
                    dereference_aliases=ldap3.DEREF_NEVER,
                    attributes=list(query.attributes),
                    size_limit=0 if paged else wanted,
                    time_limit=max(1, int(self._terms.seconds)),
                    paged_size=min(PAGE, wanted) if paged else None,
                    paged_cookie=cookie,
                )
                entries += _entries(response or (), query)
                self._require(result)
                cookie = ((result.get("controls") or {}).get(PAGED) or {}).get("value", {}).get("cookie") if paged else None
                if not cookie or len(entries) >= query.limit:
                    break
                self._line.rewind()
        complete = result["result"] in {SUCCESS, NO_SUCH_OBJECT} and not cookie and len(entries) <= query.limit
        return Found(entries[: query.limit], complete)

    def change_password(self, dn: str, old: str, new: str) -> Outcome:
        """See :class:`greatseal_ipa.library.Link`."""
        with self._asking():
            self._connection.extend.standard.modify_password(dn, old.encode(), new.encode(), controls=[(PASSWORD_POLICY, False, None)])
            result = self._connection.result
        return _outcome(result)

    def add(self, dn: str, values: Mapping[str, Sequence[str | bytes]]) -> Outcome:
        """See :class:`greatseal_ipa.library.Link`."""
        with self._asking():
            _, result, *_ = self._connection.add(dn, attributes={name: list(some) for name, some in values.items()})
        return _outcome(result)

    def modify(self, dn: str, changes: Sequence[Change]) -> Outcome:
        """See :class:`greatseal_ipa.library.Link`."""
        wanted: dict[str, list[tuple[str, list[str | bytes]]]] = {}
        for change in changes:
            wanted.setdefault(change.name, []).append((HOW[change.how], list(change.values)))
        with self._asking():
            _, result, *_ = self._connection.modify(dn, wanted)
        return _outcome(result)

    def delete(self, dn: str) -> Outcome:
        """See :class:`greatseal_ipa.library.Link`."""
        with self._asking():
            _, result, *_ = self._connection.delete(dn)
        return _outcome(result)

    def close(self) -> None:
        """See :class:`greatseal_ipa.library.Link`."""
        with suppress(LDAPException, OSError):
            self._line.begin(CLOSE_SECONDS)
            self._connection.unbind()
        self._line.close()

    def _bind(self, controls: Sequence[tuple[str, bool, None]] | None, **identity: Any) -> Outcome:
        for name, value in identity.items():
            setattr(self._connection, name, value)
        with self._asking():
            _, result, *_ = self._connection.bind(read_server_info=False, controls=controls)
        self._connection.password = None
        return _outcome(result)

    def _ticket_problem(self, error: Any) -> str | None:
        """What GSSAPI says, which this plugin does not import, and what to do; None when it is no matter of Kerberos."""
        if isinstance(self._line.failure, TimeoutError) and not self._line.said:
            return f"no KDC answered within {self._terms.seconds:g} s; {SEE_KDC}"
        if (minor := getattr(error, "min_code", None)) is None:
            return None
        (said, *_) = error.get_all_statuses(minor, False)
        cure = CURES.get(minor - (1 << 32) if minor >= 1 << 31 else minor)
        return f"{said}; {cure}" if cure else str(said)

    def _require(self, result: dict[str, Any]) -> None:
        """Raises what stands for a result that is no answer to a search."""
        code = result["result"]
        if code in {SUCCESS, NO_SUCH_OBJECT, SIZE_LIMIT}:
            return
        if code in {BUSY, UNAVAILABLE, TIME_LIMIT}:
            raise Down(f"{self._server}: {_said(result)}", silent=code == TIME_LIMIT)
        if code == REFERRAL:
            raise Unusable(f"{self._server}: a referral, which is not followed: {_said(result)}")
        raise Refused(code, f"{self._server}: {_said(result)}")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Within the time of one question. Whatever goes wrong leaves the connection closed: nobody reads the rest of another's answer."""
        self._line.begin(self._terms.seconds)
        try:
            yield
        except (Down, Refused, Unusable):
            self._line.close()
            raise
        except Exception as error:
            self._line.close()
            # ldap3 keeps the text of what the line raised, and not the exception. The others come of octets that are no LDAP.
            if isinstance(broken := self._line.failure, Oversized):
                raise Oversized(f"{self._server}: {broken}") from error
            if broken is None and not isinstance(error, LDAPSessionTerminatedByServerError | LDAPSocketOpenError):
                raise Unusable(f"{self._server}: no LDAP: {_reason(error)}") from error
            raise Down(f"{self._server}: {_reason(broken or error)}", silent=isinstance(broken, TimeoutError)) from error


class _Line:
    """A socket with a time and a number of octets for each question, which an answer in drops does not stretch."""

    def __init__(self, there: socket.socket, limit: int) -> None:
        self._socket = there
        self._limit = limit
        self._left = limit
        self._deadline = 0.0
        self.failure: Exception | None = None
        self.said = False
        """Whether anything went out since the question began."""

    def begin(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self.said = False
        self.rewind()

    def rewind(self) -> None:
        """The next page may be as long as the one before; the time goes on."""
        self._left = self._limit

    def secure(self, context: ssl.SSLContext, host: str, seconds: float) -> None:
        self._socket.settimeout(seconds)
        self._socket = context.wrap_socket(self._socket, server_hostname=host)

    def recv(self, size: int) -> bytes:
        try:
            self._wait()
            octets = self._socket.recv(size)
            self._left -= len(octets)
            if not octets:
                raise ConnectionResetError("the server closed the connection")
            if self._left < 0:
                raise _TooMuch(f"an answer of more than {self._limit} octets")
        except OSError as error:
            self.failure = Oversized(str(error)) if isinstance(error, _TooMuch) else error
            raise
        return octets

    def sendall(self, octets: bytes) -> None:
        try:
            self._wait()
            self.said = True
            self._socket.sendall(octets)
        except OSError as error:
            self.failure = error
            raise

    def getpeercert(self, _binary_form: bool) -> bytes | None:
        """For channel bindings (RFC 5929 s4.1), which certificates without a hash of their own, such as Ed25519, do not have."""
        if not isinstance(self._socket, ssl.SSLSocket):
            raise ValueError("no TLS")  # noqa: TRY004  # what ldap3 takes for an answer
        found = self._socket.getpeercert(binary_form=True)
        if found is None or load_der_x509_certificate(found).signature_hash_algorithm is None:
            raise ValueError("no channel bindings for this certificate")
        return found

    def shutdown(self, _how: int) -> None:
        """Nothing: :meth:`close` does not wait for the peer."""

    def close(self) -> None:
        self._socket.close()

    def _wait(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left)


class _TooMuch(OSError):
    pass


def _connected(server: Server, terms: Terms) -> socket.socket:
    if server.scheme == "ldapi":
        there = socket.socket(socket.AF_UNIX)
        there.settimeout(terms.connect_seconds)
        try:
            there.connect(server.path)
        except OSError:
            there.close()
            raise
        return there
    there = socket.create_connection((server.host, server.port), timeout=terms.connect_seconds)
    try:
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _context(terms).wrap_socket(there, server_hostname=server.host) if server.scheme == "ldaps" else there
    except OSError:
        there.close()
        raise


def _copied(credentials: Any) -> Any:
    """ldap3 takes the handle out of the object that it is given, and whoever holds that is left with none."""
    return None if credentials is None else type(credentials)(token=credentials.export())


def _context(terms: Terms) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=None if terms.ca_cert_file is None else str(terms.ca_cert_file))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _entries(response: Any, query: Query) -> Iterator[Entry]:
    for one in response:
        if one.get("type") != "searchResEntry":
            continue
        if not is_under(dn := one["dn"], query.base):
            raise Unusable(f"an entry from outside of {query.base}")
        yield Entry(dn, {name.lower(): tuple(values) for name, values in one["raw_attributes"].items() if values})


def _outcome(result: dict[str, Any]) -> Outcome:
    told = (result.get("controls") or {}).get(PASSWORD_POLICY) or {}
    return Outcome(result["result"], result.get("message") or result.get("description") or "", _policy(told.get("value")))


def _policy(value: bytes | None) -> int | None:
    """The error of a PasswordPolicyResponseValue (draft-behera-ldap-password-policy s6.2); None where it has none.

    A bind that the server lets pass although the password has expired (graceAuthNsRemaining) counts as expired.
    """
    try:
        parts = der.children(value) if value else []
        grace = any(warning[0] == 0x81 for part in parts if part[0] == 0xA0 for warning in der.children(part))
    except ValueError:
        return None
    return next((der.content(part)[0] for part in parts if part[0] == 0x81 and der.content(part)), EXPIRED if grace else None)


def _said(result: dict[str, Any]) -> str:
    return f"{result['description']} ({result['result']}) {result.get('message') or ''}".strip()


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
