"""Clients whose id is the https URL of what they say of themselves (OAuth Client ID Metadata Document)."""

import asyncio
import re
import ssl
from collections import OrderedDict
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from greatseal.api.clients import Client, ClientAuthMethod, ClientResolver, Clients, InvalidClientMetadata
from greatseal.api.problems import Outbound, Unavailable
from greatseal.host import Host
from greatseal.jose.strict import decode_object
from greatseal.net import AddressPolicy, Fetched, NameResolver, fetch
from greatseal_registration.bodies import completed
from greatseal_registration.settings import Registration

V = TypeVar("V")

SOURCE = "document"
# Sections of draft 02.
RULE = "(OAuth Client ID Metadata Document s4)"
PUBLIC = "(OAuth Client ID Metadata Document s4.1)"
LARGEST = 5 * 1024  # s8.7
FETCH_SECONDS = 5.0
KEPT_SECONDS, LONGEST_KEPT, LEAST_KEPT = 300, 86_400, 60
"""Seconds that a document is kept without a word about it, and with one at most and at least."""
MOST = 1000
"""Documents that are kept."""
PER_HOST, EVERYBODY, WINDOW = 30, 300, 60.0
"""Documents that are fetched from one host, and from all together, in so many seconds: anybody may name any."""
KNOWN, PER_URL = 20_000, 10
"""URLs that had a document, and how often each is fetched in a window: whoever names others takes nothing from their clients."""

_URL = re.compile(r"https://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(:[0-9]{1,5})?(/[!$&-;=@-Z_a-z~%]*)(\?[!$&-;=?@-Z_a-z~%]*)?")
_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE)
_MAX_AGE = re.compile(r"(?:^|,)\s*max-age=([0-9]{1,9})\s*(?:,|$)")


class _Kept(msgspec.Struct):
    until: float
    client: Client


class MetadataDocuments(ClientResolver):
    """Fetches a document once, guarded, and keeps the client that it describes for a while. Errors are not kept."""

    name = "metadata-documents"

    def __init__(self, host: Host, clients: Clients, resolver: NameResolver, settings: Registration) -> None:
        self._host = host
        self._clients = clients
        self._resolver = resolver
        self._settings = settings
        self._policy = AddressPolicy(allow_private=settings.allow_private_client_id_hosts)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._tls: ssl.SSLContext | None = None

    async def resolve(self, client_id: str) -> Client | None:
        if (host := host_of(client_id)) is None:
            return None
        if self._settings.client_id_hosts and host not in self._settings.client_id_hosts:
            return None
        lock = self._locks.setdefault(client_id, asyncio.Lock())
        try:
            async with lock:
                kept = self._kept.get(client_id)
                if kept is None or self._host.clock.monotonic() >= kept.until:
                    self._kept.pop(client_id, None)
                    return await self._read(client_id, host)
                self._kept.move_to_end(client_id)
                return kept.client
        finally:
            if not lock.locked():
                self._locks.pop(client_id, None)

    async def _read(self, client_id: str, host: str) -> Client | None:
        answer = await self._fetch(client_id, host)
        if answer.status != 200:
            self._host.log.warning("a client has no metadata document", client_id=client_id, status=answer.status)
            return None
        client = await self._clients.read_body(client_id, completed(self._members(client_id, answer.body), self._settings), source=SOURCE)
        until = self._host.clock.monotonic() + kept_seconds(answer.headers.get("Cache-Control", ""))
        _keep(self._kept, client_id, _Kept(until, client), MOST)
        _keep(self._known, client_id, None, KNOWN)
        return client

    def _members(self, client_id: str, body: bytes) -> dict[str, Any]:
        """The members of a document that may be one. Raises InvalidClientMetadata."""
        try:
            members = decode_object(body)
        except ValueError as error:
            raise InvalidClientMetadata(f"the document of client_id is no JSON object {RULE}", cause=str(error)) from None
        if members.get("client_id") != client_id:
            raise InvalidClientMetadata(f"the document of client_id has another client_id than its URL {RULE}")
        if given := sorted({"client_secret", "client_secret_expires_at"}.intersection(members)):
            raise InvalidClientMetadata(f"the document of client_id must not have {given[0]}: everybody can read it {PUBLIC}")
        method = members.setdefault("token_endpoint_auth_method", "none")
        found = self._host.components(ClientAuthMethod).get(method) if isinstance(method, str) else None
        if found is not None and found.secret_form is not None:
            raise InvalidClientMetadata(f"token_endpoint_auth_method: metadata that everybody can read has no shared secret {PUBLIC}")
        return members

    async def _fetch(self, client_id: str, host: str) -> Fetched:
        for key, limit in ((client_id, PER_URL),) if client_id in self._known else ((host, PER_HOST), ("*", EVERYBODY)):
            wait = self._host.limits.hit("client-id-document", key, limit, WINDOW)
            if wait is not None:
                raise Unavailable("too many clients are looked up at the moment", cause=f"documents of {key}", retry_after=wait)
        if self._tls is None:  # reading the machine's CAs takes 20 ms
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        try:
            return await fetch(
                client_id,
                resolver=self._resolver,
                policy=self._policy,
                redirects=0,
                seconds=FETCH_SECONDS,
                max_body=LARGEST,
                tls=self._tls,
                headers={"Accept": "application/json"},
            )
        except Outbound as error:
            raise Unavailable("the metadata document of the client cannot be read now", cause=str(error)) from None


def _keep(where: OrderedDict[str, V], client_id: str, value: V, most: int) -> None:
    """As the latest of so many."""
    where[client_id] = value
    where.move_to_end(client_id)
    while len(where) > most:
        where.popitem(last=False)


def host_of(client_id: str) -> str | None:
    """The host of a URL that may be the id of a client, with its port; None for what is none: https with a path, and nothing odd."""
    found = _URL.fullmatch(client_id)
    if found is None or len(found[3]) < 2 or _DOTS.search(found[3]):
        return None
    return urlsplit(client_id).netloc


def kept_seconds(cache_control: str) -> int:
    """How long a document is kept that came with this header (RFC 9111 s5.2)."""
    said = cache_control.lower()
    if "no-store" in said or "no-cache" in said:
        return LEAST_KEPT
    found = _MAX_AGE.search(said)
    return KEPT_SECONDS if found is None else min(max(int(found[1]), LEAST_KEPT), LONGEST_KEPT)
