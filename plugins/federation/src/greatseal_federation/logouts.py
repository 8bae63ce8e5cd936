"""A provider says that somebody signed out there (OpenID Connect Back-Channel Logout 1.0, Front-Channel Logout 1.0)."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from greatseal.api.audit import AuditEvent
from greatseal.api.http import Call, Handler, Parameters, Reply, Route
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, NotFound, Unavailable
from greatseal.api.store import Tx
from greatseal.api.trust import NotVouched
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal.jose.foreign import LEEWAY, LONGEST_TEXT
from greatseal_federation.id_tokens import IdTokens, read_logout
from greatseal_federation.metadata import MetadataStore
from greatseal_federation.refusals import Untrusted
from greatseal_federation.sessions import Sessions
from greatseal_federation.upstreams import Upstream, Upstreams
from greatseal_federation.wire import SILENT

STRIKE = "federation-logout"
REFUSED = "logout_token: not of this provider, not for this service, too old, or used before (OpenID Connect Back-Channel Logout s2.6)"
EMPTY = b"<!DOCTYPE html><title>Signed out</title>"


class Logouts:
    """Ends the sessions here that came of a session, or of a subject, there."""

    def __init__(self, host: Host, upstreams: Upstreams, *, metadata: MetadataStore, tokens: IdTokens, sessions: Sessions) -> None:
        self._host = host
        self._upstreams = upstreams
        self._metadata = metadata
        self._tokens = tokens
        self._sessions = sessions

    def routes(self) -> list[Route]:
        signed, framed = Handler("the provider's signature proves it"), Handler("iss and sid are known to the provider and to us alone")
        return [
            Route(
                "POST",
                "/backchannel/logout/{upstream_id}",
                self.backchannel,
                auth=signed,
                content_types=(FORM,),
                owner=self._owner,
                summary="A provider says that somebody signed out there (OpenID Connect Back-Channel Logout s2.5).",
            ),
            Route(
                "GET",
                "/frontchannel/logout/{upstream_id}",
                self.frontchannel,
                auth=framed,
                summary="A page of a provider says so, in a frame (OpenID Connect Front-Channel Logout s2).",
            ),
        ]

    async def backchannel(self, call: Call) -> Reply:
        upstream = self._openid(call)
        text = Parameters.parse(await call.raw()).get("logout_token")
        if text is None:
            raise BadRequest("logout_token is missing (OpenID Connect Back-Channel Logout s2.5)")
        try:
            token = read_logout(text)
            claims = await self._tokens.logout(upstream, await self._metadata.of(upstream), token)
        except NotVouched as refused:
            self._host.log.warning("a logout token of a provider is refused", upstream=upstream.id, cause=refused.cause)
            raise BadRequest(REFUSED, cause=refused.cause) from None
        except Untrusted as problem:
            raise Unavailable(SILENT, cause=problem.cause) from None
        ending = await self._host.db.write(self._take, upstream, claims)
        if ending is None:
            raise BadRequest(REFUSED, cause="the jti was used before")
        await self._sessions.finish(ending)
        return Reply.empty(200)

    async def frontchannel(self, call: Call) -> Reply:
        upstream = self._openid(call)
        metadata = await self._metadata.of(upstream)
        issuer, sid = call.query.get("iss"), call.query.get("sid")
        if issuer is None or sid is None or len(sid) > LONGEST_TEXT or "\0" in sid:
            raise BadRequest("iss and sid are required here: the frame brings no cookie (OpenID Connect Front-Channel Logout s2)")
        if issuer != metadata.issuer:
            raise BadRequest("iss is another issuer (OpenID Connect Front-Channel Logout s2)")
        await self._sessions.finish(await self._host.db.write(self._ended, upstream, sid))
        places = {urlsplit(url)[:2] for url in (metadata.issuer, metadata.end_session_endpoint or metadata.issuer)}
        ancestors = " ".join(sorted(f"{scheme}://{netloc}" for scheme, netloc in places))
        policy = ("Content-Security-Policy", f"default-src 'none'; frame-ancestors {ancestors}")
        headers = (policy, ("Cache-Control", "no-store"), ("Pragma", "no-cache"), ("Referrer-Policy", "no-referrer"))
        return Reply(body=EMPTY, content_type="text/html; charset=utf-8", headers=headers)

    def _openid(self, call: Call) -> Upstream:
        upstream = self._upstreams.get(call.path["upstream_id"])
        if upstream.protocol != "openid":
            raise NotFound("this provider tells nobody of a logout")
        return upstream

    async def _owner(self, call: Call) -> str | None:
        """The node that decides whether the token was used: the one that its strike names."""
        try:
            token = read_logout(Parameters.parse(await call.raw()).get("logout_token", ""))
        except (BadRequest, NotVouched):
            return None
        return self._host.handles.owner_of_key(f"{STRIKE}:{_key(call.path['upstream_id'], token.claims)}")

    def _take(self, tx: Tx, upstream: Upstream, claims: Mapping[str, Any]) -> list[str] | None:
        """Use the token up, and mark what it ends; None when it was used before."""
        until = (int(claims["exp"]) + LEEWAY) * SECOND
        if not self._host.strikes.take_within(tx, STRIKE, _key(upstream.id, claims), until):
            return None
        ending = self._sessions.end_upstream(tx, upstream.id, subject=claims.get("sub"), sid=claims.get("sid"))
        tx.audit(_event("backchannel_logout_in", upstream, claims, len(ending)))
        return ending

    def _ended(self, tx: Tx, upstream: Upstream, sid: str) -> list[str]:
        ending = self._sessions.end_upstream(tx, upstream.id, subject=None, sid=sid)
        if ending:
            tx.audit(_event("frontchannel_logout_in", upstream, {"sid": sid}, len(ending)))
        return ending


def _key(upstream_id: str, claims: Mapping[str, Any]) -> str:
    return f"{len(upstream_id)}:{upstream_id}:{claims['jti']}"


def _event(type: str, upstream: Upstream, claims: Mapping[str, Any], sessions: int) -> AuditEvent:
    named = " ".join(f"{name}={claims[name]}" for name in ("sub", "sid") if name in claims)
    return AuditEvent(event_type=type, service="idp", detail=f"upstream={upstream.id} {named} sessions={sessions}")
