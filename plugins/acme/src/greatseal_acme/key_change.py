"""Key change (RFC 8555 s7.3.5): an account goes on under a new key, and the old one ends in the same moment."""

from collections.abc import Mapping
from typing import Any

import msgspec

from greatseal import faults
from greatseal.api.acme import BadPublicKey, Unauthorized
from greatseal.api.audit import AuditEvent
from greatseal.api.problems import BadRequest, Conflict, Problem
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.compact import Jws, PublicKey
from greatseal.jose.jwk import jwk_of, public_key, thumbprint, thumbprint_of
from greatseal.jose.strict import decode_object
from greatseal_acme import tables as t
from greatseal_acme.accounts import Account, Accounts, refused
from greatseal_acme.protocol.jws import AccountCaller, read_jws, verify
from greatseal_acme.protocol.objects import encode


class Asked(msgspec.Struct, frozen=True, rename="camel"):
    """The payload of the inner JWS."""

    account: str
    old_key: dict[str, Any]


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """What the transaction needs."""

    account_id: str
    old_thumbprint: str
    jwk: Mapping[str, Any]
    thumbprint: str
    spki_sha256: str


class KeyChanges:
    """Replacing account keys."""

    def __init__(self, host: Host, accounts: Accounts) -> None:
        self._host = host
        self._accounts = accounts

    async def change(self, caller: AccountCaller, url: str) -> Account:
        """The account under its new key. ``url`` is that of the request, which both signatures name.

        Raises malformed, badSignatureAlgorithm, badPublicKey, and Conflict with the URL of the account that has the new key already.
        """
        key = new_key(caller, url)
        jwk, name = jwk_of(key), spki_sha256(key)
        if blocked := await self._host.blocked_keys.find(name):
            raise refused(blocked)
        replacement = Replacement(
            account_id=caller.view.id,
            old_thumbprint=caller.view.thumbprint,
            jwk=jwk,
            thumbprint=thumbprint(jwk),
            spki_sha256=name,
        )
        changed = await self._host.db.write(self._replace, replacement)
        faults.point("acme.key.changed")
        return changed

    def _replace(self, tx: Tx, asked: Replacement) -> Account:
        account = self._accounts.stored(tx, asked.account_id)
        if account.view.status != "valid":
            raise Refuse(Unauthorized(f"the account is {account.view.status}"))
        if account.view.thumbprint != asked.old_thumbprint:
            raise Refuse(BadRequest("the key of the account was changed meanwhile"))
        if (holder := self._accounts.by_key(tx, asked.thumbprint, account.scope)) is not None:
            raise Refuse(Conflict("an account has the new key already", headers={"Location": holder.view.url}))
        if blocked := self._host.blocked_keys.find_in(tx, asked.spki_sha256):
            raise Refuse(refused(blocked))
        tx.put(t.ACCOUNT, asked.account_id, thumbprint=asked.thumbprint, jwk=encode(asked.jwk))
        detail = f"key {asked.old_thumbprint} to {asked.thumbprint}"
        tx.audit(AuditEvent(event_type="account.key-change", service="ca", sub=asked.account_id, detail=detail))
        faults.point("acme.key.replaced")
        return self._accounts.stored(tx, asked.account_id)


def new_key(caller: AccountCaller, url: str) -> PublicKey:
    """The key that signed the payload, after the checks of RFC 8555 s7.3.5 but those that need the other accounts."""
    inner = _inner(caller.payload)
    key = _embedded_key(inner.header)
    try:
        verify(inner, key)
    except Problem as problem:
        raise type(problem)(f"the inner JWS: {problem.detail}") from None
    if inner.header.get("url") != url:
        raise BadRequest("the inner JWS: its url is not that of the outer one")
    if "nonce" in inner.header:
        raise BadRequest("the inner JWS: it has a nonce; the outer one has the nonce of the request")
    asked = _asked(inner.payload)
    if asked.account != caller.view.url:
        raise BadRequest("account is not the URL of the account that signed the request")
    if _old_thumbprint(asked.old_key) != caller.view.thumbprint:
        raise BadRequest("oldKey is not the key of the account")
    return key


def _inner(payload: bytes) -> Jws:
    try:
        return read_jws(payload)
    except Problem as problem:
        raise type(problem)(f"the payload must be a JWS by the new key: {problem.detail}", members=problem.members) from None


def _embedded_key(header: Mapping[str, Any]) -> PublicKey:
    if "kid" in header or not isinstance(header.get("jwk"), dict):
        raise BadRequest("the inner JWS: its protected header must have jwk, the new key, and no kid")
    try:
        return public_key(header["jwk"])
    except ValueError as error:
        raise BadPublicKey(f"the new key is not accepted: {error}") from None


def _asked(payload: bytes) -> Asked:
    try:
        return msgspec.convert(decode_object(payload), Asked)
    except ValueError as error:
        raise BadRequest(f"the payload of the inner JWS: {error}") from None


def _old_thumbprint(jwk: Mapping[str, Any]) -> str:
    try:
        return thumbprint_of(public_key(jwk))
    except ValueError as error:
        raise BadRequest(f"oldKey: {error}") from None
