"""A small web application that signs people in through an OpenID provider: authorization code with PKCE, refresh, sign-out.

Run: ``uv run --script relying_party.py ISSUER CLIENT_ID CLIENT_SECRET [PORT]`` and open http://localhost:9000, or that port.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["aiohttp>=3.14", "joserfc>=1.8"]
# ///

import html
import secrets
import sys
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet
from joserfc.jwt import ClaimsOption

PAGE = """\
<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }} body {{ max-width: 40rem; margin: 10vh auto; padding: 0 1rem }}
dt {{ opacity: .7 }} dd {{ margin: 0 0 .5rem; overflow-wrap: anywhere }}
</style>
<h1>{title}</h1>{body}</html>
"""
COOKIE = "relying_party"


class RelyingParty:
    """The application. Sessions are in memory: cookie value -> what belongs to it."""

    def __init__(self, issuer: str, client_id: str, client_secret: str, here: str) -> None:
        self.issuer = issuer
        self.here = here
        self.client_id = client_id
        self.basic = {"Authorization": aiohttp.encode_basic_auth(client_id, client_secret)}
        self.sessions: dict[str, dict[str, Any]] = {}

    async def provider(self) -> dict[str, Any]:
        """The provider's metadata (OpenID Connect Discovery)."""
        return await self.fetch("GET", f"{self.issuer}/.well-known/openid-configuration")

    async def fetch(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        """A JSON answer of the provider."""
        async with aiohttp.ClientSession() as client, client.request(method, url, **options) as answer:
            body: dict[str, Any] = await answer.json(content_type=None)
            if answer.status >= 400:
                raise web.HTTPBadGateway(text=f"{url}: {body}")
            return body

    def session(self, request: web.Request) -> dict[str, Any]:
        return self.sessions.get(request.cookies.get(COOKIE, ""), {})

    async def home(self, request: web.Request) -> web.Response:
        """Who is signed in, or a link to sign in."""
        session = self.session(request)
        if "claims" not in session:
            return page("Relying party", '<p><a id="sign-in" href="/sign-in">Sign in</a></p>')
        rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(str(value))}</dd>" for name, value in session["claims"].items())
        links = '<p><a id="refresh" href="/refresh">Refresh</a> <a id="sign-out" href="/sign-out">Sign out</a></p>'
        name = session["claims"].get("name", session["claims"]["sub"])
        return page(f"Hello, {html.escape(name)}", f'<dl id="claims">{rows}</dl>{links}')

    async def sign_in(self, _request: web.Request) -> web.Response:
        """Send the browser to the provider, with state, nonce and a PKCE challenge (RFC 7636)."""
        verifier, state, nonce, key = (secrets.token_urlsafe(32) for _ in range(4))
        self.sessions[key] = {"verifier": verifier, "state": state, "nonce": nonce}
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": f"{self.here}/callback",
            "scope": "openid profile email offline_access",
            "state": state,
            "nonce": nonce,
            "code_challenge": urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        answer = web.HTTPSeeOther(f"{(await self.provider())['authorization_endpoint']}?{urlencode(query)}")
        answer.set_cookie(COOKIE, key, httponly=True, samesite="Lax")
        return answer

    async def callback(self, request: web.Request) -> web.Response:
        """The browser is back: redeem the code, verify the ID token (OpenID Connect Core s3.1.3.7)."""
        session = self.session(request)
        if request.query.get("state") != session.get("state", "") or request.query.get("iss") != self.issuer:
            raise web.HTTPBadRequest(text="state or iss is another one")
        if "error" in request.query:
            return page("Not signed in", f"<p id='error'>{html.escape(request.query['error'])}</p>")
        form = {
            "grant_type": "authorization_code",
            "code": request.query["code"],
            "redirect_uri": f"{self.here}/callback",
            "code_verifier": session["verifier"],
        }
        tokens = await self.redeem(form)
        claims = await self.verified(tokens["id_token"], nonce=session["nonce"])
        fresh = secrets.token_urlsafe(32)
        self.sessions.pop(request.cookies[COOKIE])
        self.sessions[fresh] = {"claims": claims, "id_token": tokens["id_token"], "refresh_token": tokens.get("refresh_token")}
        answer = web.HTTPSeeOther("/")
        answer.set_cookie(COOKIE, fresh, httponly=True, samesite="Lax")
        return answer

    async def refresh(self, request: web.Request) -> web.Response:
        """New tokens without a browser redirect to the provider."""
        session = self.session(request)
        if not session.get("refresh_token"):
            raise web.HTTPSeeOther("/")
        tokens = await self.redeem({"grant_type": "refresh_token", "refresh_token": session["refresh_token"]})
        session["refresh_token"], session["id_token"] = tokens["refresh_token"], tokens["id_token"]
        session["claims"] = await self.verified(tokens["id_token"])
        raise web.HTTPSeeOther("/")

    async def sign_out(self, request: web.Request) -> web.Response:
        """End the session here, and at the provider (RP-Initiated Logout)."""
        session = self.sessions.pop(request.cookies.get(COOKIE, ""), {})
        query = {"id_token_hint": session.get("id_token", ""), "client_id": self.client_id, "post_logout_redirect_uri": f"{self.here}/"}
        raise web.HTTPSeeOther(f"{(await self.provider())['end_session_endpoint']}?{urlencode(query)}")

    async def redeem(self, form: dict[str, str]) -> dict[str, Any]:
        return await self.fetch("POST", (await self.provider())["token_endpoint"], data=form, headers=self.basic)

    async def verified(self, id_token: str, nonce: str | None = None) -> dict[str, Any]:
        """The claims of an ID token that the provider signed for us."""
        found = await self.fetch("GET", (await self.provider())["jwks_uri"])
        keys = KeySet.import_key_set({"keys": found["keys"]})
        token = jwt.decode(id_token, keys, algorithms=["ES256", "RS256"])
        issuer, audience = ClaimsOption(essential=True, value=self.issuer), ClaimsOption(essential=True, value=self.client_id)
        jwt.JWTClaimsRegistry(leeway=60, exp=ClaimsOption(essential=True), iss=issuer, aud=audience).validate(token.claims)
        if nonce is not None and token.claims.get("nonce") != nonce:
            raise web.HTTPBadRequest(text="the nonce is another one")
        return token.claims


def page(title: str, body: str) -> web.Response:
    return web.Response(text=PAGE.format(title=title, body=body), content_type="text/html")


def application(party: RelyingParty) -> web.Application:
    """The routes of the application."""
    app = web.Application()
    app.router.add_get("/", party.home)
    app.router.add_get("/sign-in", party.sign_in)
    app.router.add_get("/callback", party.callback)
    app.router.add_get("/refresh", party.refresh)
    app.router.add_get("/sign-out", party.sign_out)
    return app


def main(issuer: str, client_id: str, client_secret: str, port: str = "9000") -> None:
    """Serve until somebody interrupts."""
    party = RelyingParty(issuer, client_id, client_secret, f"http://localhost:{port}")
    web.run_app(application(party), host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
