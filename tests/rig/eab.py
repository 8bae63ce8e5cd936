"""External account bindings as a client makes them."""

import hmac
from collections.abc import Mapping
from typing import Any

from rig.acme import AcmeClient, b64url, compact

HASHES = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}


def binding(client: AcmeClient, kid: str, key: bytes, *, payload: object = None, **header: Any) -> dict[str, Mapping[str, str]]:
    """The member of newAccount for the account key of ``client``; ``header`` replaces members of its protected header."""
    whole = {"alg": "HS256", "kid": kid, "url": client.directory["newAccount"], **header}
    head, body = b64url(compact(whole)), b64url(compact(client.key.jwk if payload is None else payload))
    mac = hmac.digest(key, f"{head}.{body}".encode(), HASHES.get(str(whole["alg"]), "sha256"))
    return {"externalAccountBinding": {"protected": head, "payload": body, "signature": b64url(mac)}}
