"""Request objects, signed authorization responses, and encryption of what is signed for a client."""

from collections.abc import Mapping, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.authorization import Extension
from greatseal.api.declarations import Reads
from greatseal.api.http import Discovery
from greatseal.api.services import RESOLVER, TOKENS
from greatseal.host import Host
from greatseal.jose.compact import ALGORITHMS
from greatseal.net import RemoteKeys
from greatseal_jar.answers import SIGNING_ALGORITHMS, SignedAnswers
from greatseal_jar.encryption import ALGORITHMS as ENCRYPTION_ALGORITHMS
from greatseal_jar.encryption import ENCRYPTIONS, EncryptedAnswers
from greatseal_jar.objects import RequestObjects
from greatseal_jar.settings import JwksSettings


class Plugin:
    """Authorization requests that the client signed, and answers that this service signs."""

    requires = (RESOLVER, TOKENS)

    @hookimpl
    def settings(self) -> Sequence[Reads]:
        return [Reads("oauth", JwksSettings)]

    @hookimpl
    def extensions(self, host: Host) -> Sequence[Extension[Any]]:
        allow_private = host.settings(JwksSettings).allow_private_jwks_hosts
        keys = RemoteKeys(host.service(RESOLVER), host.clock, allow_private=allow_private)
        return [RequestObjects(host, keys), SignedAnswers(host.clock, host.service(TOKENS)), EncryptedAnswers(keys)]

    @hookimpl
    def discovery(self) -> Sequence[Discovery]:
        return [Discovery("oauth", members), Discovery("openid", openid_members)]


def openid_members() -> Mapping[str, object]:
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
        "require_signed_request_object": False,
        "authorization_signing_alg_values_supported": [*SIGNING_ALGORITHMS],
        **encryption("authorization", "introspection"),
    }
