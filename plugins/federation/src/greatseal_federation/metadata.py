"""What a provider says of itself (OpenID Connect Discovery s4, RFC 8414): asked for when it is needed, and kept for an hour."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from greatseal.api.problems import Unavailable
from greatseal.host import Host
from greatseal.net import excerpt
from greatseal_federation.refusals import Untrusted
from greatseal_federation.settings import check_url, is_loopback
from greatseal_federation.upstreams import TENANT, Upstream
from greatseal_federation.wire import SILENT, Wire

FRESH_SECONDS = 3600.0
"""How long metadata is used without being asked for again."""
STALE_SECONDS = 86_400.0
"""How long it is used when the provider does not give it again."""
FAILED_SECONDS = 5.0
"""How long a provider that failed is left alone."""
WELL_KNOWN = "/.well-known/openid-configuration"


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What this service needs of it. ``issuer`` may hold :data:`~greatseal_federation.upstreams.TENANT`."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    userinfo_endpoint: str | None = None
    emails_endpoint: str | None = None
    jwks_uri: str | None = None
    end_session_endpoint: str | None = None
    pushed_authorization_request_endpoint: str | None = None
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    """What holds when it says nothing (OpenID Connect Discovery s3)."""


class _Kept(msgspec.Struct, frozen=True):
    upstream: Upstream
    fetched: float
    metadata: Metadata


class _Failed(msgspec.Struct, frozen=True):
    at: float
    problem: Unavailable | Untrusted


class MetadataStore:
    """The metadata of every provider, by its id."""

    def __init__(self, host: Host, wire: Wire) -> None:
        self._host = host
        self._wire = wire
        self._kept: dict[str, _Kept] = {}
        self._failed: dict[str, _Failed] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, upstream: Upstream) -> Metadata:
        """Raises Unavailable when it cannot be had, Untrusted when it is not what the configuration says."""
        if not upstream.discovers:
            return read(upstream, {})
        async with self._locks.setdefault(upstream.id, asyncio.Lock()):
            kept = self._kept.get(upstream.id)
            if kept is not None and kept.upstream != upstream:  # one of a directory was changed there
                kept = None
            age = None if kept is None else self._host.clock.monotonic() - kept.fetched
            if kept is not None and age is not None and age < FRESH_SECONDS:
                return kept.metadata
            try:
                metadata = await self._fetched(upstream)
            except (Unavailable, Untrusted) as problem:
                if kept is None or age is None or age >= STALE_SECONDS:
                    raise
                self._host.log.warning(
                    "metadata of a provider cannot be read; that of before is used", upstream=upstream.id, cause=problem.cause
                )
                return kept.metadata
            self._kept[upstream.id] = _Kept(upstream, self._host.clock.monotonic(), metadata)
            return metadata

    def forget(self, id: str) -> None:
        """Ask this provider again."""
        self._kept.pop(id, None)
        self._failed.pop(id, None)

    async def _fetched(self, upstream: Upstream) -> Metadata:
        failed = self._failed.get(upstream.id)
        if failed is not None and self._host.clock.monotonic() - failed.at < FAILED_SECONDS:
            raise failed.problem
        url = upstream.issuer.rstrip("/") + WELL_KNOWN
        try:
            return read(upstream, await self._wire.object(upstream, url))
        except (Unavailable, Untrusted) as problem:
            kind = Unavailable(SILENT, cause=problem.cause) if isinstance(problem, Unavailable) else Untrusted(problem.cause)
            self._failed[upstream.id] = _Failed(self._host.clock.monotonic(), kind)
            raise


def read(upstream: Upstream, document: Mapping[str, Any]) -> Metadata:
    """What the document says, but for what the configuration does. Raises Untrusted."""
    members: dict[str, Any] = {
        "issuer": upstream.issuer,
        **{name: document[name] for name in Metadata.__struct_fields__ if document.get(name) is not None},
        **{str(name): url for name, url in upstream.endpoints.items()},
    }
    try:
        found = msgspec.convert(members, Metadata)
    except msgspec.ValidationError as error:
        raise Untrusted(f"the metadata of {upstream.issuer}: {error}") from None
    _check_issuer(upstream, found.issuer)
    plain = is_loopback(upstream.issuer) and upstream.issuer.startswith("http:")
    for name, url in members.items():
        if not (name.endswith("_endpoint") or name == "jwks_uri"):
            continue
        try:
            check_url(name, url, query=True)
        except ValueError as error:
            raise Untrusted(f"the metadata of {upstream.issuer}: {error}") from None
        if url.startswith("http:") and not plain:
            raise Untrusted(f"the metadata of {upstream.issuer}: {name} is not https")
    if upstream.protocol == "openid" and found.jwks_uri is None:
        raise Untrusted(f"the metadata of {upstream.issuer} has no jwks_uri")
    return found


def _check_issuer(upstream: Upstream, issuer: str) -> None:
    """That of the configuration, to the letter (OpenID Connect Discovery s4.3), or one for all tenants where some were named."""
    if issuer == upstream.issuer:
        return
    if upstream.tenant_claim is None or TENANT not in issuer or urlsplit(issuer)[:2] != urlsplit(upstream.issuer)[:2]:
        raise Untrusted(
            f"the metadata says that its issuer is {excerpt(issuer)}, and the configuration that it is {excerpt(upstream.issuer)}"
        )
    if not upstream.tenants:
        raise Untrusted(f"the issuer {excerpt(issuer)} is that of many tenants: name those whose people may sign in, by `tenants`")
