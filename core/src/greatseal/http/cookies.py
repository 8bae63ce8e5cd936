"""Cookies that no subdomain and no plain connection can set (RFC 6265bis s4.1.3.2)."""

import re
from typing import Literal

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_VALUE = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*")


def cookie_name(name: str, *, secure: bool) -> str:
    """``__Host-name`` under https; the bare name for a loopback http issuer, whose browser would refuse the prefix."""
    return f"__Host-{name}" if secure else name


def set_cookie(
    name: str, value: str, *, max_age: int, secure: bool, same_site: Literal["Lax", "Strict", "None"] = "Lax"
) -> tuple[str, str]:
    """The Set-Cookie header of a cookie for this host and every path that scripts cannot read; ``max_age`` in seconds.

    Raises ValueError for a name or value outside RFC 6265 s4.1.1.
    """
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError("a cookie's name and value are made of visible ASCII without separators")
    parts = [f"{cookie_name(name, secure=secure)}={value}", "Path=/", f"Max-Age={max_age}", "HttpOnly", f"SameSite={same_site}"]
    if secure:
        parts.append("Secure")
    return "Set-Cookie", "; ".join(parts)


def clear_cookie(name: str, *, secure: bool) -> tuple[str, str]:
    """The Set-Cookie header that ends it."""
    return set_cookie(name, "", max_age=0, secure=secure)


def cookie_of(header: str, name: str, *, secure: bool) -> str | None:
    """The value of a cookie in a Cookie header; None when it is absent or there twice, since then somebody planted one."""
    wanted = cookie_name(name, secure=secure)
    pairs = (part.strip().partition("=") for part in header.split(";"))
    values = [value for found, equals, value in pairs if equals and found == wanted]
    return values[0] if len(values) == 1 and _VALUE.fullmatch(values[0]) else None
