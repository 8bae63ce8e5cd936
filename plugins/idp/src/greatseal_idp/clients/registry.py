"""The client registry (service ``CLIENTS``): rows of ``idp_client``, from a cache, and the clients of every resolver."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import orjson
from sqlalchemy import select, tuple_

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Also, Client, ClientResolver, InvalidClientMetadata, Registered, Registration, StoredSecret
from greatseal.api.declarations import Secret
from greatseal.api.problems import Conflict
from greatseal.api.store import Row, Tx, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t
from greatseal_idp.clients.authentication import ClientAuthentication, is_client_id
from greatseal_idp.clients.fields import Fields
from greatseal_idp.clients.principals import Principals
from greatseal_idp.clients.secrets import ClientSecrets
from greatseal_idp.clients.validation import Rules, check_scopes, derived_grant_types, open_scopes
from greatseal_idp.extensions import Extensions
from greatseal_idp.proofs import Proofs
from greatseal_idp.scopes import Scopes

UPDATE_TRIES = 5
ROWS = 256
"""Rows whose client is remembered beside them: each code reads its client's again."""

_BY_ID = select(t.client).where(t.client.c.client_id == param("client_id"))
_LISTED = (
    select(t.client)
    .where(tuple_(t.client.c.created_at, t.client.c.client_id) > tuple_(param("moment"), param("last")))
    .order_by(t.client.c.created_at, t.client.c.client_id)
    .limit(param("wanted"))
)
Ends = Callable[[Tx, str], object]
"""What ends with a client, in the transaction of its deletion."""


