"""The configuration keys of the identity provider."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

Seconds = Annotated[int, msgspec.Meta(ge=1, le=315_360_000)]
"""A duration: ten years at most, so that every moment fits into its column."""

_IN_POLICY = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&()+=%*]+")
"""The characters of a URL (RFC 3986 s2) without those that end a source of a Content-Security-Policy, and without quotes."""
_INLINE = re.compile(r"data:image/[a-z0-9.+-]+;base64,[A-Za-z0-9+/]+=*")


class IdpServer(msgspec.Struct, frozen=True, kw_only=True):
    """[server], the identity provider's part."""

    jwt_signing_algorithm: Literal["ES256", "RS256"] = "ES256"
    """The algorithm of tokens; clients that ask for the other one get it."""
    auth_rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 30
    """Sign-in attempts from one address in 300 s, with ten requests each that may wait for them; 0 switches the limits off."""


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[session]: the browser session."""

    ttl: Seconds = 28800
    """Seconds after which a session ends."""
    idle_ttl: Seconds = 3600
    """Seconds without a request after which it ends."""


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[tokens]: lifetimes in seconds."""

    access_token_ttl: Seconds = 900
    """Seconds that an access token lives."""
    refresh_grace_seconds: Annotated[int, msgspec.Meta(ge=0, le=10)] = 0
    """Seconds in which the same client may present the token before the current one again, and gets the very same successor."""
    id_token_ttl: Seconds = 900
    """Seconds that an ID token lives."""
    code_ttl: Seconds = 60
    """Seconds that an authorization code lives."""
    par_ttl: Seconds = 60
    """Seconds that a pushed authorization request lives."""
    refresh_idle_ttl: Seconds = 1209600
    """Seconds without a use after which a refresh family ends."""
    refresh_absolute_ttl: Seconds = 7776000
    """Seconds after which a refresh family ends, used or not."""
    consent_ttl: Seconds = 600
    """Seconds in which the consent page may be answered."""


SecretLength = Annotated[int, msgspec.Meta(ge=1, le=256)]


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[oauth]: protocol switches."""

    require_pkce: Literal["public", "all", "never"] = "public"
    """Which clients must use PKCE (RFC 7636); S256 alone is offered."""
    allow_private_use_schemes: bool = False
    """Whether redirect URIs may have a private-use scheme (RFC 8252 s7.1)."""
    allow_private_logout_hosts: bool = False
    """Whether back-channel logout notifications may go to addresses that are not public."""
    min_client_secret_length: SecretLength = 22
    """Characters that a chosen client secret has at least; 22 random ones of base64url are 128 bits. `client_secret_jwt` needs 32 bytes."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """[[rbac.role]]: who may do what in the admin API."""

    name: str
    """What the role is called in this file."""
    permissions: tuple[str, ...] = ()
    """Permission names, `*`, or `<resource>:*`."""
    users: tuple[str, ...] = ()
    """Short names or name@REALM."""
    groups: tuple[str, ...] = ()
    """Names of groups, of whatever directory."""


class Rbac(msgspec.Struct, frozen=True, kw_only=True):
    """[rbac]: roles of the admin API."""

    role: tuple[Role, ...] = ()
    """Roles; without any, every admin call is refused."""
    admin_acr_values: tuple[str, ...] = ()
    """Values of `[[acr]]` of which the session of an administrator must have one, or a stronger one; without any, every sign-in will do."""


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """[[acr]]: a class of sign-ins that applications see in `acr` and may ask for, one table for each."""

    value: Annotated[str, msgspec.Meta(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]{1,256}$")]
    """What applications call it, such as a URN; visible ASCII without spaces."""
    level: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    """How strong it is: a sign-in of one level is good for every lower one. Each table has its own."""
    satisfied_by: tuple[str, ...] = ()
    """Methods (`amr`) that reach it, each entry one way: `"mfa"`, or several with + between them, such as `"pwd+otp"`."""


LONGEST_TEXT, MOST_LINKS = 500, 10
_LINK = re.compile(r"(?:https?://[^\s/]+|mailto:[^\s/]+@|/(?!/))[^\s]*")
Words = str | dict[str, str]
"""A text of an organisation: one for every language, or one for each by its tag."""


class FootLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link at the foot of every page."""

    words: Words
    url: str
    """An http, https or mailto URL, or a path of this service that begins with /."""


class WebUi(msgspec.Struct, frozen=True, kw_only=True):
    """[webui]: how pages look, and what they say."""

    logo_url: str | None = None
    """An image on every page: an http or https URL, or a path of this service that begins with /."""
    default_theme: Literal["light", "dark"] | None = None
    """The theme of the pages; the browser's choice when left out."""
    display_name: str | None = None
    """What the service calls itself; the host of the issuer when left out."""
    accent_color: Annotated[str, msgspec.Meta(pattern=r"^#[0-9a-fA-F]{6}$")] | None = None
    """The colour of links and buttons, such as #7a1fa2; blue when left out. Where it would be hard to read it is made darker or lighter."""
    logo_url_dark: str | None = None
    """The logo in the dark theme; logo_url when left out."""
    sign_in_text: Words | None = None
    """What the sign-in page says below its form."""
    help_text: Words | None = None
    """Where people find help: at the foot of every page."""
    links: tuple[FootLink, ...] = ()
    """At the foot of every page, such as an imprint; at most ten."""
    languages: tuple[str, ...] = ()
    """The languages of pages and mails, such as de and en: the first for whoever wishes no other. All that there are when left out."""

    def __post_init__(self) -> None:
        for key, url in (("logo_url", self.logo_url), ("logo_url_dark", self.logo_url_dark)):
            if url is not None and not _is_image_url(url):
                raise ValueError(
                    f"{key}: {url!r}: expected https://host/path or /path, without spaces, quotes, semicolons and commas; "
                    "write other characters with %"
                )
        for key, words in (
            ("sign_in_text", self.sign_in_text),
            ("help_text", self.help_text),
            *(("links", one.words) for one in self.links),
        ):
            if not _are_shown(words):
                raise ValueError(f"{key}: expected a text of 1 to {LONGEST_TEXT} characters in one line, or a table of them by language")
        if len(self.links) > MOST_LINKS:
            raise ValueError(f"links: expected {MOST_LINKS} at most")
        for link in self.links:
            if not _LINK.fullmatch(link.url):
                raise ValueError(f"links: {link.url!r}: expected an http, https or mailto URL, or a path that begins with /")


def _are_shown(words: Words | None) -> bool:
    if words is None:
        return True
    texts = [words] if isinstance(words, str) else [*words.values(), *words]
    return bool(texts) and all(0 < len(text) <= LONGEST_TEXT and text.isprintable() for text in texts)


def _is_image_url(url: str) -> bool:
    """Whether it is the URL of an image that the policy of the pages can name: inline, a path of this origin, or of an origin."""
    if _INLINE.fullmatch(url):
        return True
    if not _IN_POLICY.fullmatch(url):
        return False
    if url.startswith("/"):
        return not url.startswith("//")
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and named and "@" not in parts.netloc and "*" not in parts.netloc
