"""TLS for a listener from files."""

import ssl
import stat
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from greatseal.http.sockets import ListenProblem

TLS_1_2 = "ECDHE+AESGCM"
"""What RFC 9325 s4.2 (BCP 195) recommends for TLS 1.2; TLS 1.3 has nothing weaker to leave out."""


class Tls:
    """What a listener shows to connections that begin now; each keeps what it began with. Raises ListenProblem.

    ``context`` stays the same for as long as the listener does: the loop has it.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._files = (cert_file, key_file)
        self._roots: Callable[[], Sequence[bytes]] | None = None
        self.context = tls_context(cert_file, key_file)
        self._current: ssl.SSLContext = self.context
        self.context.sni_callback = self._choose

    def ask_clients(self, roots: Callable[[], Sequence[bytes]]) -> None:
        """Let clients show a certificate that one of the roots vouches for. Before the listener opens."""
        self._roots = roots
        # Whether it asks, a connection has from the context that it began with; whom it trusts, from the one that is chosen.
        _ask(self.context)
        self._current = self._made()

    def read_again(self, now: int) -> None:
        """Use the files as they are now, at that moment (microseconds). Raises ListenProblem, and then nothing changes."""
        if problem := lifetime_problem(self._files[0], now):
            raise ListenProblem(problem)
        self._current = self._made()

    def trust_again(self) -> None:
        """Ask for the roots again, for connections to come. Raises ListenProblem, and then nothing changes."""
        self._current = self._made()

    def _made(self) -> ssl.SSLContext:
        context = tls_context(*self._files)
        if self._roots is not None:
            _ask(context)
            for root in self._roots():
                try:
                    context.load_verify_locations(cadata=root)
                except (ssl.SSLError, ValueError) as error:
                    raise ListenProblem(f"a root of client certificates cannot be read as DER: {error}") from None
        return context

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Of every connection, whether it names a server or not."""
        connection.context = self._current


def client_roots(file: Path) -> list[bytes]:
    """The certificates of a PEM file, as DER. Raises ListenProblem."""
    from cryptography import x509  # only those pay for it who ask clients
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        return [one.public_bytes(Encoding.DER) for one in x509.load_pem_x509_certificates(file.read_bytes())]
    except OSError as error:
        raise ListenProblem(f"client_ca_file: {file}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise ListenProblem(f"client_ca_file: {file}: expected one certificate or more in PEM") from None


class ServerContext(ssl.SSLContext):
    """One that knows which certificate it shows: the DER."""

    certificate: bytes


def tls_context(cert_file: Path, key_file: Path) -> ServerContext:
    """TLS 1.2 or newer with a PEM chain and its key, which is accepted and nobody else's to read. Raises ListenProblem with all faults."""
    if problems := [problem for problem in (_unreadable(cert_file), _unreadable(key_file), _too_open(key_file)) if problem]:
        raise ListenProblem(*problems)
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(TLS_1_2)
    context.set_alpn_protocols(["http/1.1"])
    try:
        # An empty password instead of a prompt: a service has no terminal.
        context.load_cert_chain(cert_file, key_file, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or "no PEM, or encrypted"
        raise ListenProblem(f"{cert_file} and {key_file} are no certificate chain with its unencrypted key: {reason}") from None
    context.certificate = _checked(cert_file)
    return context


def _ask(context: ssl.SSLContext) -> None:
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate of a client may be its own root


def _checked(cert_file: Path) -> bytes:
    """The DER of the certificate, whose key is accepted."""
    from cryptography import x509  # most listeners are behind a proxy that has the TLS
    from cryptography.hazmat.primitives.serialization import Encoding

    from greatseal.jose.acceptance import accept_public_key

    try:
        own = x509.load_pem_x509_certificates(cert_file.read_bytes())[0]
        accept_public_key(own.public_key())
    except ValueError as error:
        raise ListenProblem(f"{cert_file}: the key of the certificate is not accepted: {error}") from None
    return own.public_bytes(Encoding.DER)


def lifetime_problem(cert_file: Path, now: int) -> str | None:
    """Why no client takes the certificate at that moment (microseconds); None also where it cannot be read."""
    from cryptography import x509  # only those pay for it who serve TLS

    try:
        own, *_ = x509.load_pem_x509_certificates(cert_file.read_bytes())
    except (OSError, ValueError):
        return None
    moment = datetime.fromtimestamp(now // 1_000_000, UTC)
    if own.not_valid_after_utc < moment:
        return f"{cert_file}: the TLS certificate expired on {own.not_valid_after_utc:%Y-%m-%d}; renew it"
    if own.not_valid_before_utc > moment:
        return f"{cert_file}: the TLS certificate is valid from {own.not_valid_before_utc:%Y-%m-%d} on; check the clock"
    return None


def _unreadable(path: Path) -> str | None:
    try:
        with path.open("rb"):
            return None
    except OSError as error:
        return f"{path}: the TLS file cannot be read: {error.strerror}"


def _too_open(key_file: Path) -> str | None:
    try:
        mode = key_file.stat().st_mode
    except OSError:
        return None  # it cannot be read either
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        return f"{key_file}: others than its owner may read or change the TLS key; run chmod 0600 {key_file}"
    return None