class Registry:
    """The clients. A read of a known client costs no SQL; a change is seen by the next read."""

    def __init__(self, host: Host, scopes: Scopes, proofs: Proofs, extensions: Extensions, *, ends: Sequence[Ends] = ()) -> None:
        self._host = host
        self._scopes = scopes
        self._ends = tuple(ends)
        self._extensions = extensions
        self.fields = Fields(host)
        self._rules = Rules(host, self.fields, proofs, extensions)
        self._registered = lru_cache(ROWS)(lambda row: self._completed(_client_of(row)))
        self._cache = host.changes.cache(t.CLIENT.name, self._load)
        self.authenticate = ClientAuthentication(host, self).authenticate
        self.secrets = ClientSecrets(host)
        self._principals = Principals(host)

    async def get(self, client_id: str) -> Client | None:
        """See :meth:`greatseal.api.clients.Clients.get`."""
        if not is_client_id(client_id):
            return None
        client = await self._cache.get(client_id)
        if client is not None:
            return client
        for resolver in self._host.components(ClientResolver).values():
            if (resolved := await resolver.resolve(client_id)) is not None:
                return self._completed(resolved)
        return None

    async def of_principal(self, principal: str) -> Sequence[Client]:
        """See :meth:`greatseal.api.clients.Clients.of_principal`."""
        found = [await self._read(client_id) for client_id in await self._principals.clients_of(principal)]
        return [client for client in found if client is not None]

    def secret(self, client: Client) -> Secret:
        """See :meth:`greatseal.api.clients.Clients.secret`."""
        return self.secrets.open(client)

    async def listed(self, after: tuple[int, str], wanted: int) -> list[Client]:
        """At most ``wanted`` registered clients, oldest first, that come after a moment of creation and a client id."""
        return [self._completed(client) for client in await self._host.db.read(_listed, after, wanted)]

    async def register_body(self, body: Mapping[str, Any], *, open: bool, by: str, also: Also | None = None) -> Registered:
        """See :meth:`greatseal.api.clients.Clients.register_body`."""
        asked = await self._opened(self.fields.open_registration(body)) if open else self.fields.registration(body)
        return await self._register(asked, by, also)

    async def register(self, registration: Registration, *, by: str) -> Registered:
        """See :meth:`greatseal.api.clients.Clients.register`."""
        return await self._register(registration, by, None)

    async def read_body(self, client_id: str, body: Mapping[str, Any], *, source: str) -> Client:
        """See :meth:`greatseal.api.clients.Clients.read_body`."""
        asked = await self._opened(self.fields.open_registration(body))
        client = msgspec.structs.replace(asked.client, client_id=client_id, source=source)
        return self._rules.check(msgspec.structs.replace(asked, client=client))

    async def _opened(self, registration: Registration, has: Sequence[str] = ()) -> Registration:
        """An open registration with the scopes that it may have; ``has`` are those of the client now."""
        scopes = open_scopes(registration.client.scopes, await self._scopes.all(), has)
        return msgspec.structs.replace(registration, client=msgspec.structs.replace(registration.client, scopes=scopes))

    async def _register(self, registration: Registration, by: str, also: Also | None) -> Registered:
        """The client's id is made here."""
        check_scopes(registration.client.scopes, await self._scopes.all(), open=registration.open)
        client_id = self._host.handles.new_id()
        source = "dynamic" if registration.open else "admin"
        asked = msgspec.structs.replace(registration.client, client_id=client_id, secret=None, source=source)
        client = self._rules.check(msgspec.structs.replace(registration, client=asked))
        client, secret = await self._with_secret(client, registration)
        event = AuditEvent(
            event_type="client_registered" if registration.open else "client_created", service="idp", sub=by, client_id=client_id
        )
        await self._host.db.write(_store, None, client, event, also)
        return Registered(client=await self._read(client_id) or client, client_secret=secret)

    async def update(self, client_id: str, body: Mapping[str, Any], *, by: str) -> Client | None:
        """See :meth:`greatseal.api.clients.Clients.update`."""
        if not is_client_id(client_id):
            return None
        event = AuditEvent(event_type="client_updated", service="idp", sub=by, client_id=client_id)
        for _ in range(UPDATE_TRIES):
            before = await self._host.db.read(_load_raw, client_id)
            if before is None:
                return None
            asked = self.fields.registration(body, before)
            # A scope that was deleted meanwhile stands in the way of no other change.
            check_scopes(asked.client.scopes, {*before.scopes, *await self._scopes.all()})
            client, _ = await self._with_secret(self._rules.check(asked), asked)
            if await self._host.db.write(_store, before, client, event):
                return await self._read(client_id)
        raise _changing()

    async def replace_body(self, client_id: str, body: Mapping[str, Any], *, by: str, also: Also | None = None) -> Registered | None:
        """See :meth:`greatseal.api.clients.Clients.replace_body`."""
        event = AuditEvent(event_type="client_updated", service="idp", sub=by, client_id=client_id)
        for _ in range(UPDATE_TRIES):
            before = await self._host.db.read(_load_raw, client_id)
            if before is None:
                return None
            client, secret = await self._replaced(before, body)
            if await self._host.db.write(_store, before, client, event, also):
                return Registered(client=await self._read(client_id) or client, client_secret=secret)
        raise _changing()

    async def _replaced(self, before: Client, body: Mapping[str, Any]) -> tuple[Client, Secret | None]:
        asked = await self._opened(self.fields.replacement(body, before), before.scopes)
        if asked.client_secret is not None:
            if not await self.secrets.is_of(before, asked.client_secret):
                raise InvalidClientMetadata("client_secret: expected the one that the client has (RFC 7592 s2.2)")
            asked = msgspec.structs.replace(asked, client_secret=None)
        asked = self._rules.without_lost_secret(asked)
        return await self._with_secret(self._rules.check(asked), asked)

    async def delete(self, client_id: str, *, by: str, also: Also | None = None) -> bool:
        """See :meth:`greatseal.api.clients.Clients.delete`."""
        return is_client_id(client_id) and await self._host.db.write(_delete, client_id, by, self._ends, also)

    def as_stored(self, tx: Tx, client: Client) -> Client | None:
        """What a transaction sees of a client that was read before; None when it was deleted. One of a resolver is no row, and stays."""
        return self._load(tx, client.client_id) if client.created_at else client

    def _load(self, tx: Tx, client_id: str) -> Client | None:
        row = tx.one(_BY_ID, client_id=client_id)
        return None if row is None else self._registered(row)

    def _completed(self, client: Client) -> Client:
        """A client as it is in force."""
        known = msgspec.structs.replace(self.fields.understood(client), grant_types=derived_grant_types(client))
        return self._extensions.complete(known)

    async def _read(self, client_id: str) -> Client | None:
        return await self._cache.get(client_id)

    async def _with_secret(self, client: Client, registration: Registration) -> tuple[Client, Secret | None]:
        """The record with the secret as it is stored, and the secret that the answer shows."""
        form = self._rules.method(client.token_endpoint_auth_method).secret_form
        chosen = registration.client_secret
        if form is None or (chosen is None and client.secret is not None):
            return client, None
        secret = chosen or self.secrets.generate()
        stored = await self.secrets.keep(client.client_id, secret, form, generated=chosen is None)
        return msgspec.structs.replace(client, secret=stored), secret


