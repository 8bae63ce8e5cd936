"""The hooks of registration."""

from collections.abc import Sequence

from greatseal import hookimpl
from greatseal.api.clients import ClientResolver
from greatseal.api.declarations import Job, Owns, Schema
from greatseal.api.http import Discovery, Route
from greatseal.api.identity import Authenticator, NegotiateHeader
from greatseal.api.services import CLIENTS, LOGIN, RESOLVER
from greatseal.api.tokens import GrantCheck
from greatseal.host import Host
from greatseal.net import RemoteKeys
from greatseal_registration.access import Access
from greatseal_registration.documents import MetadataDocuments
from greatseal_registration.endpoint import PATH, RegistrationEndpoint
from greatseal_registration.management import ClientConfiguration
from greatseal_registration.settings import Registration, RegistrationServer
from greatseal_registration.statements import Statements
from greatseal_registration.tables import SCHEMA
from greatseal_registration.usage import Usage

HOUR = 3600.0


class Plugin:
    """Clients that nobody registered by hand."""

    requires = (CLIENTS, LOGIN, RESOLVER)

    def __init__(self) -> None:
        self._usage: Usage | None = None

    def usage(self, host: Host) -> Usage:
        """What sees the use of clients."""
        if self._usage is None:
            self._usage = Usage(host, host.service(CLIENTS), ttl=host.settings(Registration).unused_ttl)
        return self._usage

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("server", RegistrationServer), Owns("registration", Registration)]

    @hookimpl
    def schemas(self) -> Sequence[Schema]:
        return [SCHEMA]

    @hookimpl
    def routes(self, host: Host) -> Sequence[Route]:
        server, settings, clients = host.settings(RegistrationServer), host.settings(Registration), host.service(CLIENTS)
        keys = RemoteKeys(host.service(RESOLVER), host.clock, allow_private=True)
        statements = Statements(host, keys, settings.software_statement_issuers, required=settings.require_software_statement)
        access = Access(host, host.service(LOGIN), server.registration_token, rate_limit=settings.rate_limit)
        managed = server.registration_management
        endpoint = RegistrationEndpoint(host, clients, access, statements, settings, managed=managed)
        return [*endpoint.routes(), *(ClientConfiguration(host, clients, statements, settings).routes() if managed else [])]

    @hookimpl
    def client_resolvers(self, host: Host) -> Sequence[ClientResolver]:
        settings = host.settings(Registration)
        if not settings.client_id_documents:
            return []
        return [MetadataDocuments(host, host.service(CLIENTS), host.service(RESOLVER), settings)]

    @hookimpl
    def grant_checks(self, host: Host) -> Sequence[GrantCheck]:
        return [self.usage(host)] if host.settings(Registration).unused_ttl else []

    @hookimpl
    def discovery(self, host: Host) -> Sequence[Discovery]:
        def members() -> dict[str, object]:
            """What the documents say of it (RFC 8414 s2)."""
            there: dict[str, object] = {"registration_endpoint": host.issuer + PATH} if _is_open(host) else {}
            if host.settings(Registration).client_id_documents:
                there["client_id_metadata_document_supported"] = True
            return there

        features = Discovery("features", lambda: {"registration": _is_open(host)})
        return [Discovery("oauth", members), Discovery("openid", members), features]

    @hookimpl
    def jobs(self, host: Host) -> Sequence[Job]:
        return [Job(name="registration-clients", every=HOUR, run=self.usage(host).sweep, jitter=60.0)]


def _is_open(host: Host) -> bool:
    """Whether anybody can register: with the token, or as a service that signs in by Kerberos."""
    if host.settings(RegistrationServer).registration_token is not None:
        return True
    return any(one.credential is NegotiateHeader for one in host.components(Authenticator).values())
