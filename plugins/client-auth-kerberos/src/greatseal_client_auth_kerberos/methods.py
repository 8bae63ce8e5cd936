"""kerberos_client_auth: the ticket of a service or host in place of a secret."""

from collections.abc import Callable, Sequence

import msgspec
from structlog.stdlib import BoundLogger

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import (
    Client,
    ClientAuthMethod,
    ClientMatch,
    ClientRequest,
    Clients,
    InvalidClient,
    InvalidClientMetadata,
    Registration,
)
from greatseal.api.http import Call
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Accepted, NegotiateRefused, Negotiator
from greatseal.api.problems import BadRequest, PayloadTooLarge
from greatseal.api.tokens import GrantQuestion, Tokens
from greatseal.principals import Pattern, parse

EVENT = "kerberos_client_auth"
UNKNOWN = "the client or its credentials are not known"
SEVERAL = "more than one client is registered for this principal; send client_id"
NEGOTIATE = {"WWW-Authenticate": "Negotiate"}


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """What a request brings. ``accepted`` is there once the token was accepted."""

    call: Call
    named: str | None
    accepted: Accepted | None = None

    @property
    def principal(self) -> str:
        """Who holds it."""
        assert self.accepted is not None  # prove was there first
        return self.accepted.principal


class KerberosClientAuth(ClientAuthMethod[Ticket]):
    """A Negotiate header (RFC 4559). The client is named by ``client_id``, or found by the principal: exact ones first, then patterns."""

    method = "kerberos_client_auth"
    open_registration = False  # whom a principal stands for is an administrator's word
    challenge = "Negotiate"
    fields = frozenset({"kerberos_principal", "kerberos_principal_pattern", "kerberos_hbac_service"})

    def __init__(self, negotiator: Negotiator, tokens: Callable[[], Tokens], log: BoundLogger) -> None:
        self._negotiator = negotiator
        self._tokens = tokens
        self._log = log

    def check(self, registration: Registration) -> Client:
        client = registration.client
        exact, pattern = client.kerberos_principal, client.kerberos_principal_pattern
        if (exact is None) == (pattern is None):
            raise InvalidClientMetadata("kerberos_principal, kerberos_principal_pattern: give exactly one of them for kerberos_client_auth")
        if exact is not None:
            _check_exact(exact)
        if pattern is not None:
            self._check_pattern(pattern, client.client_id)
        return client

    def credentials(self, request: ClientRequest) -> Ticket | None:
        scheme = request.call.headers.get("Authorization", "").partition(" ")[0]
        return Ticket(call=request.call, named=request.form.get("client_id")) if scheme.lower() == "negotiate" else None

    def client_id(self, credentials: Ticket) -> str | None:
        return credentials.named

    async def prove(self, credentials: Ticket) -> Ticket:
        try:
            found = await self._negotiator.accept(credentials.call)
        except NegotiateRefused as refused:
            raise _refused(refused.cause or refused.detail) from None
        except PayloadTooLarge as problem:
            raise BadRequest(problem.detail) from None
        match found:
            case Accepted(principal=principal):
                try:
                    parse(principal)
                except ValueError as error:
                    raise _refused(f"the principal of the ticket {error}") from None
                return msgspec.structs.replace(credentials, accepted=found)
            case Continue(headers=headers):
                raise InvalidClient("the exchange needs another leg (RFC 4559 s5)", headers=dict(headers))
            case _:
                raise _refused("there is no Negotiate token")

    async def find(self, clients: Clients, credentials: Ticket) -> Client | None:
        if credentials.named is not None:
            return await clients.get(credentials.named)
        found = await clients.of_principal(credentials.principal)
        if len(found) > 1:
            raise InvalidClient(SEVERAL, cause=f"{credentials.principal} fits more than one client", headers=NEGOTIATE)
        return found[0] if found else None

    def _check_pattern(self, text: str, client_id: str) -> None:
        try:
            pattern = Pattern(text)
        except ValueError as error:
            raise InvalidClientMetadata(f"kerberos_principal_pattern: it {error}; expected such as host/*@EXAMPLE.ORG") from None
        if pattern.any_realm:
            self._log.warning("a client takes tickets of every realm that the KDC trusts", client_id=client_id, pattern=text)

    async def verify(self, credentials: Ticket, client: Client) -> ClientMatch:
        call, principal, accepted = credentials.call, credentials.principal, credentials.accepted
        if not is_of(client, principal):
            raise _refused(f"the ticket is of {principal}, for whom the client is not registered")
        assert accepted is not None  # it has the principal
        call.also(*accepted.headers)
        if client.kerberos_hbac_service is not None:
            question = GrantQuestion(phase="client", subject=principal, client=client, scopes=frozenset(), remote=call.remote)
            await self._tokens().permitted(question)

        def events(scopes: Sequence[str]) -> Sequence[AuditEvent]:
            return (AuditEvent(event_type=EVENT, service="idp", sub=principal, client_id=client.client_id, detail=" ".join(scopes)),)

        # Of an exact client everybody knows the principal; of a template one the token alone says which host it is.
        subject = client.client_id if client.kerberos_principal is not None else principal
        return ClientMatch(subject=subject, principal=principal, events=events)


def is_of(client: Client, principal: str) -> bool:
    """Whether the client is registered for the principal: case and escapes count."""
    if client.kerberos_principal is not None:
        return client.kerberos_principal == principal
    return client.kerberos_principal_pattern is not None and Pattern(client.kerberos_principal_pattern).matches(principal)


def _check_exact(text: str) -> None:
    try:
        found = parse(text)
    except ValueError as error:
        raise InvalidClientMetadata(f"kerberos_principal: it {error}; expected such as host/web.example.org@EXAMPLE.ORG") from None
    if not found.is_service:
        raise InvalidClientMetadata("kerberos_principal: expected a service or host, such as host/web.example.org@EXAMPLE.ORG")


def _refused(cause: str) -> InvalidClient:
    """One public sentence for every reason; the reason is for the log."""
    return InvalidClient(UNKNOWN, cause=cause, headers=NEGOTIATE)
