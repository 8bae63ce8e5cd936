"""refresh_token (RFC 6749 s6, RFC 9700 s4.14.2): every use makes the next token, and a superseded one ends the family."""

from collections.abc import Container
from functools import partial

import msgspec

from greatseal import faults
from greatseal.api.clients import Client, ProvenRequest
from greatseal.api.identity import AccountRefused
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Refuse, Refused, Tx
from greatseal.api.tokens import Family, Grant, Granted, GrantQuestion, IdTokenOrder, InvalidGrant, InvalidScope, Tokens
from greatseal.host import Host
from greatseal_idp.claims import USERINFO_CLAIMS, Claims
from greatseal_idp.proofs import Proofs
from greatseal_idp.scopes import Asked, Scopes
from greatseal_idp.token.families import FamiliesImpl, FamilyGrant
from greatseal_idp.token.grants.authorization_code import remaining
from greatseal_idp.token.refresh_tokens import KIND, RefreshToken

UNKNOWN = "the refresh token is unknown, expired, used or revoked (RFC 6749 s6)"


class RefreshRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A refresh. ``allowed`` has the scopes of the new access token, None for a replay that may not even be asked for.

    Without ``rotates`` the refresh token stays the same: that of a client which proves itself cannot be used by a thief.
    """

    token: RefreshToken
    family: FamilyGrant
    allowed: Asked | None
    userinfo_claims: tuple[str, ...]
    rotates: bool = True


class RefreshTokenGrant(Grant[RefreshRequest]):
    """Rotates families: one guarded UPDATE, and nothing else is read or written."""

    grant_type = "refresh_token"
    handle = ("refresh_token", KIND)

    def __init__(self, host: Host, families: FamiliesImpl, tokens: Tokens, scopes: Scopes, claims: Claims, *, proofs: Proofs) -> None:
        self._host = host
        self._families = families
        self._tokens = tokens
        self._scopes = scopes
        self._claims = claims
        self._proofs = proofs

    async def prepare(self, request: ProvenRequest) -> RefreshRequest:
        form, client = request.form, request.client
        if "refresh_token" not in form:
            raise BadRequest("refresh_token is required (RFC 6749 s6)")
        token = await self._families.read(form["refresh_token"])
        family = await self._families.granted(token.family) if token else None
        if token is None or family is None or family.client_id != client.client_id:
            raise InvalidGrant(UNKNOWN)
        self._proofs.require_bound(request, family.held.bound)
        allowed = None
        try:
            allowed = await self._permitted(request, family)
        except Problem:
            # A replay ends the family, whatever else is wrong with the request.
            if not await self._host.db.read(self._families.is_replay, token):
                raise
        rotates = client.more.get("rotate_refresh_tokens") is not False
        named = await self._claims.named(family.held.claims.get(USERINFO_CLAIMS, ()), allowed.all if allowed else ())
        return RefreshRequest(token=token, family=family, allowed=allowed, userinfo_claims=named, rotates=rotates)

    def redeem(self, tx: Tx, prepared: RefreshRequest) -> Granted | Refused:
        token = prepared.token
        if prepared.allowed is not None:
            current = self._rotated(tx, prepared) or self._families.repeated(tx, token)
            if current is not None:
                return _granted(prepared, prepared.allowed, current)
        if not self._families.is_replay(tx, token):
            raise Refuse(InvalidGrant(UNKNOWN))
        self._families.revoke(tx, token.family, event_type="refresh_replay")
        return Refused(InvalidGrant(UNKNOWN))

    def _rotated(self, tx: Tx, prepared: RefreshRequest) -> Family | None:
        current = self._families.rotate(tx, prepared.token, prepared.family, advance=prepared.rotates)
        if current is not None:
            tx.after_commit(partial(faults.point, "idp.refresh.rotated"))
        return current

    async def _permitted(self, request: ProvenRequest, family: FamilyGrant) -> Asked:
        """The scopes of the new access token: those asked for, of those that are left of the family's."""
        allowed = requested(request, family, await self._scopes.all())
        signed_in = family.held.authentication
        question = GrantQuestion(
            phase="token",
            subject=family.subject,
            client=request.client,
            scopes=frozenset(allowed.all),
            remote=request.call.remote,
            amr=signed_in.amr if signed_in else (),
            auth_time=signed_in.auth_time if signed_in else None,
        )
        try:
            return allowed.permitted(await self._tokens.permitted(question))
        except AccountRefused as refused:
            raise InvalidGrant("the account may not sign in", cause=refused.cause) from None


def _granted(prepared: RefreshRequest, allowed: Asked, current: Family) -> Granted:
    family = prepared.family
    others = {name: value for name, value in family.held.claims.items() if name != USERINFO_CLAIMS}
    ordered = family.held.id_token_claims
    return Granted(
        subject=family.subject,
        client_id=family.client_id,
        scopes=allowed.scopes,
        implied=allowed.implied,
        authentication=family.held.authentication,
        audiences=family.held.audiences,
        more=family.held.more,
        claims={**others, USERINFO_CLAIMS: prepared.userinfo_claims} if prepared.userinfo_claims else others,
        # OpenID Connect Core s12.2: no nonce is needed, and none is kept.
        id_token=None if ordered is None else IdTokenOrder(claims=ordered),
        family=current,
    )


def requested(request: ProvenRequest, family: FamilyGrant, known: Container[str]) -> Asked:
    """The ``scope`` of the request, which may narrow and never widen (RFC 6749 s6).

    A narrower one has what it names and nothing implied.
    """
    check_offline(request.client)
    asked = request.form.get("scope")
    if asked is None:
        return remaining(Asked(family.scopes, family.held.implied), request.client, known)
    names = tuple(dict.fromkeys(name for name in asked.split(" ") if name))
    if not set(names) <= set(family.scopes):
        raise InvalidScope("scope has more than was granted (RFC 6749 s6)")
    narrower = len(names) < len(family.scopes)
    return remaining(Asked(names, () if narrower else family.held.implied), request.client, known)


def check_offline(client: Client) -> None:
    """A client that lost ``offline_access`` has nothing to refresh with. Raises InvalidGrant."""
    if "offline_access" not in client.scopes:
        raise InvalidGrant("the client may not have offline_access any more")
