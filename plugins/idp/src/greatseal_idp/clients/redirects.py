"""Redirect URIs: which may be registered, and which one of a request is a registered one (RFC 8252 s7, RFC 9700 s2.1 and s4.1.3).

Nothing is normalised: what is compared are strings, and what is odd is refused at the registration.
"""

import ipaddress
import re
from collections.abc import Sequence

from greatseal.api.clients import InvalidRedirectUri

MAX_LENGTH = 2048

_CHARACTERS = re.compile(r"(?:[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=]|%[0-9A-Fa-f]{2})+")
_URI = re.compile(r"([a-z][a-z0-9+.-]*):(.*)")
_WEB = re.compile(r"//([^/?]*)([^?]*)(.*)")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?")
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE)
_LOOPBACK = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?([/?].*)?")
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
# RFC 8252 s7.1: the reversed name of a domain, followed by a single slash or none.
_PRIVATE_USE = re.compile(r"[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+:(?!//).+")


def check_redirect_uri(uri: str, *, private_use: bool = False, what: str = "redirect_uris") -> None:
    """Raise InvalidRedirectUri unless ``uri`` may be registered as one of the field ``what``.

    https, or http with the host localhost, 127.0.0.1 or [::1]; with ``private_use`` also a scheme of RFC 8252 s7.1.
    """
    try:
        _check(uri, private_use=private_use, rule=" (RFC 9700 s2.6)" if what == "redirect_uris" else "")
    except ValueError as reason:
        raise InvalidRedirectUri(f"{what}: {reason}") from None


def matches(registered: Sequence[str], asked: str) -> bool:
    """Whether ``asked`` is a registered one: the same string, or the same http loopback URI with another port (RFC 8252 s7.3)."""
    if asked in registered:
        return True
    wanted = _without_port(asked)
    if wanted is None or wanted not in map(_without_port, registered):
        return False
    try:
        _check(asked, private_use=False)
    except ValueError:
        return False
    return True


def _without_port(uri: str) -> tuple[str, str] | None:
    loopback = _LOOPBACK.fullmatch(uri)
    return (loopback[1], loopback[2] or "") if loopback else None


def _check(uri: str, *, private_use: bool, rule: str = "") -> None:
    """``rule`` is the one against http, for URIs to which it applies."""
    if not uri or len(uri) > MAX_LENGTH:
        raise ValueError(f"a URI has 1 to {MAX_LENGTH} characters")
    if "#" in uri:
        raise ValueError("an absolute URI has no fragment (RFC 3986 s4.3)")
    if _CHARACTERS.fullmatch(uri) is None:
        raise ValueError("a URI has none but the characters of RFC 3986 s2, and no wildcard")
    parts = _URI.fullmatch(uri)
    if parts is None:
        raise ValueError("a URI is absolute, with its scheme in lower case (RFC 3986 s4.3)")
    scheme, rest = parts.groups()
    if scheme in {"https", "http"}:
        _check_web(scheme, rest, rule)
    elif not (private_use and _PRIVATE_USE.fullmatch(uri)):
        raise ValueError("a URI begins with https://, or with http:// and the host localhost, 127.0.0.1 or [::1]")


def _check_web(scheme: str, rest: str, rule: str) -> None:
    parts = _WEB.fullmatch(rest)
    if parts is None:
        raise ValueError(f"{scheme}: is followed by // (RFC 9110 s4.2)")
    authority, path, _ = parts.groups()
    if "@" in authority:
        raise ValueError("a URI has no user information")
    split = _AUTHORITY.fullmatch(authority)
    if split is None:
        raise ValueError("the host is a name in ASCII, an IPv4 address, or an IPv6 address in brackets (RFC 3986 s3.2.2)")
    host, port = split.groups()
    if host.startswith("[") and not _is_ipv6(host[1:-1]):
        raise ValueError("the host is no IPv6 address (RFC 3986 s3.2.2)")
    if port is not None and not 1 <= int(port) <= 65535:
        raise ValueError("the port is 1 to 65535 (RFC 9110 s4.2)")
    if scheme == "http" and host not in _LOOPBACK_HOSTS:
        raise ValueError(f"http is for the hosts localhost, 127.0.0.1 and [::1] alone; use https{rule}")
    if _DOT_SEGMENT.search(path):
        raise ValueError("the path has no dot segments")


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
