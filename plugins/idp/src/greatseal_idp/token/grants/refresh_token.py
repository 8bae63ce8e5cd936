"""refresh_token (RFC 6749 s6, RFC 9700 s4.14.2): every use makes the next token, and a superseded one ends the family."""

from functools import partial

import msgspec

from greatseal import faults
from greatseal.api.clients import Client, ProvenRequest
from greatseal.api.identity import AccountRefused
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refuse, Refused, Tx
from greatseal.api.tokens import Family, Grant, Granted, GrantQuestion, IdTokenOrder, InvalidGrant, InvalidScope, Tokens
from greatseal.host import Host
from greatseal_idp.clients.methods.none import PublicClient
from greatseal_idp.token.families import FamiliesImpl, FamilyRecord
from greatseal_idp.token.grants.authorization_code import remaining
from greatseal_idp.token.refresh_tokens import RefreshToken

UNKNOWN = "the refresh token is unknown, expired, used or revoked"


class RefreshRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A refresh. ``record`` is the family as it was read; ``scopes`` are None for a token that was not current then."""

    token: RefreshToken
    record: FamilyRecord
    scopes: tuple[str, ...] | None
    cnf: dict[str, str] | None


class RefreshTokenGrant(Grant[RefreshRequest]):
    """Rotates families: one guarded UPDATE, and nothing else is written."""

    grant_type = "refresh_token"
    prepared_as = RefreshRequest

    def __init__(self, host: Host, families: FamiliesImpl, tokens: Tokens) -> None:
        self._host = host
        self._families = families
        self._tokens = tokens

    async def prepare(self, request: ProvenRequest) -> RefreshRequest:
        form, client = request.form, request.client
        if "refresh_token" not in form:
            raise BadRequest("refresh_token is required")
        token = await self._families.read(form["refresh_token"])
        record = await self._host.db.read(self._families.find, token.family) if token else None
        if token is None or record is None or record.client_id != client.client_id or not record.is_live(self._host.clock.now()):
            raise InvalidGrant(UNKNOWN)
        cnf = request.match.cnf
        if record.held.cnf is not None and cnf != record.held.cnf and client.token_endpoint_auth_method == PublicClient.method:
            raise InvalidGrant("the refresh token is bound to another key")
        scopes = None
        if token.generation == record.generation or self._families.is_retry(record, token, self._host.clock.now()):
            scopes = await self._permitted(request, record)
        return RefreshRequest(token=token, record=record, scopes=scopes, cnf=None if cnf is None else dict(cnf))

    def owner(self, prepared: RefreshRequest) -> str:
        return prepared.token.node

    def redeem(self, tx: Tx, prepared: RefreshRequest) -> Granted | Refused:
        record, token = prepared.record, prepared.token
        family = None
        if prepared.scopes is not None:
            family = self._families.rotate(tx, token, record.client_id, record.expires_at)
            if family is not None:
                tx.after_commit(partial(faults.point, "idp.refresh.rotated"))
            else:
                family = self._again(tx, token)
        if family is None:
            self._families.revoke(tx, token.family, event_type="refresh_replay")
            return Refused(InvalidGrant(UNKNOWN))
        return self._granted(prepared, family)

    def _again(self, tx: Tx, token: RefreshToken) -> Family | None:
        """The successor that another request has just been given, for a retry. Refuses when the family ended meanwhile."""
        now = self._families.find(tx, token.family)
        if now is None or not now.is_live(tx.now):
            raise Refuse(InvalidGrant(UNKNOWN))
        return self._families.repeated(tx, now, token)

    async def _permitted(self, request: ProvenRequest, record: FamilyRecord) -> tuple[str, ...]:
        """The scopes of the new access token: those asked for, of those that are left of the family's."""
        scopes = requested(request, record)
        question = GrantQuestion(
            phase="token",
            subject=record.subject,
            client=request.client,
            scopes=frozenset(scopes),
            remote=request.call.remote,
            amr=record.held.authentication.amr if record.held.authentication else (),
        )
        try:
            permitted = await self._tokens.permitted(question)
        except AccountRefused as refused:
            raise InvalidGrant("the account may not sign in", cause=refused.cause) from None
        return tuple(scope for scope in scopes if scope in permitted)

    def _granted(self, prepared: RefreshRequest, family: Family) -> Granted:
        record, scopes = prepared.record, prepared.scopes
        assert scopes is not None
        ordered = record.held.id_token_claims
        return Granted(
            subject=record.subject,
            client_id=record.client_id,
            scopes=scopes,
            authentication=record.held.authentication,
            audiences=record.held.audiences,
            cnf=prepared.cnf,
            claims=record.held.claims,
            # OpenID Connect Core s12.2: no nonce is needed, and none is kept.
            id_token=None if ordered is None else IdTokenOrder(claims=ordered),
            family=family,
        )


def requested(request: ProvenRequest, record: FamilyRecord) -> tuple[str, ...]:
    """The ``scope`` of the request, which may narrow and never widen (RFC 6749 s6)."""
    check_offline(request.client)
    asked = request.form.get("scope")
    if asked is None:
        return remaining(record.scopes, request.client)
    names = tuple(dict.fromkeys(name for name in asked.split(" ") if name))
    if not set(names) <= set(record.scopes):
        raise InvalidScope("scope has more than was granted")
    return remaining(names, request.client)


def check_offline(client: Client) -> None:
    """A client that lost ``offline_access`` has nothing to refresh with. Raises InvalidGrant."""
    if "offline_access" not in client.scopes:
        raise InvalidGrant("the client may not have offline_access any more")
