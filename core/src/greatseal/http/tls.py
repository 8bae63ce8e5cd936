"""TLS for a listener from files."""

import ssl
import stat
from pathlib import Path

from greatseal.http.sockets import ListenProblem


def tls_context(cert_file: Path, key_file: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer with a PEM chain and its key. Raises ListenProblem: the key is accepted, and others may not read it."""
    for path in (cert_file, key_file):
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise ListenProblem(f"{path}: the TLS file cannot be read: {error.strerror}") from None
    if key_file.stat().st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise ListenProblem(f"{key_file}: others than its owner may read or change the TLS key; run chmod 0600 {key_file}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # An empty password instead of a prompt: a service has no terminal.
        context.load_cert_chain(cert_file, key_file, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or "no PEM, or encrypted"
        raise ListenProblem(f"{cert_file} and {key_file} are no certificate chain with its unencrypted key: {reason}") from None
    _check_key(cert_file)
    return context


def _check_key(cert_file: Path) -> None:
    from cryptography import x509  # most listeners are behind a proxy that has the TLS

    from greatseal.jose.acceptance import accept_public_key

    try:
        accept_public_key(x509.load_pem_x509_certificates(cert_file.read_bytes())[0].public_key())
    except ValueError as error:
        raise ListenProblem(f"{cert_file}: the key of the certificate is not accepted: {error}") from None
