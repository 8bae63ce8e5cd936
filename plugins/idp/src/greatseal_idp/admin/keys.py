"""Signing keys and the cluster key."""

from typing import Any

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.http import Call, Permission, Reply, Route, optional_body
from greatseal.api.keys import ClusterKeyInfo
from greatseal.api.lists import LARGEST, listed, page_of
from greatseal.api.moments import seconds
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.compact import b64url_decode
from greatseal_idp.signing import Signing, SigningKey

READ, ROTATE = Permission("keys:read"), Permission("keys:rotate")


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of keys/rotate: without ``alg`` the algorithm of `[server] jwt_signing_algorithm`."""

    alg: str | None = None


class NewClusterKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PUT keys/cluster: ``key`` is 32 bytes in base64url; without it a random one is made."""

    key: str | None = None


class KeysAdmin:
    """/api/admin/keys."""

    def __init__(self, host: Host, signing: Signing) -> None:
        self._host = host
        self._signing = signing

    def routes(self) -> list[Route]:
        """Every route."""
        cluster = "/api/admin/keys/cluster"
        return [
            Route("GET", "/api/admin/keys", self.listed, auth=READ, summary="Signing keys that are not revoked, with their state"),
            Route("POST", "/api/admin/keys/rotate", self.rotate, auth=ROTATE, summary="Make a new active signing key"),
            Route("DELETE", "/api/admin/keys/{kid}", self.revoke, auth=ROTATE, summary="Revoke a signing key at once"),
            Route("GET", cluster, self.cluster_key, auth=READ, summary="Id and age of the cluster key, never the key"),
            Route("PUT", cluster, self.rotate_cluster_key, auth=ROTATE, summary="Set a new cluster key and seal everything under it"),
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        return listed(call, self._host.issuer, page, page.of(self._signing.keys(), self._place), key=self._place, shown=self._shown)

    async def rotate(self, call: Call) -> Reply:
        asked = await optional_body(call, Rotation)
        made = await self._signing.rotate(asked.alg, by=call.caller.subject)
        body = {
            "kid": made.kid,
            "alg": made.alg,
            "status": "active",
            "created_at": seconds(made.created_at),
            "previous_kid": made.previous_kid,
        }
        return Reply.json(body, status=201)

    async def revoke(self, call: Call) -> Reply:
        if not await self._signing.revoke(call.path["kid"], by=call.caller.subject):
            raise NotFound("there is no signing key of this kid")
        return Reply.empty()

    async def cluster_key(self, call: Call) -> Reply:  # noqa: ARG002  # a handler's parameter
        return Reply.json(_shown_cluster_key(self._host.keys.cluster_key()))

    async def rotate_cluster_key(self, call: Call) -> Reply:
        asked = await optional_body(call, NewClusterKey)
        by = call.caller.subject

        def told(tx: Tx, info: ClusterKeyInfo) -> None:
            tx.audit(AuditEvent(event_type="cluster_key_rotated", service="idp", sub=by, detail=f"key_id={info.key_id}"))

        secret = None if asked.key is None else _decoded(asked.key)
        return Reply.json(_shown_cluster_key(await self._host.keys.rotate_cluster_key(secret, also=told)))

    def _place(self, key: SigningKey) -> str:
        """The default algorithm first, of each the newest first."""
        return f"{self._signing.algorithms.index(key.alg)}.{LARGEST - key.created_at:019d}.{key.kid}"

    def _shown(self, key: SigningKey) -> dict[str, Any]:
        members = {
            "kid": key.kid,
            "alg": key.alg,
            "kty": key.kty,
            "crv": key.crv,
            "use": "sig",
            "status": key.status,
            "created_at": seconds(key.created_at),
            "retire_at": None if key.retire_at is None else seconds(key.retire_at),
            "node_id": self._host.node_id,
        }
        return {name: value for name, value in members.items() if value is not None}


def _decoded(key: str) -> bytes:
    try:
        return b64url_decode(key)
    except ValueError:
        raise BadRequest("key: expected 32 bytes in base64url without padding") from None


def _shown_cluster_key(info: ClusterKeyInfo) -> dict[str, Any]:
    return {"key_id": info.key_id, "rotated_at": seconds(info.rotated_at)}
