"""Client authentication by a secret, by a certificate of the connection, by a Kerberos ticket.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import hmac
from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import unquote_plus

import msgspec

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import (
    Client,
    ClientAuthMethod,
    ClientMatch,
    ClientRequest,
    InvalidClient,
)
from greatseal.api.declarations import Secret
from greatseal.api.http import Call
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Accepted, NegotiateRefused, Negotiator


class BasicCredentials(msgspec.Struct, frozen=True, kw_only=True):
    client_id: str
    secret: Secret


class ClientSecretBasic(ClientAuthMethod[BasicCredentials]):
    """RFC 6749 s2.3.1."""

    method = "client_secret_basic"
    fields = frozenset({"client_secret"})
    secret_form = "digest"

    def credentials(self, request: ClientRequest) -> BasicCredentials | None:
        scheme, _, encoded = request.call.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        client_id, separator, secret = b64decode(encoded).decode().partition(":")
        if not separator:
            raise InvalidClient("the Basic credentials have no colon", headers={"WWW-Authenticate": "Basic"})
        return BasicCredentials(client_id=unquote_plus(client_id), secret=Secret(unquote_plus(secret)))

    def client_id(self, credentials: BasicCredentials) -> str:
        return credentials.client_id

    async def verify(self, credentials: BasicCredentials, client: Client) -> ClientMatch:
        digest = sha256(credentials.secret.value.encode()).digest()
        if client.secret is None or not hmac.compare_digest(client.secret.value, digest):
            raise InvalidClient("the client was not proven", headers={"WWW-Authenticate": "Basic"})
        return ClientMatch(subject=client.client_id)


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """``accepted`` is None until the token was accepted."""

    call: Call
    named: str | None
    accepted: Accepted | None = None


class KerberosClientAuth(ClientAuthMethod[Ticket]):
    """A SPNEGO token in place of other credentials."""

    method = "kerberos_client_auth"
    open_registration = False
    fields = frozenset({"kerberos_principal", "kerberos_principal_pattern", "kerberos_hbac_service"})

    def __init__(self, negotiator: Negotiator) -> None:
        self.negotiator = negotiator

    def credentials(self, request: ClientRequest) -> Ticket | None:
        scheme, _, _ = request.call.headers.get("Authorization", "").partition(" ")
        return Ticket(call=request.call, named=request.form.get("client_id")) if scheme.lower() == "negotiate" else None

    def client_id(self, credentials: Ticket) -> str | None:
        return credentials.named

    async def prove(self, credentials: Ticket) -> Ticket:
        try:
            outcome = await self.negotiator.accept(credentials.call)
        except NegotiateRefused as refusal:
            raise InvalidClient("the client was not proven", cause=refusal.cause, headers={"WWW-Authenticate": "Negotiate"}) from None
        match outcome:
            case Accepted():
                return msgspec.structs.replace(credentials, accepted=outcome)
            case Continue(headers=headers):
                raise InvalidClient("the exchange needs another leg", headers=dict(headers))
            case _:
                raise InvalidClient("the client was not proven", headers={"WWW-Authenticate": "Negotiate"})

    async def verify(self, credentials: Ticket, client: Client) -> ClientMatch:
        assert credentials.accepted is not None
        accepted = credentials.accepted
        if client.kerberos_principal != accepted.principal:
            raise InvalidClient("the client was not proven", headers={"WWW-Authenticate": "Negotiate"})

        def events(scopes: Sequence[str]) -> Sequence[AuditEvent]:
            event = AuditEvent(
                event_type="kerberos_client_auth",
                service="idp",
                sub=accepted.principal,
                client_id=client.client_id,
                detail=" ".join(scopes),
            )
            return (event,)

        return ClientMatch(subject=accepted.principal, headers=accepted.headers, events=events)
