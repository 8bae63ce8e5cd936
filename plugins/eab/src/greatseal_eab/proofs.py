"""Keys as a proof of who asks, for other plugins."""

import hmac

from greatseal.api.acme import EabKeyView
from greatseal.api.store import Tx
from greatseal.jose.compact import b64url_decode
from greatseal_eab.keys import EabKeys


class Proofs:
    """The service EABKEYS."""

    def __init__(self, keys: EabKeys) -> None:
        self._keys = keys

    def find(self, tx: Tx, kid: str) -> EabKeyView | None:
        """See :class:`greatseal.api.acme.EabKeys`."""
        found = self._keys.find(tx, kid)
        return None if found is None else EabKeyView(made_at=found.created_at, principal=found.bound_principal)

    def verifies(self, tx: Tx, kid: str, data: bytes, mac: bytes) -> bool:
        """See :class:`greatseal.api.acme.EabKeys`."""
        if self._keys.find(tx, kid) is None:
            return False
        try:
            key = b64url_decode(self._keys.secret(tx, kid))
        except ValueError:  # what is stored is no key: a binding says so too
            return False
        return hmac.compare_digest(mac, hmac.digest(key, data, "sha256"))
