"""Whoever signs out here is led to the provider to sign out too (OpenID Connect RP-Initiated Logout 1.0), and comes back."""

from urllib.parse import urlencode

import msgspec

from greatseal.api.http import Call, Reply, Route
from greatseal.api.identity import SessionView
from greatseal.api.pages import Pages
from greatseal.api.problems import Problem
from greatseal.api.upstreams import SignOut
from greatseal.host import Host
from greatseal_federation.metadata import MetadataStore
from greatseal_federation.sessions import Sessions
from greatseal_federation.upstreams import Upstreams

PATH = "/auth/external/{upstream_id}/signed-out"
KIND = "fo"
"""The kind of the envelopes."""
SECONDS = 1200


class Back(msgspec.Struct, frozen=True, kw_only=True):
    """Where the browser goes at last: what an application registered, and idp has checked."""

    upstream: str
    back: str


class UpstreamSignOut(SignOut):
    """Knows of what provider a session came."""

    name = "federation"

    def __init__(self, host: Host, upstreams: Upstreams, *, pages: Pages, metadata: MetadataStore, sessions: Sessions) -> None:
        self._host = host
        self._upstreams = upstreams
        self._pages = pages
        self._metadata = metadata
        self._sessions = sessions

    def routes(self) -> list[Route]:
        """The way back."""
        return [Route("GET", PATH, self.returned, style="page", summary="Back from a provider, signed out there too.")]

    async def leads_to(self, session: SessionView, back: str | None) -> str | None:
        came = session.upstream
        upstream = None if came is None else self._upstreams.find(came.id)
        if upstream is None or not upstream.end_session or upstream.protocol != "openid":
            return None
        row = await self._host.db.read(self._sessions.find, session.id)
        try:
            endpoint = (await self._metadata.of(upstream)).end_session_endpoint
        except Problem:
            return None
        if endpoint is None:
            return None
        query = {"client_id": upstream.client_id, "post_logout_redirect_uri": self._host.issuer + PATH.format(upstream_id=upstream.id)}
        if row is not None and (hint := self._sessions.id_token(row)) is not None:
            query["id_token_hint"] = hint
        if back is not None:
            query["state"] = await self._host.envelopes.seal(KIND, Back(upstream=upstream.id, back=back), seconds=SECONDS)
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def returned(self, call: Call) -> Reply:
        """To where the application wanted, else to a page that says so."""
        upstream = self._upstreams.get(call.path["upstream_id"])
        found = await self._host.envelopes.open(KIND, call.query.get("state", ""), Back)
        if found is not None and found.upstream == upstream.id:
            return Reply(status=303, headers=(("Location", found.back), ("Referrer-Policy", "no-referrer")))
        return self._pages.page(call, "greatseal_federation/signed_out.html", provider=upstream.display_name)
