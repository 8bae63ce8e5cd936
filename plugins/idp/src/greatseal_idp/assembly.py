"""The parts of the identity provider, put together."""

from collections.abc import Sequence
from typing import Any, Protocol

from greatseal.api.clients import ClientAuthMethod
from greatseal.api.declarations import Job
from greatseal.api.http import AuthScheme, Route
from greatseal.api.pages import AccountPart
from greatseal.api.store import Tx
from greatseal.api.tokens import ClaimsProvider, Grant
from greatseal.host import Host
from greatseal_idp.admin import Admin
from greatseal_idp.authorize.applications import Applications
from greatseal_idp.authorize.consent import ConsentEndpoint
from greatseal_idp.authorize.consents import Consents
from greatseal_idp.authorize.endpoint import AuthorizeEndpoint
from greatseal_idp.authorize.par import ParEndpoint
from greatseal_idp.authorize.proposals import Proposals
from greatseal_idp.authorize.reader import Reader
from greatseal_idp.authorize.response import Responses
from greatseal_idp.authorize.waiting import WaitingRequests
from greatseal_idp.claims import Claims
from greatseal_idp.clients.methods import ClientSecretBasic, ClientSecretPost, PublicClient
from greatseal_idp.clients.registry import Registry
from greatseal_idp.directories import DirectoriesImpl
from greatseal_idp.discovery import DiscoveryDocuments
from greatseal_idp.extensions import Extensions
from greatseal_idp.pages.render import Pages
from greatseal_idp.pages.return_to import default_return_to
from greatseal_idp.proofs import Proofs
from greatseal_idp.rbac import Roles
from greatseal_idp.scopes import Scopes
from greatseal_idp.sessions.api import SessionApi
from greatseal_idp.sessions.backchannel import Backchannel
from greatseal_idp.sessions.frontchannel import Frontchannel
from greatseal_idp.sessions.ladder import ladder_of
from greatseal_idp.sessions.limits import LoginLimits
from greatseal_idp.sessions.login import LoginImpl
from greatseal_idp.sessions.logout import Logout
from greatseal_idp.sessions.mail import ConfirmedMail, Mailboxes
from greatseal_idp.sessions.negotiation import Negotiation
from greatseal_idp.sessions.own import OwnSessions
from greatseal_idp.sessions.own_password import OwnPassword
from greatseal_idp.sessions.resets import Resets
from greatseal_idp.sessions.schemes import OwnOrigin, PermissionScheme, SessionScheme
from greatseal_idp.sessions.step_up import StepUp
from greatseal_idp.sessions.store import SessionStore
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
from greatseal_idp.ui.account import AccountPage
from greatseal_idp.ui.change_password import ChangePasswordPage
from greatseal_idp.ui.errands import Errands
from greatseal_idp.ui.forgot import ForgotPassword
from greatseal_idp.ui.login import LoginPages
from greatseal_idp.ui.mail import MailPage, MailPart
from greatseal_idp.ui.own_password import OwnPasswordPage, PasswordPart
from greatseal_idp.ui.step_up import StepUpPage

DELIVERY, SWEEP, MINUTE, HOUR = 15.0, 600.0, 60.0, 3600.0
"""Seconds between two runs of a job."""


class Endpoint(Protocol):
    """A part that has routes."""

    def routes(self) -> list[Route]: ...


