"""Entities of a federation: their keys, what they say of themselves and of others, and the lies of some."""

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.jose.algorithms import ALGORITHMS
from greatseal.jose.compact import sign_compact
from greatseal.jose.jwk import jwk_of, thumbprint_of

TYPE = "entity-statement+jwt"
CALLBACK = "https://app.example/callback"


class Entity:
    """One with a federation key and, below it, a key for its requests. ``superiors`` are its authority_hints."""

    def __init__(self, id: str, *superiors: "Entity | str", **metadata: Mapping[str, Any]) -> None:
        self.id = id
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.kid = thumbprint_of(self.key.public_key())
        self.superiors = [one if isinstance(one, str) else one.id for one in superiors]
        self.metadata: dict[str, Any] = {"federation_entity": {"federation_fetch_endpoint": f"{id}/fetch"}, **metadata}

    @property
    def jwks(self) -> dict[str, Any]:
        return {"keys": [{**jwk_of(self.key.public_key()), "kid": self.kid, "use": "sig", "alg": "ES256"}]}

    def sign(self, claims: Mapping[str, Any], *, typ: str | None = TYPE, **header: Any) -> str:
        """A JWT by the federation key. Members that are None are left out."""
        head = {"typ": typ, "alg": "ES256", "kid": self.kid, **header}
        body = json.dumps({name: value for name, value in claims.items() if value is not None}).encode()
        return sign_compact({name: value for name, value in head.items() if value is not None}, body, self._made)

    def configuration(self, *, now: int | None = None, header: Mapping[str, Any] = {}, **changes: Any) -> str:
        """What it says of itself."""
        claims = {"authority_hints": self.superiors or None, "metadata": self.metadata, **self._claims(self, now), **changes}
        return self.sign(claims, **header)

    def about(self, other: "Entity", *, now: int | None = None, header: Mapping[str, Any] = {}, **changes: Any) -> str:
        """What it says of another."""
        return self.sign({**self._claims(other, now), **changes}, **header)

    def configuration_url(self) -> str:
        return f"{self.id}/.well-known/openid-federation"

    def fetch_url(self, other: "Entity") -> str:
        return f"{self.id}/fetch?sub={quote(other.id, safe='')}"

    def _claims(self, subject: "Entity", now: int | None) -> dict[str, Any]:
        made = int(time.time()) if now is None else now
        return {"iss": self.id, "sub": subject.id, "iat": made, "exp": made + 86_400, "jwks": subject.jwks}

    def _made(self, text: bytes) -> bytes:
        return ALGORITHMS["ES256"].sign(self.key, text)


class Program(Entity):
    """A relying party, with a key of its own for requests."""

    def __init__(self, id: str, *superiors: Entity | str, **members: Any) -> None:
        self.own = ec.generate_private_key(ec.SECP256R1())
        party = {
            "client_name": "An app of the federation",
            "redirect_uris": [CALLBACK],
            "response_types": ["code"],
            "grant_types": ["authorization_code", "implicit"],
            "token_endpoint_auth_method": "private_key_jwt",
            "client_registration_types": ["automatic"],
            "jwks": {"keys": [{**jwk_of(self.own.public_key()), "kid": "own"}]},
            **members,
        }
        super().__init__(id, *superiors, openid_relying_party={name: value for name, value in party.items() if value is not None})
        del self.metadata["federation_entity"]

    def proof(self, claims: Mapping[str, Any], *, typ: str = "oauth-authz-req+jwt", **header: Any) -> str:
        """A JWT by the key for requests."""
        body = json.dumps({name: value for name, value in claims.items() if value is not None}).encode()
        head = {"typ": typ, "alg": "ES256", "kid": "own", **header}
        return sign_compact(head, body, lambda text: ALGORITHMS["ES256"].sign(self.own, text))
