"""Consent: the person allows a client what it asks for, or does not. For pages and for programs."""

from typing import Literal
from urllib.parse import urlsplit

import msgspec

from greatseal.api.authorization import Wanted
from greatseal.api.clients import Client
from greatseal.api.http import Call, Handler, Reply, Route
from greatseal.api.identity import AccessDenied, Login, SessionView
from greatseal.api.messages import Message
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, NotFound, Problem, Unauthenticated
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal_idp.authorize.consents import Consents
from greatseal_idp.authorize.endpoint import AuthorizeEndpoint
from greatseal_idp.authorize.reader import Reader
from greatseal_idp.authorize.request import AuthorizationRequest, NotRegistered, cut, refuse_repeated
from greatseal_idp.authorize.response import Responses
from greatseal_idp.authorize.waiting import CONSENT, Kept, Spent, Waiting, WaitingRequests
from greatseal_idp.clients.authentication import read_form
from greatseal_idp.owners import owner_of_handle
from greatseal_idp.pages.forms import media_type
from greatseal_idp.pages.render import Pages, form_sources, wants_html
from greatseal_idp.scopes import Scopes
from greatseal_idp.sessions.limits import LoginLimits
from greatseal_idp.sessions.schemes import OwnOrigin

PATH = "/api/auth/consent"
LINKS = ("logo_uri", "client_uri", "policy_uri", "tos_uri")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the person decided. ``scopes`` None is all that were shown; fewer may be chosen."""

    consent_id: str
    decision: Literal["approve", "deny"]
    scopes: tuple[str, ...] | None = None


class ConsentEndpoint:
    """``GET`` and ``POST /api/auth/consent``."""

    def __init__(
        self,
        host: Host,
        *,
        login: Login,
        scopes: Scopes,
        reader: Reader,
        waiting: WaitingRequests,
        limits: LoginLimits,
        consents: Consents,
        responses: Responses,
        authorize: AuthorizeEndpoint,
        pages: Pages,
        origin: OwnOrigin,
    ) -> None:
        self._host = host
        self._login = login
        self._scopes = scopes
        self._reader = reader
        self._waiting = waiting
        self._limits = limits
        self._consents = consents
        self._responses = responses
        self._authorize = authorize
        self._pages = pages
        self._origin = origin

    def routes(self) -> list[Route]:
        signed_in = Handler("a session is needed; a browser whose session has ended is shown a page")
        types = (FORM, "application/json")
        owner = owner_of_handle(self._host, ("consent_id", CONSENT))
        return [
            Route("GET", PATH, self.show, style="page", auth=signed_in, summary="The consent that waits, as page or JSON.", owner=owner),
            Route(
                "POST",
                PATH,
                self.decide,
                style="page",
                auth=signed_in,
                content_types=types,
                summary="Approve or deny it.",
                owner=owner,
            ),
        ]

    async def show(self, call: Call) -> Reply:
        refuse_repeated(call.query)
        return await self._show(call, await self._session(call))

    async def decide(self, call: Call) -> Reply:
        return await self._decide(call, await self._session(call))

    async def _session(self, call: Call) -> SessionView:
        """As the rule Session does it."""
        session = await self._login.session(call)
        if session is None:
            raise Unauthenticated(Message("there is no session; start again at the application"))
        self._origin.check(call)
        return session

    async def _show(self, call: Call, session: SessionView) -> Reply:
        consent_id, waiting = await self._pending(call.query.get("consent_id"), session)
        request = waiting.kept.request
        client = await self._reader.client_of(request.to)
        asked = await self._authorize.permitted(call, request, client, session)
        details = await self._authorize.details(request, client, session)
        known = await self._scopes.all()
        wanted = Wanted(client=client, scopes=tuple(known[name].definition for name in asked.all), shown=tuple(details.shown))
        if not wants_html(call):
            return Reply.json(_described(consent_id, waiting, wanted))
        return self._pages.page(
            call,
            "consent.html",
            form_targets=form_sources(request.to.redirect_uri),
            languages=request.ui_locales,
            consent_id=consent_id,
            username=session.username,
            redirect_host=_host_of(request),
            policy_uri=_web_link(client, "policy_uri"),
            tos_uri=_web_link(client, "tos_uri"),
            wanted=wanted,
        )

    async def _decide(self, call: Call, session: SessionView) -> Reply:
        decision, is_form = await self._decision(call)
        _, waiting = await self._pending(decision.consent_id, session)
        kept, to = waiting.resumed, waiting.kept.request.to
        try:
            members = await self._members(call, session, kept, decision)
        except Spent:
            raise _none_pending() from None
        if is_form:
            return await self._responses.send(call, to, members)
        return Reply.json(await self._responses.told(to, members))

    async def _members(self, call: Call, session: SessionView, kept: Kept, decision: Decision) -> dict[str, str]:
        """What the client gets to know. What it may have is decided again: it may have changed while the page was open."""
        client = await self._reader.client_of(kept.request.to)
        try:
            if decision.decision == "deny":
                await self._consents.deny(kept, session)
                raise AccessDenied("the person did not allow it (RFC 6749 s4.1.2.1)")
            asked = await self._authorize.permitted(call, kept.request, client, session)
            if decision.scopes is not None:
                cut(asked.scopes, decision.scopes)
                asked = asked.within(decision.scopes)
            details = await self._authorize.details(kept.request, client, session)
            return {"code": await self._consents.issue(kept, session, client, asked, details=details, approved=True)}
        except (NotRegistered, Spent):
            raise
        except Problem as problem:
            return self._responses.refusal(kept.request.to, problem)

    async def _pending(self, consent_id: str | None, session: SessionView) -> tuple[str, Waiting]:
        """A request that waits for the consent of this session, under its handle. Raises NotFound, also for those of others."""
        if consent_id is None:
            latest = await self._waiting.latest_consent(session.id)
            if latest is None:
                raise _none_pending()
            # Only the digest of its handle is known: it goes on under another one, for no longer, and one of the two can be answered.
            await self._limits.consent(session.id)
            consent_id = await self._waiting.keep(CONSENT, latest.resumed, session, until=latest.expires_at)
        found = await self._waiting.find(CONSENT, consent_id)
        if found is None or found.session_id != session.id or found.subject != session.subject:
            raise _none_pending()
        return consent_id, found

    async def _decision(self, call: Call) -> tuple[Decision, bool]:
        if media_type(call) == "application/json":
            return await call.body(Decision), False
        form = await read_form(call)
        refuse_repeated(form)
        self._pages.check_form(call, form)
        try:
            return msgspec.convert({"consent_id": form.get("consent_id"), "decision": form.get("decision")}, Decision), True
        except msgspec.ValidationError:
            raise BadRequest("expected consent_id, and approve or deny as decision") from None


def _none_pending() -> NotFound:
    return NotFound(Message("no such consent is pending in this session; start again at the application"))


def _described(consent_id: str, waiting: Waiting, wanted: Wanted) -> dict[str, object]:
    client = wanted.client
    links = {name: link for name in LINKS if (link := _web_link(client, name))}
    return {
        "consent_id": consent_id,
        "client": {"client_id": client.client_id, "client_name": client.client_name, **links},
        **wanted.in_json(),
        "redirect_host": _host_of(waiting.kept.request),
        "expires_at": waiting.expires_at // SECOND,
    }


def _web_link(client: Client, name: str) -> str | None:
    """A link that the client registered; another scheme than https could be a script."""
    link = client.more.get(name)
    return link if isinstance(link, str) and link.startswith("https://") else None


def _host_of(request: AuthorizationRequest) -> str:
    parts = urlsplit(request.to.redirect_uri)
    return parts.netloc or parts.scheme
