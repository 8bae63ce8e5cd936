"""The metadata documents (RFC 8414, RFC 9728, OpenID Connect Discovery s3) and the key set, as bytes that change with what they say."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
import orjson

from greatseal.api.clients import ClientAuthMethod
from greatseal.api.http import Call, Reply, Route
from greatseal.api.tokens import ClaimsProvider, Grant
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.extensions import PROMPTS, Extensions
from greatseal_idp.scopes import Scopes
from greatseal_idp.signing import Signing

Document = Literal["oauth", "openid", "resource"]
WELL_KNOWN: Mapping[str, Document] = {
    "/.well-known/openid-configuration": "openid",
    "/.well-known/oauth-authorization-server": "oauth",
    "/.well-known/oauth-protected-resource": "resource",
}
_COMMON = (
    "issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "revocation_endpoint", "introspection_endpoint",
    "pushed_authorization_request_endpoint", "require_pushed_authorization_requests", "scopes_supported", "response_types_supported",
    "response_modes_supported", "grant_types_supported", "token_endpoint_auth_methods_supported",
    "revocation_endpoint_auth_methods_supported", "introspection_signing_alg_values_supported",
    "introspection_endpoint_auth_methods_supported", "code_challenge_methods_supported", "authorization_response_iss_parameter_supported",
)  # fmt: skip
_OPENID = (
    "userinfo_endpoint", "end_session_endpoint", "backchannel_logout_supported", "backchannel_logout_session_supported",
    "frontchannel_logout_supported", "frontchannel_logout_session_supported",
    "subject_types_supported", "id_token_signing_alg_values_supported", "userinfo_signing_alg_values_supported", "claims_supported",
    "claim_types_supported", "claims_parameter_supported", "request_parameter_supported", "request_uri_parameter_supported",
    "prompt_values_supported", "acr_values_supported", "ui_locales_supported",
)  # fmt: skip
_RESOURCE = ("resource", "resource_name", "authorization_servers", "jwks_uri", "scopes_supported", "bearer_methods_supported")
MEMBERS: Mapping[Document, Mapping[str, object]] = {
    "oauth": dict.fromkeys(_COMMON),
    "openid": dict.fromkeys(_COMMON + _OPENID),
    "resource": dict.fromkeys(_RESOURCE),
}
"""The members that are this plugin's: declared, so that a start refuses a second owner, and filled in when a document is built."""
METADATA_SECONDS = 3600
JWKS_SECONDS = 300


class _Document(msgspec.Struct, frozen=True):
    """A body with its entity tag, and the answer that carries it."""

    body: bytes
    etag: str
    reply: Reply

    @classmethod
    def of(cls, body: bytes, seconds: int) -> "_Document":
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = (("ETag", etag), ("Cache-Control", f"public, max-age={seconds}"))
        return cls(body, etag, Reply(body=body, content_type="application/json", headers=headers))

    def answer(self, call: Call) -> Reply:
        """304 for who has it already (RFC 9110 s13.1.2)."""
        known = call.headers.get("If-None-Match")
        if known is not None and (known == "*" or self.etag in (tag.strip().removeprefix("W/") for tag in known.split(","))):
            return Reply(status=304, headers=self.reply.headers)
        return self.reply


