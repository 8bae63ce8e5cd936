"""Tokens that tie a form to the browser that was shown it.

A token is a digest of a cookie's value: of the session's, and before there is one, of a cookie made for the purpose. Who cannot read the
cookie cannot make the token, and who knows the token does not know the cookie.
"""

import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

from greatseal.api.http import Call, Parameters
from greatseal.api.identity import Headers
from greatseal.api.messages import Message
from greatseal.host import Host
from greatseal.http.cookies import cookie_of, set_cookie
from greatseal.http.csrf import ForeignOrigin, refuse_foreign
from greatseal.jose.compact import b64url_encode
from greatseal_idp.cookie import NAME

FIELD = "form_token"
"""The hidden input of every form of ours."""
STALE = Message(
    "this page was open for too long, somebody signed in again meanwhile, or cookies are switched off; go back and load it again"
)
FORM_COOKIE = "greatseal_form"
MAX_AGE = 86_400


def form_token(secret: str) -> str:
    """The token of a cookie's value."""
    return b64url_encode(hashlib.sha256(b"greatseal form\0" + secret.encode()).digest())


class Forms:
    """Makes and checks the tokens of forms."""

    def __init__(self, host: Host) -> None:
        self._secure = host.issuer.startswith("https:")
        self.own_origins = frozenset(origin_of(url) for url in (host.issuer, host.base_url))
        """The origins whose pages are ours."""

    def token(self, call: Call) -> tuple[str, Headers]:
        """The token for a page that ``call`` gets, and the headers that set its cookie where there is none yet."""
        if secret := self._cookie(call, NAME) or self._cookie(call, FORM_COOKIE):
            return form_token(secret), ()
        secret = secrets.token_urlsafe(32)
        return form_token(secret), (set_cookie(FORM_COOKIE, secret, max_age=MAX_AGE, secure=self._secure),)

    def valid(self, call: Call, form: Parameters) -> bool:
        """Whether the form carries the token of a cookie that came with it."""
        given = form.get(FIELD, "").encode()
        secrets_sent = (self._cookie(call, name) for name in (NAME, FORM_COOKIE))
        return any(hmac.compare_digest(form_token(secret).encode(), given) for secret in secrets_sent if secret)

    def check(self, call: Call, form: Parameters) -> None:
        """Raises ForeignOrigin for a form that was not sent from a page of ours, or from one that is too old."""
        refuse_foreign(
            origin=call.headers.get("Origin"),
            fetch_site=call.headers.get("Sec-Fetch-Site"),
            own_origins=self.own_origins,
        )
        if not self.valid(call, form):
            raise ForeignOrigin(STALE)

    def _cookie(self, call: Call, name: str) -> str | None:
        return cookie_of(call.headers.get("Cookie", ""), name, secure=self._secure)


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL as a browser writes them (RFC 6454 s6.2)."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def media_type(call: Call) -> str:
    """The Content-Type in lower case without its parameters."""
    return call.headers.get("Content-Type", "").partition(";")[0].strip().lower()
