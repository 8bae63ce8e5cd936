"""A grant: a code that is used once.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from hashlib import sha256

import msgspec
from sqlalchemy import Executable

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import ProvenRequest
from greatseal.api.problems import BadRequest
from greatseal.api.services import TOKENS
from greatseal.api.store import Refuse, Refused, Tx
from greatseal.api.tokens import (
    Authentication,
    Grant,
    Granted,
    IdTokenOrder,
    InvalidGrant,
)
from greatseal.host import Host


class CodeRequest(msgspec.Struct, frozen=True, kw_only=True):
    digest: bytes
    client_id: str
    redirect_uri: str
    code_verifier: str | None


class AuthorizationCode(Grant[CodeRequest]):
    """RFC 6749 s4.1.3: one use; a second one revokes what the first one gave."""

    grant_type = "authorization_code"
    handle = ("code", "ac")

    CONSUME: Executable
    USED: Executable

    def __init__(self, host: Host) -> None:
        self.host = host

    async def prepare(self, request: ProvenRequest) -> CodeRequest:
        form = request.form
        if "code" not in form or "redirect_uri" not in form:
            raise BadRequest("code and redirect_uri are required")
        node = self.host.handles.node_of(form["code"], "code")
        if node is None:
            raise InvalidGrant("the code is unknown")
        return CodeRequest(
            digest=sha256(form["code"].encode()).digest(),
            client_id=request.client.client_id,
            redirect_uri=form["redirect_uri"],
            code_verifier=form.get("code_verifier"),
        )

    def redeem(self, tx: Tx, prepared: CodeRequest) -> Granted | Refused:
        row = tx.one(self.CONSUME, digest=prepared.digest, now=tx.now)
        if row is None:
            return self.refuse(tx, prepared)
        if (row.client_id, row.redirect_uri) != (prepared.client_id, prepared.redirect_uri):
            raise Refuse(InvalidGrant("the code was issued to another client or redirect_uri"))
        if (row.code_challenge is None) != (prepared.code_verifier is None):
            raise Refuse(InvalidGrant("code_challenge and code_verifier do not go together"))
        return Granted(
            subject=row.sub,
            client_id=row.client_id,
            scopes=tuple(row.scopes.split()),
            authentication=Authentication(auth_time=row.auth_time, amr=tuple(row.amr.split()), acr=row.acr, session_id=row.sid),
            id_token=IdTokenOrder(nonce=row.nonce) if "openid" in row.scopes.split() else None,
            may_refresh=True,
            origin=prepared.digest,
        )

    def refuse(self, tx: Tx, prepared: CodeRequest) -> Refused:
        if tx.one(self.USED, digest=prepared.digest) is not None:
            self.host.service(TOKENS).revoke_origin(tx, prepared.digest)
            tx.audit(AuditEvent(event_type="code_replay", service="idp", outcome="failure", client_id=prepared.client_id))
        return Refused(InvalidGrant("the code is unknown, expired or used"))
