"""The base URL and the issuer (decisions, "Base URL"; ruling R7)."""

import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from greatseal.kernel.settings import Server


def base_and_issuer(server: Server) -> tuple[str, str, list[str]]:
    """Both URLs, each defaulting to the other, and what is wrong with them."""
    base, issuer = server.base_url or server.issuer, server.issuer or server.base_url
    if base is None or issuer is None:
        return "", "", ['[server] base_url: must be given (or issuer); for example base_url = "https://id.example.org"']
    given = (("base_url", server.base_url), ("issuer", server.issuer))
    problems = [problem for key, url in given if url and (problem := _problem(key, url))]
    return base, issuer, problems


def _problem(key: str, url: str) -> str | None:
    where = f"[server] {key}: {url!r}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"{where} is not a URL: {error}"
    if parts.scheme not in {"http", "https"} or not host or parts.username is not None:
        return f"{where}: expected http:// or https:// and a host"
    if parts.query or parts.fragment or url.endswith("/"):
        return f"{where}: expected no query, no fragment and no final slash"
    if url != url.strip() or not url.isascii() or not url.isprintable() or host != host.lower() or parts.netloc != parts.netloc.lower():
        return f"{where}: expected lower-case ASCII without spaces"
    if parts.scheme == "http" and not is_loopback(host):
        return f"{where}: plain http is for loopback names only; use https:// (a proxy may terminate TLS)"
    return None


def is_loopback(host: str) -> bool:
    """localhost, names under it, and loopback addresses."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def state_folder(database_url: str) -> Path:
    """Where files that belong to the service rest: beside the SQLite file, else ``var``."""
    if database_url.startswith("sqlite:///"):
        return Path(database_url.removeprefix("sqlite:///")).parent
    return Path("var")
