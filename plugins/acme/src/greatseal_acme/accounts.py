"""Accounts (RFC 8555 s7.1.2, s7.3): one for each key, however many requests ask for it at once."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import case, func, select

from greatseal.api.acme import (
    AccountBinding,
    AccountDoesNotExist,
    AccountView,
    BadPublicKey,
    Binding,
    BindingRequest,
    ExternalAccountRequired,
    InvalidContact,
    Unauthorized,
    UnsupportedContact,
)
from greatseal.api.audit import AuditEvent
from greatseal.api.keys import BlockedKey
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.api.store import Refuse, Row, Tx, operation, scan
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.compact import PublicKey
from greatseal.jose.jwk import jwk_of, public_key, thumbprint
from greatseal_acme import tables as t
from greatseal_acme.protocol.objects import decode, encode
from greatseal_acme.protocol.urls import Paths, Urls, is_id
from greatseal_acme.settings import AcmeServer
from greatseal_acme.terms import Terms

MAX_CONTACTS = 10
_ADDR_SPEC = re.compile(r"[^\s@,;<>()\[\]\\\"?]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")

BY_ID = select(t.account).where(t.account.c.id == param("id"))
_TOTALS = select(func.count().label("total"), func.count(case((t.account.c.status == "valid", 1))).label("active"))
BY_THUMBPRINT = select(t.account).where(t.account.c.thumbprint == param("thumbprint"), t.account.c.ca_id == param("scope"))
OF_KEY = select(t.account.c.id).where(t.account.c.thumbprint == param("thumbprint")).limit(1)
"""Some account of the key, at any CA."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account as this plugin keeps it in memory, with its key ready to verify and the name under which it would be blocked.

    ``scope`` is the CA that it belongs to alone, empty for all; ``key`` is the reason as text where a key of before is accepted no more.
    ``terms_agreed`` is about the terms as they are now, ``terms_url`` is where those were that it agreed to last.
    """

    view: AccountView
    scope: str
    jwk: Mapping[str, Any]
    key: PublicKey | str
    spki_sha256: str
    contact: tuple[str, ...]
    terms_agreed: bool
    terms_url: str | None
    binding: Mapping[str, Any]
    created_at: int

    def members(self) -> dict[str, object]:
        """The account object."""
        shown: dict[str, object] = {"status": self.view.status, "contact": self.contact, "orders": f"{self.view.url}/orders"}
        if self.terms_agreed:
            shown["termsOfServiceAgreed"] = True
        return {**shown, **self.binding}


class NewAccount(msgspec.Struct, frozen=True, rename="camel"):
    """The payload of newAccount; a binding's member is read beside it."""

    contact: tuple[str, ...] = ()
    terms_of_service_agreed: bool = False
    only_return_existing: bool = False


