"""Whether a chain of certificates leads to one that is trusted. By OpenSSL: attestations have certificates that no web server has."""

from collections.abc import Sequence
from datetime import UTC, datetime

from cryptography.x509 import Certificate
from OpenSSL.crypto import X509, Error, X509Store, X509StoreContext, X509StoreContextError, X509StoreFlags

LONGEST = 6
"""Certificates in a chain."""


class NoChain(ValueError):
    """It leads to nothing that is trusted."""


def check_chain(chain: Sequence[Certificate], trusted: Sequence[Certificate], now: int) -> None:
    """Raises NoChain unless the first of the chain is trusted, or leads to a trusted one, at ``now`` (microseconds)."""
    if not 0 < len(chain) <= LONGEST:
        raise NoChain(f"there are {len(chain)} certificates: expected 1 to {LONGEST}")
    store = X509Store()
    # What is trusted may be an intermediate one, or that of a single model (FIDO Metadata Statement s4, attestationRootCertificates).
    store.set_flags(X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(datetime.fromtimestamp(now / 1_000_000, UTC))
    try:
        for one in trusted:
            store.add_cert(X509.from_cryptography(one))
        first, *others = (X509.from_cryptography(one) for one in chain)
        X509StoreContext(store, first, others).verify_certificate()
    except (X509StoreContextError, Error) as error:
        raise NoChain(f"the certificates do not lead to one that is trusted: {error}") from None
