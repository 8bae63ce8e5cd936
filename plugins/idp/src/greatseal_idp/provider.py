"""The parts of the identity provider, made when the first hook needs them."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from greatseal.api.declarations import Job
from greatseal.api.http import AuthScheme, Route
from greatseal.api.store import Tx
from greatseal.api.tokens import Grant
from greatseal.host import Host
from greatseal_idp.admin import Admin
from greatseal_idp.authorize.front import Front
from greatseal_idp.claims import Claims
from greatseal_idp.clients.registry import Registry
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.discovery import DiscoveryDocuments
from greatseal_idp.pages.render import Pages
from greatseal_idp.scopes import Scopes
from greatseal_idp.sessions.login import LoginImpl
from greatseal_idp.sessions.parts import Sessions
from greatseal_idp.signing import Signing
from greatseal_idp.token.bearer import BearerScheme
from greatseal_idp.token.cleanup import Cleanup
from greatseal_idp.token.codes import Codes
from greatseal_idp.token.endings import Endings
from greatseal_idp.token.endpoint import TokenEndpoint
from greatseal_idp.token.families import FamiliesImpl
from greatseal_idp.token.grants.authorization_code import AuthorizationCode
from greatseal_idp.token.grants.client_credentials import ClientCredentials
from greatseal_idp.token.grants.refresh_token import RefreshTokenGrant
from greatseal_idp.token.introspection import Introspection
from greatseal_idp.token.issue import Issuer
from greatseal_idp.token.policy import Policy
from greatseal_idp.token.revocation import Revocation
from greatseal_idp.token.revoked import Revocations
from greatseal_idp.token.userinfo import UserInfo
from greatseal_idp.token.verify import TokensImpl

MINUTE, HOUR = 60.0, 3600.0


class Provider:
    """What the hooks of one kernel share."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @cached_property
    def clients(self) -> Registry:
        """The client registry (service CLIENTS)."""
        return Registry(self.host, self.scopes, ends=(self._end_tokens,))

    @cached_property
    def scopes(self) -> Scopes:
        """Scope definitions."""
        return Scopes(self.host)

    @cached_property
    def signing(self) -> Signing:
        """The keys that sign tokens."""
        return Signing(self.host)

    @cached_property
    def discovery(self) -> DiscoveryDocuments:
        """Metadata and key set."""
        return DiscoveryDocuments(self.host, self.scopes, self.signing)

    @cached_property
    def directories(self) -> DirectoriesImpl:
        """Users and groups (service DIRECTORIES)."""
        return DirectoriesImpl(self.host)

    @cached_property
    def claims(self) -> Claims:
        """What is known of subjects."""
        return Claims(self.host, self.scopes)

    @cached_property
    def revocations(self) -> Revocations:
        """What was revoked before its time."""
        return Revocations(self.host)

    @cached_property
    def endings(self) -> Endings:
        """What is over, and the rows that follow."""
        return Endings(self.host, self.revocations)

    @cached_property
    def families(self) -> FamiliesImpl:
        """Refresh token families (service FAMILIES)."""
        return FamiliesImpl(self.host, self.revocations, self.endings)

    @cached_property
    def codes(self) -> Codes:
        """Authorization codes."""
        return Codes(self.host)

    @cached_property
    def policy(self) -> Policy:
        """Account state and grant checks."""
        return Policy(self.host, self.directories)

    @cached_property
    def tokens(self) -> TokensImpl:
        """The tokens of this issuer (service TOKENS)."""
        return TokensImpl(self.host, self.signing, self.policy, families=self.families, revocations=self.revocations, endings=self.endings)

    @cached_property
    def issuer(self) -> Issuer:
        """Makes tokens."""
        return Issuer(self.host, self.signing, self.claims, self.revocations)

    @cached_property
    def sessions(self) -> Sessions:
        """Sign-in, sessions, sign-out."""
        return Sessions(
            self.host,
            directories=self.directories,
            endings=self.endings,
            revocations=self.revocations,
            clients=self.clients,
            signing=self.signing,
            pages=self.pages,
        )

    @property
    def login(self) -> LoginImpl:
        """Sign-in (service LOGIN)."""
        return self.sessions.login

    @cached_property
    def pages(self) -> Pages:
        """What people see."""
        return Pages(self.host)

    @cached_property
    def admin(self) -> Admin:
        """The admin API."""
        return Admin(
            self.host,
            clients=self.clients,
            scopes=self.scopes,
            signing=self.signing,
            families=self.families,
            directories=self.directories,
        )

    @cached_property
    def front(self) -> Front:
        """Authorization and the pages of people."""
        return Front(self.host, self)

    def grants(self) -> Sequence[Grant[Any]]:
        """The grants of this plugin."""
        return [
            AuthorizationCode(self.host, self.codes, self.tokens, self.scopes, self.claims, endings=self.endings),
            RefreshTokenGrant(self.host, self.families, self.tokens, self.scopes, self.claims),
            ClientCredentials(self.tokens, self.scopes),
        ]

    def schemes(self) -> Sequence[AuthScheme]:
        """The rules Session, Permission and Bearer."""
        return [*self.sessions.schemes(), BearerScheme(self.tokens)]

    def jobs(self) -> Sequence[Job]:
        """Repeated work."""
        expired = Cleanup(self.host, self.revocations.forget)
        return [
            Job(name="idp-retire-keys", every=HOUR, run=self.signing.retire, jitter=60.0),
            Job(name="idp-endings", every=MINUTE, run=self.endings.carry_on),
            Job(name="idp-cleanup", every=HOUR, run=expired.run, jitter=60.0),
            *self.sessions.jobs(),
            *self.front.jobs(),
        ]

    def routes(self) -> list[Route]:
        """Every route."""
        return [
            *self.discovery.routes(),
            *TokenEndpoint(self.host, self.clients, self.families, self.issuer).routes(),
            *Introspection(self.host, self.clients, self.tokens, self.families, self.directories).routes(),
            *Revocation(self.host, self.clients, self.tokens, self.families, self.revocations).routes(),
            *UserInfo(self.host, self.clients, self.claims, self.signing, self.directories).routes(),
            *self.sessions.routes(),
            *self.front.routes(),
            *self.admin.routes(),
        ]

    def _end_tokens(self, tx: Tx, client_id: str) -> None:
        """Nothing that a deleted client got is good any more."""
        self.revocations.revoke(tx, "client", client_id)
        self.endings.begin(tx, "client", client_id=client_id)