class DiscoveryDocuments:
    """Both documents and /jwks."""

    def __init__(
        self, host: Host, scopes: Scopes, signing: Signing, extensions: Extensions, *, display_name: str, acr_values: Sequence[str]
    ) -> None:
        self._host = host
        self._acr_values = list(acr_values)
        self._scopes = scopes
        self._signing = signing
        self._extensions = extensions
        self._display_name = display_name
        self._built: dict[Document, _Document] = {}
        self._changes = 0
        self._signed_by = b""
        self._others: object = None
        self._jwks: _Document | None = None
        host.changes.subscribe("jwks", self._forget_keys)
        for kind in (t.SCOPE.name, *MEMBERS):
            host.changes.subscribe(kind, self._forget)

    def routes(self) -> list[Route]:
        """The documents under the root, and where RFC 8414 s3.1 puts them for an issuer with a path."""
        found: Mapping[Document, tuple[str, Callable[[Call], Awaitable[Reply]]]] = {
            "openid": ("OpenID provider metadata.", self.openid),
            "oauth": ("Authorization server metadata (RFC 8414).", self.oauth),
            "resource": ("What the APIs of this issuer take (RFC 9728).", self.resource),
        }
        routes = [Route("GET", "/jwks", self.jwks, cors=True, summary="The public keys that verify tokens (RFC 7517).")]
        suffix = urlsplit(self._host.issuer).path
        for path, document in WELL_KNOWN.items():
            summary, handler = found[document]
            routes += [Route("GET", at, handler, cors=True, summary=summary) for at in dict.fromkeys((path, path + suffix))]
        return routes

    async def openid(self, call: Call) -> Reply:
        """GET /.well-known/openid-configuration."""
        return (await self._document("openid")).answer(call)

    async def oauth(self, call: Call) -> Reply:
        """GET /.well-known/oauth-authorization-server."""
        return (await self._document("oauth")).answer(call)

    async def resource(self, call: Call) -> Reply:
        """GET /.well-known/oauth-protected-resource."""
        return (await self._document("resource")).answer(call)

    async def jwks(self, call: Call) -> Reply:
        """GET /jwks."""
        body, others = self._signing.jwks(), self._host.discovery("jwks").get("keys")
        if self._jwks is None or body is not self._signed_by or others != self._others:
            self._signed_by, self._others, self._jwks = body, others, _Document.of(_with(body, others), JWKS_SECONDS)
        return self._jwks.answer(call)

    async def members(self, document: Document) -> dict[str, Any]:
        """The members of a document as they are now; one without a value is left out."""
        if document == "resource":
            return {**self._host.discovery(document), **await self._resource()}
        own = {**await self._common(), **(await self._openid() if document == "openid" else {})}
        members = {**self._host.discovery(document), **own}
        algorithms = members.get("token_endpoint_auth_signing_alg_values_supported")
        for endpoint in ("revocation", "introspection"):  # RFC 8414 s2: they authenticate clients as the token endpoint does
            members.setdefault(f"{endpoint}_endpoint_auth_signing_alg_values_supported", algorithms)
        return {name: value for name, value in members.items() if value not in ([], (), None)}

    async def document(self, name: Literal["openid", "oauth"]) -> Mapping[str, Any]:
        """See :meth:`greatseal.api.services.Metadata.document`."""
        return await self.members(name)

    def key_set(self) -> Mapping[str, Any]:
        """See :meth:`greatseal.api.services.Metadata.key_set`."""
        found: dict[str, Any] = orjson.loads(_with(self._signing.jwks(), self._host.discovery("jwks").get("keys")))
        return found

    async def _document(self, document: Document) -> _Document:
        built = self._built.get(document)
        while built is None:
            changes = self._changes
            built = _Document.of(orjson.dumps(await self.members(document)), METADATA_SECONDS)
            if changes == self._changes:
                self._built[document] = built
            else:
                built = None
        return built

    async def _common(self) -> dict[str, Any]:
        issuer = self._host.issuer
        methods = list(self._host.components(ClientAuthMethod))
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/jwks",
            "revocation_endpoint": f"{issuer}/revoke",
            "introspection_endpoint": f"{issuer}/introspect",
            "pushed_authorization_request_endpoint": f"{issuer}/par",
            "require_pushed_authorization_requests": False,
            "scopes_supported": list(await self._scopes.all()),
            "response_types_supported": ["code"],
            "response_modes_supported": list(self._extensions.modes),
            "grant_types_supported": list(self._host.components(Grant)),
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "introspection_signing_alg_values_supported": self._signing.algorithms,
            "introspection_endpoint_auth_methods_supported": [method for method in methods if method != "none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    async def _openid(self) -> dict[str, Any]:
        issuer = self._host.issuer
        return {
            "userinfo_endpoint": f"{issuer}/userinfo",
            "end_session_endpoint": f"{issuer}/logout",
            "backchannel_logout_supported": True,
            "backchannel_logout_session_supported": True,
            "frontchannel_logout_supported": True,
            "frontchannel_logout_session_supported": True,
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": self._signing.algorithms,
            "userinfo_signing_alg_values_supported": self._signing.algorithms,
            "claims_supported": await self._claims(),
            "claim_types_supported": ["normal"],
            "claims_parameter_supported": True,
            "request_parameter_supported": "request" in self._extensions.openers,
            "request_uri_parameter_supported": False,
            "prompt_values_supported": [*PROMPTS, *self._extensions.prompts],
            "acr_values_supported": self._acr_values,
            "ui_locales_supported": list(self._host.languages.offered),
        }

    async def _resource(self) -> dict[str, Any]:
        """What the issuer is as a protected resource: UserInfo, and every API with the rule Bearer (RFC 9728 s2)."""
        issuer = self._host.issuer
        return {
            "resource": issuer,
            "resource_name": self._display_name,
            "authorization_servers": [issuer],
            "jwks_uri": f"{issuer}/jwks",
            "scopes_supported": list(await self._scopes.all()),
            "bearer_methods_supported": ["header", "body"],
        }

    async def _claims(self) -> list[str]:
        """The claims of every token, and of the scopes those that a provider may give."""
        given = {claim for provider in self._host.components(ClaimsProvider).values() for claim in provider.claims}
        of_scopes = [claim for scope in (await self._scopes.all()).values() for claim in scope.claims if claim in given]
        return list(dict.fromkeys(("sub", "iss", "auth_time", "acr", "amr", "sid", *of_scopes)))

    def _forget_keys(self, _id: str) -> None:
        self._jwks = None

    def _forget(self, _id: str) -> None:
        self._changes += 1
        self._built.clear()


def _with(body: bytes, others: object) -> bytes:
    """The key set with the keys of other plugins, such as those that decrypt request objects."""
    return orjson.dumps({"keys": [*orjson.loads(body)["keys"], *others]}) if isinstance(others, list) else body
