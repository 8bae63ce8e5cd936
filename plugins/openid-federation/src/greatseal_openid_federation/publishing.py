"""What this service says of itself: its entity configuration (OpenID Federation 1.0 s9), and its keys in a signed set (s5.2.1)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from greatseal.api.http import Call, Reply, Route
from greatseal.api.moments import SECOND
from greatseal.api.problems import NotFound
from greatseal.api.services import Metadata
from greatseal.host import Host
from greatseal_openid_federation.clients import JWK_SET
from greatseal_openid_federation.entities import WELL_KNOWN
from greatseal_openid_federation.keys import EntityKeys
from greatseal_openid_federation.marks import TrustMarks
from greatseal_openid_federation.settings import EntitySettings
from greatseal_openid_federation.statements import MEDIA_TYPE, TYPE

JWKS = "/openid-federation/jwks"
LIFETIME, FRESH = 86_400, 3600
"""Seconds that a statement is good, and until a new one is signed."""
CACHED = 300  # seconds


class _Signed(msgspec.Struct, frozen=True):
    """A JWT with what it says, but for its times."""

    claims: Mapping[str, Any]
    kid: str
    iat: int
    text: str


class EntityDocuments:
    """Both documents, signed again when what they say changes, and every hour."""

    def __init__(self, host: Host, metadata: Metadata, keys: EntityKeys, marks: TrustMarks, settings: EntitySettings) -> None:
        self._host = host
        self._metadata = metadata
        self._keys = keys
        self._marks = marks
        self._settings = settings
        self._signed: dict[str, _Signed] = {}

    def routes(self) -> list[Route]:
        """For everybody."""
        return [
            Route("GET", WELL_KNOWN, self.configuration, cors=True, summary="The entity configuration (OpenID Federation 1.0 s9)."),
            Route("GET", JWKS, self.jwks, cors=True, summary="The public keys that verify tokens, signed by a federation key."),
        ]

    async def configuration(self, call: Call) -> Reply:  # noqa: ARG002  # a handler's parameter
        return _reply(await self.statement(), MEDIA_TYPE)

    async def jwks(self, call: Call) -> Reply:  # noqa: ARG002  # a handler's parameter
        self._require_enabled()
        issuer = self._host.issuer
        return _reply(await self._sign(JWK_SET, {"iss": issuer, "sub": issuer, **self._metadata.key_set()}), f"application/{JWK_SET}")

    async def statement(self) -> str:
        """The entity configuration. Raises NotFound where the configuration says that there is none."""
        self._require_enabled()
        issuer, settings = self._host.issuer, self._settings
        claims: dict[str, Any] = {
            "iss": issuer,
            "sub": issuer,
            "jwks": self._keys.jwks(),
            "authority_hints": list(settings.authority_hints),
            "trust_anchor_hints": [one.entity_id for one in settings.trust_anchors] if settings.authority_hints else [],
            "metadata": await self._entity_types(),
            "trust_marks": await self._marks.current(),
        }
        return await self._sign(TYPE, {name: value for name, value in claims.items() if value != []})

    async def _entity_types(self) -> dict[str, Any]:
        """What the service is, by entity type (s5.1)."""
        about = {"organization_name": self._settings.organization_name, "contacts": list(self._settings.contacts)}
        keys = {"signed_jwks_uri": f"{self._host.issuer}{JWKS}"}
        return {
            "federation_entity": {name: value for name, value in about.items() if value},
            "openid_provider": {**await self._metadata.document("openid"), **keys},
            "oauth_authorization_server": {**await self._metadata.document("oauth"), **keys},
            **self._host.discovery("federation"),
        }

    async def _sign(self, typ: str, claims: Mapping[str, Any]) -> str:
        now, known, kid = self._host.clock.now() // SECOND, self._signed.get(typ), self._keys.kid()
        if known is not None and known.claims == claims and known.kid == kid and 0 <= now - known.iat < FRESH:
            return known.text
        text = await self._keys.sign(typ, {**claims, "iat": now, "exp": now + LIFETIME})
        self._signed[typ] = _Signed(claims, kid, now, text)
        return text

    def _require_enabled(self) -> None:
        if not self._settings.entity_enabled:
            raise NotFound("this service is no entity of a federation: [federation] entity_enabled is false")


def _reply(text: str, media_type: str) -> Reply:
    return Reply(body=text.encode(), content_type=media_type, headers=(("Cache-Control", f"public, max-age={CACHED}"),))
