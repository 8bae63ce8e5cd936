"""Request objects, signed authorization responses, and encryption of what is signed for a client."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.declarations import EventType, Job, Lifespan, Placement, Reads
from greatseal.api.http import Discovery
from greatseal.api.services import RESOLVER, TOKENS
from greatseal.api.tokens import Grant
from greatseal.host import Host
from greatseal.jose.compact import ALGORITHMS
from greatseal.jose.jwe import AGREEMENTS, TRANSPORTS
from greatseal.jose.jwe import ENCRYPTIONS as DECRYPTIONS
from greatseal.net import RemoteKeys
from greatseal_jar.answers import SIGNING_ALGORITHMS, SignedAnswers
from greatseal_jar.decryption import LOOK, RequestKeys
from greatseal_jar.encryption import ALGORITHMS as ENCRYPTION_ALGORITHMS
from greatseal_jar.encryption import ENCRYPTIONS, EncryptedAnswers
from greatseal_jar.objects import BACKCHANNEL, CIBA, RequestObjects
from greatseal_jar.settings import JwksSettings


class Plugin:
    """Authorization requests that the client signed, and answers that this service signs."""

    requires = (RESOLVER, TOKENS)

    def __init__(self) -> None:
        self._own: RequestKeys | None = None

    @hookimpl
    def settings(self) -> Sequence[Reads]:
        return [Reads("oauth", JwksSettings)]

    @hookimpl
    def extensions(self, host: Host) -> Sequence[Extension[Any]]:
        allow_private = host.settings(JwksSettings).allow_private_jwks_hosts
        keys = RemoteKeys(host.service(RESOLVER), host.clock, allow_private=allow_private)
        return [RequestObjects(host, keys, self._keys(host)), SignedAnswers(host.clock, host.service(TOKENS)), EncryptedAnswers(keys)]

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        def more() -> dict[str, object]:
            """CIBA Core s4, where that is offered."""
            return {f"{BACKCHANNEL}_values_supported": [*ALGORITHMS]} if CIBA in host.components(Grant) else {}

        def keys() -> Mapping[str, object]:
            return {"keys": self._keys(host).published()}

        return [
            Discovery("oauth", lambda: members() | more()),
            Discovery("openid", lambda: openid_members() | more()),
            Discovery("jwks", keys),
        ]

    @hookimpl
    def audit_events(self) -> Sequence[EventType]:
        return [
            EventType("request_key_made", "idp", "A key was made to which clients encrypt their requests; detail has its kid."),
            EventType("request_key_deleted", "idp", "Such a key was deleted, a while after a newer one was made."),
        ]

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[None]:
            await self._keys(host).look()
            yield

        return [Lifespan(name="jar", open=opened, placement=Placement.NODE)]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return [Job(name="jar-keys", every=LOOK, run=self._keys(host).look, placement=Placement.CLUSTER, jitter=600.0)]

    def _keys(self, host: Host) -> RequestKeys:
        if self._own is None:
            self._own = RequestKeys(host)
        return self._own


def openid_members() -> dict[str, object]:
    """The same, with what the OpenID document alone has."""
    return members() | encryption("id_token", "userinfo")


def encryption(*kinds: str) -> dict[str, object]:
    """What encrypts these kinds of answers (OpenID Connect Discovery s3, JARM s4, RFC 9701 s7)."""
    offered = {"alg": ENCRYPTION_ALGORITHMS, "enc": ENCRYPTIONS}
    return {f"{kind}_encryption_{what}_values_supported": [*values] for kind in kinds for what, values in offered.items()}


def members() -> dict[str, object]:
    """What the discovery documents say of it (RFC 9101 s10.5, OpenID Connect Discovery s3, JARM s4)."""
    return {
        "request_object_signing_alg_values_supported": [*ALGORITHMS],
        "request_object_encryption_alg_values_supported": [*TRANSPORTS, *AGREEMENTS],
        "request_object_encryption_enc_values_supported": [*DECRYPTIONS],
        "require_signed_request_object": False,
        "authorization_signing_alg_values_supported": [*SIGNING_ALGORITHMS],
        **encryption("authorization", "introspection"),
    }