class Assembly:
    """What the hooks of one kernel share. Each part is given those that it needs, all of which stand above it."""

    def __init__(self, host: Host) -> None:
        self.proofs = Proofs(host)
        self.extensions = Extensions(host)
        self.scopes = Scopes(host)
        self.signing = Signing(host)
        self.revocations = Revocations(host)
        self.endings = Endings(host, self.revocations)
        self.clients = Registry(host, self.scopes, self.proofs, self.extensions, ends=(self._end_tokens,))
        self.directories = DirectoriesImpl(host)
        self.claims = Claims(host, self.scopes, self.extensions)

        self.families = FamiliesImpl(host, self.revocations, self.endings)
        self.codes = Codes(host)
        self.tokens = TokensImpl(
            host,
            self.signing,
            Policy(host, self.directories),
            families=self.families,
            revocations=self.revocations,
            endings=self.endings,
        )
        self.issuer = Issuer(host, self.signing, self.claims, self.revocations, proofs=self.proofs, extensions=self.extensions)
        self.cleanup = Cleanup(host, self.revocations.forget)

        self.pages = Pages(host)
        self.origin = OwnOrigin(host)
        self.roles = Roles(host, self.directories)
        self.limits = LoginLimits(host)
        self.ladder = ladder_of(host)
        self.discovery = self._discovery(host)
        self.step_up = StepUp(host, self.directories, self.ladder)
        self.backchannel = Backchannel(host, self.clients, self.tokens)
        self.frontchannel = Frontchannel(host, self.clients)
        self.sessions = SessionStore(host, self.directories, self.endings, self.revocations, self.backchannel.queue)
        self.login = LoginImpl(host, self.sessions, self.directories, self.limits, self.ladder)
        self.resets, self.own_password, self.mailboxes = self._mailed(host)
        self.negotiation = Negotiation(host, self.login, self.pages)

        self.waiting = WaitingRequests(host)
        self.reader = Reader(host, self.clients, self.scopes, self.claims, self.signing, extensions=self.extensions)
        self.consents = Consents(host, self.codes, self.endings, self.clients, self.reader, ladder=self.ladder)
        self.responses = Responses(host, self.pages, self.reader, self.extensions)
        self.authorize = self._authorize(host)
        self.redemption = AuthorizationCode(host, self.codes, self.tokens, self.scopes, self.claims, endings=self.endings)
        self.proposals = self._proposals(host)

        self.schemes = self._schemes(host)
        self.methods = self._methods()
        self.grants = self._grants(host)
        self._endpoints = (*self._for_clients(host), *self._for_people(host), self._admin(host))

    def _mailed(self, host: Host) -> tuple[Resets, OwnPassword, Mailboxes]:
        own = OwnSessions(host, self.sessions)
        return (
            Resets(host, self.directories, self.limits, own, self.endings),
            OwnPassword(host, self.login, self.directories, own, self.endings),
            Mailboxes(host, self.directories, self.limits),
        )

    def _discovery(self, host: Host) -> DiscoveryDocuments:
        return DiscoveryDocuments(
            host,
            self.scopes,
            self.signing,
            self.extensions,
            display_name=self.pages.display_name,
            acr_values=self.ladder.values,
        )

    def _authorize(self, host: Host) -> AuthorizeEndpoint:
        return AuthorizeEndpoint(
            host,
            clients=self.clients,
            login=self.login,
            tokens=self.tokens,
            extensions=self.extensions,
            reader=self.reader,
            waiting=self.waiting,
            limits=self.limits,
            consents=self.consents,
            responses=self.responses,
            pages=self.pages,
            negotiation=self.negotiation,
            ladder=self.ladder,
            step_up=self.step_up,
        )

    def _proposals(self, host: Host) -> Proposals:
        return Proposals(
            host,
            clients=self.clients,
            scopes=self.scopes,
            tokens=self.tokens,
            extensions=self.extensions,
            reader=self.reader,
            consents=self.consents,
            codes=self.codes,
            redemption=self.redemption,
            ladder=self.ladder,
            waiting_at=self.authorize.waiting_at,
        )

    def _schemes(self, host: Host) -> Sequence[AuthScheme]:
        sessions = SessionScheme(self.sessions, self.origin)
        return sessions, PermissionScheme(host, sessions, self.roles, self.ladder), BearerScheme(self.tokens, self.proofs)

    def _methods(self) -> Sequence[ClientAuthMethod[Any]]:
        return ClientSecretBasic(self.clients.secrets), ClientSecretPost(self.clients.secrets), PublicClient()

    def _grants(self, host: Host) -> Sequence[Grant[Any]]:
        return (
            self.redemption,
            RefreshTokenGrant(host, self.families, self.tokens, self.scopes, self.claims, proofs=self.proofs),
            ClientCredentials(self.tokens, self.scopes),
        )

    def _for_clients(self, host: Host) -> Sequence[Endpoint]:
        """What programs call."""
        return (
            self.discovery,
            TokenEndpoint(host, self.clients, self.families, self.issuer, proofs=self.proofs, extensions=self.extensions),
            Introspection(
                host,
                self.clients,
                self.tokens,
                self.families,
                self.directories,
                signing=self.signing,
                proofs=self.proofs,
                extensions=self.extensions,
            ),
            Revocation(host, self.clients, self.tokens, self.families, self.revocations),
            UserInfo(
                host,
                self.clients,
                self.claims,
                self.signing,
                self.directories,
                proofs=self.proofs,
                extensions=self.extensions,
            ),
            ParEndpoint(self.clients, self.proofs, self.reader, self.waiting, self.limits),
        )

    def _for_people(self, host: Host) -> Sequence[Endpoint]:
        """What browsers show and call."""
        errands = Errands(self.clients, self.authorize, default=default_return_to(host.issuer))
        return (
            SessionApi(host, self.login, self.directories, self.roles, self.origin),
            Logout(
                host,
                self.sessions,
                self.login,
                self.clients,
                self.signing,
                pages=self.pages,
                frontchannel=self.frontchannel,
            ),
            self.authorize,
            ConsentEndpoint(
                host,
                login=self.login,
                scopes=self.scopes,
                reader=self.reader,
                waiting=self.waiting,
                limits=self.limits,
                consents=self.consents,
                responses=self.responses,
                authorize=self.authorize,
                pages=self.pages,
                origin=self.origin,
            ),
            LoginPages(host, login=self.login, resets=self.resets, pages=self.pages, errands=errands, negotiation=self.negotiation),
            ForgotPassword(host, resets=self.resets, pages=self.pages),
            ChangePasswordPage(host, login=self.login, pages=self.pages, errands=errands),
            StepUpPage(host, login=self.login, pages=self.pages, errands=errands, step_up=self.step_up),
            *self._for_account(host),
        )

    def _for_account(self, host: Host) -> Sequence[Endpoint]:
        """What who is signed in has of their account."""
        return (
            MailPage(host, login=self.login, pages=self.pages, mailboxes=self.mailboxes),
            OwnPasswordPage(host, login=self.login, pages=self.pages, own_password=self.own_password),
            AccountPage(
                host,
                login=self.login,
                directories=self.directories,
                roles=self.roles,
                sessions=OwnSessions(host, self.sessions),
                applications=Applications(host, self.consents, self.clients, self.scopes),
                consents=self.consents,
                pages=self.pages,
            ),
        )

    def _admin(self, host: Host) -> Endpoint:
        return Admin(
            host,
            clients=self.clients,
            scopes=self.scopes,
            signing=self.signing,
            families=self.families,
            directories=self.directories,
        )

    @property
    def account_parts(self) -> Sequence[AccountPart]:
        """What this plugin itself adds to the account page."""
        return [MailPart(self.mailboxes), PasswordPart(self.own_password)]

    @property
    def own_claims(self) -> Sequence[ClaimsProvider]:
        """What this plugin itself knows of people."""
        return [ConfirmedMail(self.mailboxes, self.directories)]

    def routes(self) -> list[Route]:
        """Every route."""
        return [route for endpoint in self._endpoints for route in endpoint.routes()]

    def jobs(self) -> list[Job]:
        """What has to be done from time to time."""
        return [
            Job(name="idp-retire-keys", every=HOUR, run=self.signing.retire, jitter=60.0),
            Job(name="idp-endings", every=MINUTE, run=self.endings.carry_on),
            Job(name="idp-cleanup", every=HOUR, run=self.cleanup.run, jitter=60.0),
            Job(name="idp-backchannel", every=DELIVERY, run=self.backchannel.deliver),
            Job(name="idp-resets", every=MINUTE, run=self.resets.carry_on),
            Job(name="idp-places", every=HOUR, run=self.login.places.forget_old, jitter=60.0),
            Job(name="idp-sessions", every=SWEEP, run=self.sessions.sweep, jitter=60.0),
            Job(name="idp-authorizations", every=SWEEP, run=self.waiting.sweep),
        ]

    async def open(self) -> None:
        """At the start: what is needed from the first request on."""
        await self.scopes.open()
        await self.signing.open()
        await self.endings.open()

    def _end_tokens(self, tx: Tx, client_id: str) -> None:
        """Nothing that a deleted client got is good any more."""
        self.revocations.revoke(tx, "client", client_id)
        self.endings.begin(tx, "client", client_id=client_id)
