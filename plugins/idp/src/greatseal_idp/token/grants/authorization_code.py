"""authorization_code (RFC 6749 s4.1.3, RFC 7636): a code is used once, and a second use takes back what the first one gave."""

import hmac
import re
from collections.abc import Container
from functools import partial
from hashlib import sha256

import msgspec

from greatseal import faults
from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Client, ProvenRequest
from greatseal.api.identity import AccountRefused
from greatseal.api.problems import BadRequest
from greatseal.api.store import Refuse, Refused, Tx
from greatseal.api.tokens import (
    Authentication,
    Grant,
    Granted,
    GrantQuestion,
    IdTokenOrder,
    InvalidGrant,
    InvalidScope,
    Tokens,
)
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal_idp.claims import USERINFO_CLAIMS, Claims, names_in
from greatseal_idp.scopes import Asked, Scopes
from greatseal_idp.token.codes import KIND, CodeRecord, Codes, digest_of, note_client
from greatseal_idp.token.endings import Endings

UNKNOWN = "the code is unknown, expired or used (RFC 6749 s4.1.2)"
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class CodeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A redemption. ``scopes`` and ``implied`` are what may be granted now.

    ``userinfo_claims`` are those that the token may fetch beside its scopes.
    """

    digest: bytes
    client_id: str
    redirect_uri: str
    code_verifier: str | None
    scopes: tuple[str, ...] = ()
    implied: tuple[str, ...] = ()
    userinfo_claims: tuple[str, ...] = ()
    may_refresh: bool = False


class AuthorizationCode(Grant[CodeRequest]):
    """Redeems the codes of /authorize."""

    grant_type = "authorization_code"
    handle = ("code", KIND)

    def __init__(self, host: Host, codes: Codes, tokens: Tokens, scopes: Scopes, claims: Claims, *, endings: Endings) -> None:
        self._host = host
        self._codes = codes
        self._endings = endings
        self._tokens = tokens
        self._scopes = scopes
        self._claims = claims

    async def prepare(self, request: ProvenRequest) -> CodeRequest:
        form, client = request.form, request.client
        if "code" not in form or "redirect_uri" not in form:
            raise BadRequest("code and redirect_uri are required (RFC 6749 s4.1.3)")
        node = self._host.handles.node_of(form["code"], KIND)
        record = await self._host.db.read(self._codes.find, digest_of(form["code"])) if node else None
        if node is None or record is None:
            raise InvalidGrant(UNKNOWN)
        if self._endings.pending and self._endings.cover(record.client_id, record.subject, record.created_at):
            raise InvalidGrant(UNKNOWN)
        asked = CodeRequest(
            digest=record.digest,
            client_id=client.client_id,
            redirect_uri=form["redirect_uri"],
            code_verifier=form.get("code_verifier"),
        )
        problem = mismatch(record, asked)
        if problem is not None:
            raise problem
        if record.used:
            return asked  # the transaction decides what a replay takes back
        return await self.filled(request, record, asked)

    async def filled(self, request: ProvenRequest, record: CodeRecord, asked: CodeRequest) -> CodeRequest:
        """A redemption with what may be granted now."""
        allowed, client = await self._permitted(request, record), request.client
        named = await self._claims.named(names_in(record.claims, "userinfo"), allowed.all) if record.claims else ()
        return msgspec.structs.replace(
            asked,
            scopes=allowed.scopes,
            implied=allowed.implied,
            userinfo_claims=named,
            may_refresh="refresh_token" in client.grant_types,
        )

    def redeem(self, tx: Tx, prepared: CodeRequest) -> Granted | Refused:
        consumed = self._codes.consume(tx, prepared.digest)
        record = consumed or self._codes.find(tx, prepared.digest)
        if record is None:
            raise Refuse(InvalidGrant(UNKNOWN))
        problem = mismatch(record, prepared)
        if problem is not None:
            raise Refuse(problem)
        if consumed is None:
            return self._replayed(tx, record)
        if record.session_id is not None and not note_client(tx, record.session_id, record.client_id):
            raise Refuse(InvalidGrant("the session has ended (RFC 6749 s5.2)"))
        tx.after_commit(partial(faults.point, "idp.code.redeemed"))
        return granted(record, prepared)

    async def _permitted(self, request: ProvenRequest, record: CodeRecord) -> Asked:
        """The scopes of the code that the client still has and that nothing refuses now."""
        allowed = remaining(Asked(record.scopes, record.implied), request.client, await self._scopes.all())
        question = GrantQuestion(
            phase="token",
            subject=record.subject,
            client=request.client,
            scopes=frozenset(allowed.all),
            remote=request.call.remote,
            amr=record.amr,
            auth_time=record.auth_time,
        )
        try:
            return allowed.permitted(await self._tokens.permitted(question))
        except AccountRefused as refused:
            raise InvalidGrant("the account may not sign in", cause=refused.cause) from None

    def _replayed(self, tx: Tx, record: CodeRecord) -> Refused:
        if record.used:
            self._tokens.revoke_origin(tx, record.digest)
            tx.audit(AuditEvent(event_type="code_replay", service="idp", outcome="failure", sub=record.subject, client_id=record.client_id))
        return Refused(InvalidGrant(UNKNOWN))


def granted(record: CodeRecord, prepared: CodeRequest) -> Granted:
    """What a code gives."""
    openid = "openid" in prepared.scopes
    ordered = (record.claims or {}).get("id_token") or {}
    return Granted(
        subject=record.subject,
        client_id=record.client_id,
        scopes=prepared.scopes,
        implied=prepared.implied,
        authentication=Authentication(auth_time=record.auth_time, amr=record.amr, acr=record.acr, session_id=record.session_id),
        more=record.more,
        claims={USERINFO_CLAIMS: prepared.userinfo_claims} if prepared.userinfo_claims else {},
        id_token=IdTokenOrder(nonce=record.nonce, claims=ordered) if openid else None,
        may_refresh=prepared.may_refresh,
        origin=record.digest,
    )


def mismatch(record: CodeRecord, asked: CodeRequest) -> InvalidGrant | None:
    """Why the code may not be redeemed so, by this client. It is not used up then."""
    if (record.client_id, record.redirect_uri) != (asked.client_id, asked.redirect_uri):
        return InvalidGrant("the code was issued to another client or redirect_uri (RFC 6749 s4.1.3)")
    if record.code_challenge is None:
        # RFC 9700 s2.1.1: a verifier without a challenge is an attack on PKCE, not a harmless surplus.
        return None if asked.code_verifier is None else InvalidGrant("the authorization request had no code_challenge (RFC 9700 s2.1.1)")
    if asked.code_verifier is None or not answers(asked.code_verifier, record.code_challenge):
        return InvalidGrant("code_verifier is missing or not the one of the code_challenge (RFC 7636 s4.6)")
    return None


def answers(verifier: str, challenge: str) -> bool:
    """Whether the verifier belongs to the S256 challenge (RFC 7636 s4.6)."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    return hmac.compare_digest(b64url_encode(sha256(verifier.encode()).digest()).encode(), challenge.encode())


def remaining(allowed: Asked, client: Client, known: Container[str]) -> Asked:
    """Those that still exist and that the client is still registered for. Raises InvalidScope when none of the scopes is left."""
    left = allowed.within(known).within(client.scopes)
    if allowed.scopes and not left.scopes:
        raise InvalidScope("none of the granted scopes is left to the client (RFC 6749 s5.2)")
    return left