def _load_raw(tx: Tx, client_id: str) -> Client | None:
    row = tx.one(_BY_ID, client_id=client_id)
    return None if row is None else _client_of(row)


@scan
def _listed(tx: Tx, after: tuple[int, str], wanted: int) -> list[Client]:
    return [_client_of(row) for row in tx.all(_LISTED, moment=after[0], last=after[1], wanted=wanted)]


def _changing() -> Conflict:
    return Conflict("the client was changed by others at the same time; try again")


def _store(tx: Tx, before: Client | None, client: Client, event: AuditEvent, also: Also | None = None) -> bool:
    """Write the record; False, and nothing done, when it is not ``before`` any more."""
    if before is not None and _load_raw(tx, client.client_id) != before:
        return False
    created_at = tx.now if before is None else before.created_at
    tx.put(t.CLIENT, client.client_id, **_columns(client), created_at=created_at, updated_at=tx.now)
    if also is not None:
        also(tx, client.client_id)
    tx.audit(event)
    return True


def _delete(tx: Tx, client_id: str, by: str, ends: Sequence[Ends], also: Also | None = None) -> bool:
    if tx.one(_BY_ID, client_id=client_id) is None:
        return False
    tx.remove(t.CLIENT, client_id)
    if also is not None:
        also(tx, client_id)
    for end in ends:
        end(tx, client_id)
    tx.audit(AuditEvent(event_type="client_deleted", service="idp", sub=by, client_id=client_id))
    return True


def _columns(client: Client) -> dict[str, Any]:
    secret = client.secret
    sealed = secret is not None and secret.form == "sealed"
    return {
        "client_name": client.client_name,
        "token_endpoint_auth_method": client.token_endpoint_auth_method,
        "redirect_uris": _text(client.redirect_uris),
        "scopes": _text(client.scopes),
        "grant_types": _text(client.grant_types),
        "secret_form": secret and secret.form,
        "secret_digest": secret.value if secret is not None and not sealed else None,
        "secret_sealed": secret.value if secret is not None and sealed else None,
        "secret_length": secret and secret.length,
        "jwks_uri": client.jwks_uri,
        "jwks": None if client.jwks is None else _text(client.jwks),
        "tls_client_certificate_sha256": client.tls_client_certificate_sha256,
        "kerberos_principal": client.kerberos_principal,
        "kerberos_principal_pattern": client.kerberos_principal_pattern,
        "kerberos_hbac_service": client.kerberos_hbac_service,
        "spiffe_id": client.spiffe_id,
        "workload_type": client.workload_type,
        "allow_token_exchange_actor": int(client.allow_token_exchange_actor),
        "source": client.source,
        "more": _text(client.more),
    }


def _client_of(row: Row) -> Client:
    value = row.secret_digest if row.secret_sealed is None else row.secret_sealed
    secret = None if value is None else StoredSecret(form=row.secret_form, value=bytes(value), length=row.secret_length)
    return Client(
        client_id=row.client_id,
        token_endpoint_auth_method=row.token_endpoint_auth_method,
        client_name=row.client_name,
        redirect_uris=tuple(orjson.loads(row.redirect_uris)),
        scopes=tuple(orjson.loads(row.scopes)),
        grant_types=tuple(orjson.loads(row.grant_types)),
        secret=secret,
        jwks_uri=row.jwks_uri,
        jwks=None if row.jwks is None else orjson.loads(row.jwks),
        tls_client_certificate_sha256=row.tls_client_certificate_sha256,
        kerberos_principal=row.kerberos_principal,
        kerberos_principal_pattern=row.kerberos_principal_pattern,
        kerberos_hbac_service=row.kerberos_hbac_service,
        spiffe_id=row.spiffe_id,
        workload_type=row.workload_type,
        allow_token_exchange_actor=bool(row.allow_token_exchange_actor),
        source=row.source,
        created_at=row.created_at,
        updated_at=row.updated_at,
        more=orjson.loads(row.more),
    )


def _text(value: object) -> str:
    return orjson.dumps(value).decode()
