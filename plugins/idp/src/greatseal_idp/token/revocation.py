"""POST /revoke (RFC 7009): a client gives a token back."""

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import Client, Clients
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.problems import BadRequest
from greatseal.api.store import Tx
from greatseal.api.tokens import AccessToken
from greatseal.host import Host
from greatseal_idp.owners import owner_of_handle
from greatseal_idp.token.families import FamiliesImpl
from greatseal_idp.token.refresh_tokens import KIND as REFRESH
from greatseal_idp.token.revoked import Revocations
from greatseal_idp.token.verify import TokensImpl

EVENT = "token_revoked"


class Revocation:
    """A refresh token takes its family with it. An unknown token is revoked already: 200 (s2.2)."""

    def __init__(self, host: Host, clients: Clients, tokens: TokensImpl, families: FamiliesImpl, revocations: Revocations) -> None:
        self._host = host
        self._clients = clients
        self._tokens = tokens
        self._families = families
        self._revocations = revocations

    def routes(self) -> list[Route]:
        """/revoke."""
        return [
            Route(
                "POST",
                "/revoke",
                self.revoke,
                style="oauth",
                auth=Handler("the client proves itself by its registered method"),
                content_types=(),
                summary="Revoke an access token, or a refresh token with its family (RFC 7009).",
                owner=owner_of_handle(self._host, ("token", REFRESH)),
                cors=True,
            )
        ]

    async def revoke(self, call: Call) -> Reply:
        """200 with an empty body, whatever the token was: a foreign one stays as it is, and the event tells the operator."""
        request = await self._clients.authenticate(call)
        token = request.form.get("token")
        if token is None:
            raise BadRequest("token is required (RFC 7009 s2.1)")
        if token.startswith(f"{REFRESH}_"):
            await self._refresh_token(token, request.client)
        else:
            found = await self._tokens.verified(token)
            if found is not None:
                await self._access_token(found.token, request.client)
        return Reply.empty(200)

    async def _refresh_token(self, text: str, client: Client) -> None:
        token = await self._families.read(text)
        record = await self._host.db.read(self._families.find, token.family) if token else None
        if record is None or record.revoked:
            return
        if record.client_id != client.client_id:
            await self._host.audit_log(_foreign(client))
            return
        await self._host.db.write(_revoke_family, self._families, record.id)

    async def _access_token(self, token: AccessToken, client: Client) -> None:
        if token.client_id != client.client_id:
            await self._host.audit_log(_foreign(client))
            return
        await self._host.db.write(_revoke_access_token, self._revocations, token)


def _revoke_family(tx: Tx, families: FamiliesImpl, id: str) -> None:
    families.revoke(tx, id, event_type=EVENT)


def _revoke_access_token(tx: Tx, revocations: Revocations, token: AccessToken) -> None:
    revocations.revoke(tx, "jti", token.jti, token.expires_at)
    tx.audit(AuditEvent(event_type=EVENT, service="idp", sub=token.subject, client_id=token.client_id, detail=f"access token {token.jti}"))


def _foreign(client: Client) -> AuditEvent:
    return AuditEvent(event_type=EVENT, service="idp", outcome="failure", client_id=client.client_id, detail="the token of another client")
