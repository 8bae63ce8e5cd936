"""RP-initiated logout (OpenID Connect RP-Initiated Logout 1.0)."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from greatseal.api.clients import Client, Clients
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.languages import tags_of
from greatseal.api.problems import BadRequest
from greatseal.api.upstreams import SignOut
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal_idp.pages.forms import origin_of
from greatseal_idp.pages.render import PROTECTED, Pages, form_sources
from greatseal_idp.sessions.frontchannel import SECONDS, Frontchannel
from greatseal_idp.sessions.login import LoginImpl
from greatseal_idp.sessions.store import SessionStore, StoredSession
from greatseal_idp.signing import Signing

CARRIED = ("id_token_hint", "client_id", "post_logout_redirect_uri", "state", "ui_locales")
"""Parameters that the confirmation page hands on."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A logout request whose parameters hold together. ``back`` is where the browser may go afterwards."""

    hint: Mapping[str, Any] | None
    client: Client | None
    back: str | None
    languages: tuple[str, ...]


class Logout:
    """The end session endpoint."""

    def __init__(
        self,
        host: Host,
        store: SessionStore,
        login: LoginImpl,
        clients: Clients,
        signing: Signing,
        *,
        pages: Pages,
        frontchannel: Frontchannel,
    ) -> None:
        self._host = host
        self._store = store
        self._login = login
        self._clients = clients
        self._signing = signing
        self._pages = pages
        self._frontchannel = frontchannel

    def routes(self) -> list[Route]:
        why = Handler("a browser that signs out may have a session or none")
        return [
            Route("GET", "/logout", self.get, style="page", auth=why, summary="RP-initiated logout."),
            Route("POST", "/logout", self.post, style="page", auth=why, content_types=(FORM,), summary="RP-initiated logout."),
        ]

    async def get(self, call: Call) -> Reply:
        return await self._answer(call, call.query)

    async def post(self, call: Call) -> Reply:
        parameters = Parameters.parse(await call.raw())
        if "confirm" in parameters:
            self._pages.check_form(call, parameters)
            request = await self._read(parameters)
            return await self._end(call, request, await self._store.of(call))
        return await self._answer(call, parameters)

    async def _answer(self, call: Call, parameters: Parameters) -> Reply:
        request = await self._read(parameters)
        session = await self._store.of(call)
        if session is not None:
            if request.hint is not None and _is_of(session, request.hint):
                return await self._end(call, request, session)
            return self._ask(call, request, parameters, session)
        session = await self._of_hint(request.hint) if request.hint is not None else None
        if session is None and call.method == "POST":
            # A form of another site comes without the cookie; the same request as a GET has it.
            return self._pages.see_other(f"/logout?{_query(parameters)}")
        # That form must not take away the cookie of whoever was led to send it.
        return await self._end(call, request, session, clear=call.method != "POST")

    async def _read(self, parameters: Parameters) -> Request:
        """Check all that was sent (s2). Raises BadRequest, and then nothing ends and nobody is sent anywhere."""
        hint = self._hint(parameters.get("id_token_hint"))
        client_id = parameters.get("client_id")
        if hint is not None and client_id is not None and client_id != hint.get("aud"):
            raise BadRequest("client_id is not the client that the id_token_hint was issued to")
        client_id = client_id or (str(hint.get("aud")) if hint is not None else None)
        client = await self._clients.get(client_id) if client_id is not None else None
        if client is None and parameters.get("client_id") is not None:
            raise BadRequest("client_id names no client")
        uri = parameters.get("post_logout_redirect_uri")
        if uri is not None and client is not None and uri not in client.more.get("post_logout_redirect_uris", ()):
            raise BadRequest("post_logout_redirect_uri is not registered for this client")
        # Without a client the URI cannot be checked, so it is not gone to.
        back = _with_state(uri, parameters.get("state")) if uri is not None and client is not None else None
        return Request(hint=hint, client=client, back=back, languages=tags_of(parameters.get("ui_locales", "")))

    def _hint(self, token: str | None) -> Mapping[str, Any] | None:
        """The claims of an ID token of ours, expired or not."""
        if token is None:
            return None
        claims = self._signing.identity(token)
        if claims is None:
            raise BadRequest("id_token_hint is not an ID token of this service")
        return claims

    async def _of_hint(self, hint: Mapping[str, Any]) -> StoredSession | None:
        """The session that an ID token was issued in, where the browser did not say: a form of another site has no cookie."""
        sid = hint.get("sid")
        session = await self._store.get(sid) if isinstance(sid, str) else None
        return session if session is not None and session.view.subject == hint["sub"] else None

    async def _end(self, call: Call, request: Request, session: StoredSession | None, *, clear: bool = True) -> Reply:
        if session is not None:
            by = request.client.client_id if request.client is not None else None
            await self._login.end_as(session.view.id, event_type="logout", by=by)
        headers = (self._login.cleared(),) if clear else ()
        frames = await self._frontchannel.frames(session)
        elsewhere = await self._elsewhere(session, request.back) if session is not None else None
        back = elsewhere or request.back
        # A form may lead nowhere but to its own targets, through all redirects: from a page one may go on.
        if back is None or frames or (elsewhere is not None and call.method == "POST"):
            sources, seconds = dict.fromkeys(map(origin_of, frames)), SECONDS if frames else 0
            return self._pages.page(
                call,
                "logged_out.html",
                headers=headers,
                languages=request.languages,
                frame_sources=sources,
                frames=frames,
                back=back,
                seconds=seconds,
                elsewhere=elsewhere is not None,
            )
        status = 303 if call.method == "POST" else 302
        return Reply(status=status, headers=(*PROTECTED, ("Location", back), *headers))

    async def _elsewhere(self, session: StoredSession, back: str | None) -> str | None:
        """Where the session was begun, and is to be ended too."""
        for name, one in self._host.components(SignOut).items():
            try:
                if (url := await one.leads_to(session.view, back)) is not None:
                    return url
            except Exception as error:
                self._host.log.warning("a session is not ended elsewhere", where=name, exc_info=error)
        return None

    def _ask(self, call: Call, request: Request, parameters: Parameters, session: StoredSession) -> Reply:
        return self._pages.page(
            call,
            "logout.html",
            form_targets=form_sources(request.back) if request.back is not None else (),
            languages=request.languages,
            client_name=(request.client.client_name or request.client.client_id) if request.client is not None else None,
            username=session.view.username,
            fields={name: parameters[name] for name in CARRIED if name in parameters},
        )


def _is_of(session: StoredSession, hint: Mapping[str, Any]) -> bool:
    """Whether the ID token was issued in this session; one of another session of the same person is a reason to ask (s2)."""
    return bool(session.view.subject == hint["sub"] and hint.get("sid", session.view.id) == session.view.id)


def _with_state(uri: str, state: str | None) -> str:
    """The registered URI with ``state`` added to its query (s3)."""
    if state is None:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode({'state': state})}"


def _query(parameters: Parameters) -> str:
    return urlencode({name: parameters[name] for name in parameters})
