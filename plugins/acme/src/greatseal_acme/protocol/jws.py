"""Signed requests (RFC 8555 s6.2 to s6.5). The order of the checks is part of the contract: the first one that fails answers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from greatseal.api.acme import AccountDoesNotExist, AccountView, BadNonce, BadPublicKey, BadSignatureAlgorithm, Unauthorized
from greatseal.api.http import AuthScheme, Call, Caller, Reply
from greatseal.api.http import Jws as JwsRule
from greatseal.api.keys import BlockedKeys
from greatseal.api.problems import BadRequest
from greatseal.jose.compact import ALGORITHMS, BadJws, Jws, KeyMismatch, PublicKey, parse_flattened
from greatseal.jose.jwk import public_key
from greatseal_acme.accounts import Account, refused
from greatseal_acme.protocol.nonces import Nonces, NoncesElsewhere, Presented
from greatseal_acme.protocol.urls import Paths, Urls, is_id


class AcmeCaller(Caller, frozen=True, kw_only=True):
    """The holder of a key; ``payload`` is empty for POST-as-GET."""

    key: PublicKey
    payload: bytes


class AccountCaller(AcmeCaller, frozen=True, kw_only=True):
    """The holder of an account's key, which came as ``kid``."""

    account: Account

    @property
    def view(self) -> AccountView:
        """What others see of the account."""
        return self.account.view


class AcmeJws(AuthScheme):
    """Proves the account key of a request and uses its nonce up."""

    rule = JwsRule

    def __init__(
        self,
        nonces: Nonces,
        paths: Paths,
        find: Callable[[str], Awaitable[Account | None]],
        blocked: BlockedKeys,
        *,
        elsewhere: NoncesElsewhere,
    ) -> None:
        self._nonces = nonces
        self._elsewhere = elsewhere
        self._paths = paths
        self._find = find
        self._blocked = blocked

    async def authenticate(self, call: Call) -> AcmeCaller:
        """Raises malformed, badSignatureAlgorithm, accountDoesNotExist, unauthorized, badNonce or badPublicKey."""
        body = await call.raw()
        if "Replay-Nonce" in call.headers:
            raise BadRequest("the request has a Replay-Nonce header; the nonce belongs in the protected header")
        jws = read_jws(body)
        rule = call.route.auth
        assert isinstance(rule, JwsRule)
        check_key_member(jws.header, rule)
        account = await self._account(jws.header["kid"], self._paths.of(call.path)) if "kid" in jws.header else None
        if jws.header.get("url") != call.url:
            raise Unauthorized(
                "the url of the protected header is not the URL of the request", cause=f"request {call.url.partition('?')[0]}"
            )
        nonce = self._nonce(jws.header.get("nonce"))
        caller = self._verified(jws, account)
        if account is not None and (blocked := await self._blocked.find(account.spki_sha256)):
            raise refused(blocked)
        if not (self._nonces.strike(nonce) if isinstance(nonce, int) else await self._elsewhere.strike(nonce)):
            raise BadNonce("the nonce was used meanwhile, or nobody can tell; take the one of this answer")
        call.replace_body(jws.payload)
        return caller

    def finish(self, call: Call, reply: Reply) -> Reply:
        """Every answer carries a fresh nonce, refusals too."""
        return reply.with_headers(("Replay-Nonce", self._nonces.issue()), self._paths.index_link(call.path))

    async def _account(self, kid: object, urls: Urls) -> Account:
        id = urls.account_id(kid) if isinstance(kid, str) else None
        if id is None:
            raise BadRequest(f"kid is no account URL of this server; those begin with {urls.accounts}")
        account = await self._find(id) if is_id(id) else None
        if account is None or account.scope != urls.scope:
            raise AccountDoesNotExist("there is no account with the URL in kid")
        if account.view.status != "valid":
            raise Unauthorized(f"the account is {account.view.status}")
        return account

    def _nonce(self, nonce: object) -> int | Presented:
        if isinstance(nonce, str):
            counter = self._nonces.read(nonce)
            found = self._elsewhere.read(nonce) if counter is None else counter
            if found is not None:
                return found
        raise BadNonce("the nonce is absent, not of this server, too old or used; take the one of this answer")

    def _verified(self, jws: Jws, account: Account | None) -> AcmeCaller:
        if account is not None:
            if isinstance(account.key, str):
                raise BadPublicKey(f"the account key is not accepted: {account.key}")
            verify(jws, account.key)
            return AccountCaller(subject=account.view.id, account=account, key=account.key, payload=jws.payload)
        try:
            key = public_key(jws.header["jwk"])
        except ValueError as error:
            raise BadPublicKey(f"the account key is not accepted: {error}") from None
        verify(jws, key)
        return AcmeCaller(subject="", key=key, payload=jws.payload)


def read_jws(body: bytes) -> Jws:
    """The request as a flattened JWS with an algorithm that is offered."""
    try:
        jws = parse_flattened(body)
    except BadJws as error:
        raise BadRequest(str(error)) from None
    if jws.alg not in ALGORITHMS:
        raise BadSignatureAlgorithm("the alg of the protected header is not offered", members={"algorithms": list(ALGORITHMS)})
    return jws


def check_key_member(header: Mapping[str, Any], rule: JwsRule) -> None:
    """Exactly one of ``jwk`` and ``kid``, and the one that the resource asks for (RFC 8555 s6.2)."""
    given = [name for name in ("jwk", "kid") if name in header]
    if len(given) != 1:
        raise BadRequest("the protected header must have exactly one of jwk and kid")
    if rule.key not in {given[0], "either"}:
        raise BadRequest(f"this resource is asked with {rule.key} in the protected header, not with {given[0]}")
    if given == ["jwk"] and not isinstance(header["jwk"], dict):
        raise BadRequest("jwk is no JSON object")


def verify(jws: Jws, key: PublicKey) -> None:
    """Check the signature. Raises BadPublicKey when the key does not fit ``alg``, malformed for a wrong signature."""
    try:
        jws.verify(key)
    except KeyMismatch as error:
        raise BadPublicKey(str(error)) from None
    except BadJws as error:
        raise BadRequest(str(error)) from None
