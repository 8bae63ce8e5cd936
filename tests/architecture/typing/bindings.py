"""EAB account creation as an operation of the node that may consume the key, and a client edit through a Collection.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256

import msgspec
from sqlalchemy import Column, MetaData, select

from greatseal.api.acme import AccountBinding, Binding, BindingRequest, Unauthorized
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.store import Refuse, Tx, operation
from greatseal.db.tables import Collection, Document, Id, Moment, State, Text, insert_new, param, table
from greatseal.host import Handles

metadata = MetaData()

eab_key = table(
    "eab_key",
    metadata,
    State.REPLICATED,
    Column("kid", Id, primary_key=True),
    Column("hmac_key", Text, nullable=False),
    Column("profile_grants", Document),
    Column("kerberos_principal", Text),
    Column("used_at", Moment),
)
eab_use = table("eab_use", metadata, State.OWNED, Column("kid", Id, primary_key=True), Column("used_at", Moment, nullable=False))
acme_account = table(
    "acme_account",
    metadata,
    State.REPLICATED,
    Column("id", Id, primary_key=True),
    Column("thumbprint", Text, nullable=False),
    Column("binding", Document),
)
idp_client = table(
    "idp_client",
    metadata,
    State.REPLICATED,
    Column("client_id", Id, primary_key=True),
    Column("client_name", Text, nullable=False),
    Column("redirect_uris", Document, nullable=False),
)

EAB_KEYS = Collection("eab_keys", eab_key)
ACCOUNTS = Collection("accounts", acme_account)
CLIENTS = Collection("clients", idp_client)

KEY = select(eab_key).where(eab_key.c.kid == param("kid"))
USE = insert_new(eab_use)
CLIENT = select(idp_client).where(idp_client.c.client_id == param("client_id"))


# ---- eab


class ExternalAccountBinding(AccountBinding):
    """RFC 8555 s7.3.4. The key's row travels; that it was used is decided by one row of one node."""

    member = "externalAccountBinding"

    def __init__(self, handles: Handles, *, required: bool) -> None:
        self.handles = handles
        self._required = required

    @property
    def required(self) -> bool:
        return self._required

    def owner(self, request: BindingRequest) -> str | None:
        try:
            return self.handles.owner_of_key(f"eab:{read(request).kid}")
        except BadRequest:
            return None

    def bind(self, tx: Tx, request: BindingRequest) -> Binding:
        try:
            bound = read(request)
        except BadRequest as problem:
            raise Refuse(problem) from None
        key = tx.one(KEY, kid=bound.kid)
        if key is None:
            raise Refuse(Unauthorized("the kid is unknown"))
        expected = hmac.digest(key.hmac_key.encode(), bound.payload.encode(), sha256)
        if bound.url != request.url or not hmac.compare_digest(bound.signature, expected):
            raise Refuse(Unauthorized("the binding does not verify"), [AuditEvent(event_type="eab.reject", service="ca", detail=bound.kid)])
        if not tx.count(USE, kid=bound.kid, used_at=tx.now):
            raise Refuse(Unauthorized("the kid was used"))
        tx.put(EAB_KEYS, bound.kid, used_at=tx.now)
        tx.audit(AuditEvent(event_type="eab.use", service="ca", detail=bound.kid))
        grants = None if key.profile_grants is None else tuple(msgspec.json.decode(key.profile_grants, type=list[str]))
        return Binding(echo=request.value, profile_grants=grants, kerberos_principal=key.kerberos_principal)


class BindingJws(msgspec.Struct, frozen=True, kw_only=True):
    """The member of newAccount, with its header already decoded."""

    kid: str
    url: str
    payload: str
    signature: bytes


def read(request: BindingRequest) -> BindingJws:
    try:
        return msgspec.convert(request.value, BindingJws)
    except msgspec.ValidationError as problem:
        raise BadRequest(f"externalAccountBinding: {problem}") from None


# ---- acme


class NewAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What newAccount asks for; ``node`` makes it."""

    node: str
    thumbprint: str
    bindings: dict[str, BindingRequest]


class AccountMade(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    profile_grants: tuple[str, ...] | None = None


class AccountCreation:
    """Account, consumption and grants are one transaction, on the node that the binding names."""

    def __init__(self, handles: Handles, bindings: Mapping[str, AccountBinding]) -> None:
        self.handles = handles
        self.bindings = bindings
        self.create = operation("acme.create-account", owner_of)(self._create)

    def request(self, node_id: str, thumbprint: str, given: dict[str, BindingRequest]) -> NewAccount:
        owners = [owner for member, request in given.items() if (owner := self.bindings[member].owner(request)) is not None]
        return NewAccount(node=owners[0] if owners else node_id, thumbprint=thumbprint, bindings=given)

    def _create(self, tx: Tx, new: NewAccount) -> AccountMade:
        bound = [self.bindings[member].bind(tx, request) for member, request in new.bindings.items()]
        made = AccountMade(id=self.handles.new_id(), profile_grants=bound[0].profile_grants if bound else None)
        echo = msgspec.json.encode(bound[0].echo).decode() if bound else None
        tx.put(ACCOUNTS, made.id, thumbprint=new.thumbprint, binding=echo)
        return made


def owner_of(new: NewAccount) -> str:
    return new.node


# ---- idp


class ClientChange(msgspec.Struct, frozen=True, kw_only=True):
    """PUT /api/admin/clients/{client_id}: what is absent keeps its value."""

    client_name: str | msgspec.UnsetType = msgspec.UNSET
    redirect_uris: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


def edit_client(tx: Tx, client_id: str, change: ClientChange) -> None:
    """Any node may; the fields that are given travel, and two edits of different fields both stay."""
    if tx.one(CLIENT, client_id=client_id) is None:
        raise Refuse(NotFound("there is no such client"))
    given: dict[str, object] = {}
    if change.client_name is not msgspec.UNSET:
        given["client_name"] = change.client_name
    if change.redirect_uris is not msgspec.UNSET:
        given["redirect_uris"] = msgspec.json.encode(change.redirect_uris).decode()
    tx.put(CLIENTS, client_id, **given)
    tx.audit(AuditEvent(event_type="client_updated", service="idp", client_id=client_id))
