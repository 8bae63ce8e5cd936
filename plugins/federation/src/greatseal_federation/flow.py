"""A sign-in on its way through another provider: what ``state`` carries (RFC 6749 s10.12), and the cookie of the browser that began it.

Nothing is stored: ``state`` is what it is good for, sealed. It counts in the browser that began and once (a strike). The verifier of PKCE
and the nonce are made of a secret in it, so the provider, which sees it sealed, knows neither before its time.
"""

import hmac
import secrets
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec

from greatseal.api.http import Call
from greatseal.api.identity import Headers
from greatseal.api.messages import Message
from greatseal.api.moments import SECOND
from greatseal.host import Host
from greatseal.http.cookies import cookie_of, set_cookie
from greatseal.jose.compact import b64url_encode
from greatseal_federation.refusals import TooLate

KIND = "fs"
"""The kind of the envelopes."""
SECONDS = 1200
STRIKE = "federation"
COOKIE = "greatseal_federation"
COOKIE_SECONDS = 86_400
STALE = Message("this sign-in began too long ago, in another browser, or it is over already; begin again")


class Flow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked of whom. ``expires_at`` and ``began_at`` are microseconds.

    ``max_age`` is how many seconds before this began the sign-in there may have been; ``link`` is the session whose person gets the
    account linked.
    """

    upstream: str
    secret: bytes
    browser: bytes
    began_at: int
    expires_at: int
    return_to: str | None = None
    max_age: int | None = None
    link: str | None = None

    @property
    def verifier(self) -> str:
        """Of PKCE (RFC 7636 s4.1)."""
        return self._derived(b"verifier")

    @property
    def challenge(self) -> str:
        """S256 of the verifier (RFC 7636 s4.2)."""
        return b64url_encode(sha256(self.verifier.encode()).digest())

    @property
    def nonce(self) -> str:
        """What the ID token must repeat (OpenID Connect Core s3.1.2.1)."""
        return self._derived(b"nonce")

    def _derived(self, purpose: bytes) -> str:
        return b64url_encode(hmac.digest(self.secret, purpose, "sha256"))


class Flows:
    """Makes them, reads them, and has each end once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._secure = urlsplit(host.issuer).scheme == "https"

    async def begin(
        self, call: Call, upstream: str, *, return_to: str | None, max_age: int | None, link: str | None = None
    ) -> tuple[Flow, str, Headers]:
        """A new one with its ``state``, and the headers that make the browser known."""
        browser = self._browser(call)
        headers: Headers = ()
        if browser is None:
            browser = secrets.token_urlsafe(32)
            headers = (set_cookie(COOKIE, browser, max_age=COOKIE_SECONDS, secure=self._secure),)
        now = self._host.clock.now()
        flow = Flow(
            upstream=upstream,
            secret=secrets.token_bytes(32),
            browser=_digest(browser),
            began_at=now,
            expires_at=now + SECONDS * SECOND,
            return_to=return_to,
            max_age=max_age,
            link=link,
        )
        return flow, await self._host.envelopes.seal(KIND, flow, seconds=SECONDS), headers

    async def read(self, call: Call, upstream: str, state: str | None) -> Flow:
        """What ``state`` carries. Raises TooLate unless it is of this browser, for this provider, and not too old."""
        flow = await self._host.envelopes.open(KIND, state or "", Flow)
        browser = self._browser(call)
        if flow is None or browser is None or not hmac.compare_digest(flow.browser, _digest(browser)) or flow.upstream != upstream:
            raise TooLate(STALE, cause="state is not sealed here, too old, of another browser or for another provider")
        return flow

    async def end(self, state: str, flow: Flow) -> None:
        """Use it up, before the code is redeemed: a code that is sent twice ends what the first one gave (RFC 6749 s4.1.2).

        Raises TooLate when it was used before.
        """
        if not await self._host.strikes.take(STRIKE, b64url_encode(_digest(state)), flow.expires_at):
            raise TooLate(STALE, cause="the state was used before")

    def _browser(self, call: Call) -> str | None:
        return cookie_of(call.headers.get("Cookie", ""), COOKIE, secure=self._secure)


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