class AccountUpdate(msgspec.Struct, frozen=True, rename="camel"):
    """The payload of a POST to the account URL."""

    contact: tuple[str, ...] | None = None
    status: str | None = None
    terms_of_service_agreed: bool = False


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """What the transaction that makes an account needs."""

    id: str
    url: str
    scope: str
    jwk: Mapping[str, Any]
    thumbprint: str
    spki_sha256: str
    asked: NewAccount
    bindings: Mapping[str, Any]

    def request(self, value: object) -> BindingRequest:
        """What a binding gets to see of it."""
        return BindingRequest(url=self.url, jwk=self.jwk, thumbprint=self.thumbprint, value=value)


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a key; ``made`` tells whether it is new."""

    id: str
    made: bool


class Accounts:
    """The accounts of this server (service ``ACCOUNTS``)."""

    def __init__(self, host: Host, paths: Paths) -> None:
        self._host = host
        self._paths = paths
        self.terms = Terms(host.settings(AcmeServer).terms_of_service_url)
        self._cache = host.changes.cache("acme_account", self.load)
        self.get = self._cache.get
        """The account of an id with its key, if there is one, from the cache."""
        self.create = operation("acme.account.create", self._owner)(self._create_here)

    async def find(self, id: str) -> AccountView | None:
        account = await self.get(id) if is_id(id) else None
        return account.view if account else None

    def grant(self, tx: Tx, id: str, profile_grants: tuple[str, ...] | None) -> bool:
        row = tx.one(BY_ID, id=id)
        if row is None or row.status != "valid":
            return False
        tx.put(t.ACCOUNT, id, profile_grants=encode(profile_grants) if profile_grants else None)
        return True

    def load(self, tx: Tx, id: str) -> Account | None:
        """The account as it is stored."""
        row = tx.one(BY_ID, id=id)
        return self.of(row) if row else None

    async def ask(self, payload: Mapping[str, object], key: PublicKey, urls: Urls) -> tuple[Account, bool]:
        """newAccount: the account of this key at the CA, and whether it was made now."""
        asked = _read_new(payload)
        jwk, name = jwk_of(key), spki_sha256(key)
        if blocked := await self._host.blocked_keys.find(name):
            raise refused(blocked)
        existing = await self._host.db.read(self.by_key, thumbprint(jwk), urls.scope)
        if existing is None and asked.only_return_existing:
            raise AccountDoesNotExist("no account has this key")
        if existing is not None:
            return _usable(existing), False
        check_contacts(asked.contact)
        self.terms.require(asked.terms_of_service_agreed, "send termsOfServiceAgreed: true")
        creation = Creation(
            id=self._host.handles.new_id(),
            url=urls.new_account,
            scope=urls.scope,
            jwk=jwk,
            thumbprint=thumbprint(jwk),
            spki_sha256=name,
            asked=asked,
            bindings={member: payload.get(member) for member in self._host.components(AccountBinding)},
        )
        created = await self._host.db.write(self.create, creation)
        account = await self.get(created.id)
        if account is None:
            raise Unavailable("the account was made on another node and is not here yet")
        return _usable(account), created.made

    async def change(self, account: Account, asked: AccountUpdate) -> Account:
        """Update contacts, agree to the terms of service, or deactivate (RFC 8555 s7.3.2, s7.3.3, s7.3.6)."""
        if asked.status not in {None, "valid", "deactivated"}:
            raise BadRequest("status can only be set to deactivated")
        if asked.contact is not None:
            check_contacts(asked.contact)
        agrees = asked.terms_of_service_agreed and not account.terms_agreed
        if asked.contact is None and asked.status in {None, "valid"} and not agrees:
            return account
        return await self._host.db.write(self._change, account.view.id, asked)

    def check_terms(self, account: Account) -> None:
        """Before an order: raises UserActionRequired for an account that did not agree to the terms as they are now."""
        self.terms.require(account.terms_agreed)

    def by_key(self, tx: Tx, thumbprint: str, scope: str) -> Account | None:
        """The account that has the key, of those that belong to one CA or to all."""
        row = tx.one(BY_THUMBPRINT, thumbprint=thumbprint, scope=scope)
        return self.of(row) if row else None

    def _owner(self, creation: Creation) -> str:
        """The node that alone may consume what a binding carries, else this one."""
        for member, binding in self._host.components(AccountBinding).items():
            if (value := creation.bindings.get(member)) is not None and (owner := binding.owner(creation.request(value))) is not None:
                return owner
        return self._host.node_id

    def _create_here(self, tx: Tx, creation: Creation) -> Created:
        if existing := self.by_key(tx, creation.thumbprint, creation.scope):
            return Created(id=existing.view.id, made=False)
        if blocked := self._host.blocked_keys.find_in(tx, creation.spki_sha256):
            raise Refuse(refused(blocked))
        bound = self._bind(tx, creation)
        grants = next((one.profile_grants for one in bound.values() if one.profile_grants is not None), None)
        principal = next((one.kerberos_principal for one in bound.values() if one.kerberos_principal is not None), None)
        tx.put(
            t.ACCOUNT,
            creation.id,
            status="valid",
            ca_id=creation.scope,
            thumbprint=creation.thumbprint,
            jwk=encode(creation.jwk),
            contact=encode(creation.asked.contact),
            terms_agreed=int(creation.asked.terms_of_service_agreed),
            terms_url=self.terms.url if creation.asked.terms_of_service_agreed else None,
            binding=encode({member: one.echo for member, one in bound.items()}) if bound else None,
            profile_grants=None if grants is None else encode(grants),
            kerberos_principal=principal,
            created_at=tx.now,
        )
        tx.audit(_event("account.create", creation.id, f"key {creation.thumbprint}"))
        return Created(id=creation.id, made=True)

    def _bind(self, tx: Tx, creation: Creation) -> dict[str, Binding]:
        bound: dict[str, Binding] = {}
        for member, binding in self._host.components(AccountBinding).items():
            value = creation.bindings.get(member)
            if value is None:
                if binding.required:
                    raise Refuse(ExternalAccountRequired(f"a new account needs {member}"))
                continue
            bound[member] = binding.bind(tx, creation.request(value))
        return bound

    def _change(self, tx: Tx, id: str, asked: AccountUpdate) -> Account:
        account = self.stored(tx, id)
        if account.view.status != "valid":
            raise Refuse(Unauthorized(f"the account is {account.view.status}"))
        fields: dict[str, object] = {}
        if asked.contact is not None:
            fields["contact"] = encode(asked.contact)
        if asked.terms_of_service_agreed and not account.terms_agreed:
            fields |= {"terms_agreed": 1, "terms_url": self.terms.url}
            tx.audit(_event("account.agree", id, self.terms.url))
        if asked.status == "deactivated":
            fields["status"] = "deactivated"
        if fields:
            tx.put(t.ACCOUNT, id, **fields)
        if asked.status == "deactivated":
            tx.audit(_event("account.deactivate", id, None))
        elif asked.contact is not None:
            tx.audit(_event("account.update", id, None))
        return self.stored(tx, id)

    def stored(self, tx: Tx, id: str) -> Account:
        """The account of an id that exists."""
        account = self.load(tx, id)
        assert account is not None  # accounts are never deleted
        return account

    def of(self, row: Row) -> Account:
        jwk = decode(row.jwk)
        key = _key(jwk)
        grants = decode(row.profile_grants)
        status: Literal["valid", "deactivated", "revoked"] = row.status
        view = AccountView(
            id=row.id,
            url=self._paths.account(row.id, row.ca_id),
            status=status,
            thumbprint=row.thumbprint,
            profile_grants=None if grants is None else tuple(grants),
            kerberos_principal=row.kerberos_principal,
        )
        return Account(
            view=view,
            scope=row.ca_id,
            jwk=jwk,
            key=key,
            spki_sha256="" if isinstance(key, str) else spki_sha256(key),
            contact=tuple(decode(row.contact)),
            terms_agreed=bool(row.terms_agreed) and self.terms.are_those(row.terms_url),
            terms_url=row.terms_url,
            binding=decode(row.binding) or {},
            created_at=row.created_at,
        )


def refused(blocked: BlockedKey) -> BadPublicKey:
    """What the holder of a blocked key is told."""
    return BadPublicKey(f"the account key is blocked ({blocked.reason}); make an account with another key")


def check_contacts(contacts: Sequence[str]) -> None:
    """Each is mailto with one address and no header fields (RFC 8555 s7.3). None at all is well."""
    if len(contacts) > MAX_CONTACTS:
        raise InvalidContact(f"{len(contacts)} contacts; at most {MAX_CONTACTS} are possible")
    for contact in contacts:
        scheme, _, address = contact.partition(":")
        if scheme.lower() != "mailto":
            raise UnsupportedContact("only mailto contacts are offered")
        if not _ADDR_SPEC.fullmatch(address) or not address.isprintable():
            raise InvalidContact("a mailto contact must have exactly one address and no header fields")


def _read_new(payload: Mapping[str, object]) -> NewAccount:
    try:
        return msgspec.convert(payload, NewAccount)
    except msgspec.ValidationError as error:
        raise BadRequest(f"newAccount: {error}") from None


def _key(jwk: Mapping[str, Any]) -> PublicKey | str:
    try:
        return public_key(jwk)
    except ValueError as error:
        return str(error)


def _usable(account: Account) -> Account:
    if account.view.status != "valid":
        raise Unauthorized(f"the account of this key is {account.view.status}")
    return account


def _event(event_type: str, id: str, detail: str | None) -> AuditEvent:
    return AuditEvent(event_type=event_type, service="ca", sub=id, detail=detail)


@scan
def totals(tx: Tx) -> dict[str, int]:
    """How many accounts there are, and how many can be used."""
    row = tx.one(_TOTALS)
    assert row is not None
    return {"total": row.total, "active": row.active}
