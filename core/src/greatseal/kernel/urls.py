"""The base URL and the issuer."""

import ipaddress
import re

from greatseal.http.hosts import is_host
from greatseal.kernel.settings import Server

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[^]]*\]|[^:/\[\]]+)(?::(?P<port>[1-9][0-9]{0,4}))?(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)*", re.ASCII
)


def base_and_issuer(server: Server) -> tuple[str, str, list[str]]:
    """Both URLs, each defaulting to the other, and what is wrong with them."""
    base, issuer = server.base_url or server.issuer, server.issuer or server.base_url
    if base is None or issuer is None:
        return "", "", ['[server] base_url: must be given (or issuer); for example base_url = "https://id.example.org"']
    given = (("base_url", server.base_url), ("issuer", server.issuer))
    return base, issuer, [f"[server] {key}: {url!r}{problem}" for key, url in given if url and (problem := _problem(url))]


def _problem(url: str) -> str | None:
    """What is wrong with a URL. One spelling is right, because clients compare it byte by byte and paths are appended to it."""
    if "?" in url or "#" in url or url.endswith("/"):
        return ": expected no query, no fragment and no final slash"
    if not url.startswith(("http://", "https://")) or "@" in url.split("/")[2]:
        return ": expected http:// or https:// and a host"
    authority = url.split("/")[2]
    if not url.isascii() or not url.isprintable() or " " in url or authority != authority.lower():
        return ": expected lower-case ASCII without spaces"
    parts = _URL.fullmatch(url)
    if parts is None or not is_host(parts["host"]) or int(parts["port"] or 0) > 65535:
        return " is not a URL: expected https://host, perhaps with :port and a /path of letters, digits, - . _ ~, no part . or .."
    if parts["scheme"] == "http" and not is_loopback(parts["host"].strip("[]")):
        return ": plain http is for loopback names only; use https:// (a proxy may terminate TLS)"
    return None


def is_loopback(host: str) -> bool:
    """localhost, names under it, and loopback addresses."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
