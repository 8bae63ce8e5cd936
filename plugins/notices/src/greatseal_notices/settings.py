"""The configuration keys of notices."""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from greatseal.api.declarations import Secret

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
ADDRESS = re.compile(rf"(?=.{{1,64}}@){_ATOM}(?:\.{_ATOM})*@[A-Za-z0-9](?:[A-Za-z0-9.-]{{0,251}}[A-Za-z0-9])?", re.ASCII)
"""A mail address without quotes and comments (RFC 5321 s4.1.2, Dot-string and Domain)."""
_SERVER = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_PORTS = {"starttls": 587, "implicit": 465, "off": 25}
LEAST_SECRET = 16


class NoticesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[notices]: how people, and programs, are told what changed in an account."""

    smtp_server: str | None = None
    """The mail server, `host` or `host:port`; left out, no mail is sent."""
    smtp_tls: Literal["starttls", "implicit", "off"] = "starttls"
    """How the connection is protected: STARTTLS (port 587), TLS from the first byte (465), or, to this machine alone, not at all (25)."""
    smtp_ca_cert_file: Path | None = None
    """PEM of the authorities that the server's certificate may come from; left out, those of the system."""
    smtp_username: str | None = None
    """The name by which the service signs in to the mail server; left out, it does not."""
    smtp_password: Secret | None = None
    """The password of that name."""
    smtp_timeout_secs: Annotated[float, msgspec.Meta(gt=0, le=50)] = 30.0
    """Seconds in which a mail must be taken; then it is tried again later."""
    from_address: str = ""
    """The address that mails come from. It must be given with `smtp_server`."""
    webhook_url: str | None = None
    """An https URL to which every notice is POSTed; http for this machine alone."""
    webhook_hmac_secret: Secret | None = None
    """What signs these calls. It must be given with `webhook_url`."""

    def __post_init__(self) -> None:
        if problems := [*filter(None, (self._mail_problem(), self._login_problem(), self._webhook_problem()))]:
            raise ValueError("; ".join(problems))

    @property
    def server(self) -> tuple[str, int]:
        """Host and port of the mail server. Only with `smtp_server`."""
        found = _SERVER.fullmatch(self.smtp_server or "")
        assert found is not None  # as __post_init__ saw to
        return found["host"].strip("[]"), int(found["port"] or _PORTS[self.smtp_tls])

    def _mail_problem(self) -> str | None:
        if self.smtp_server is None:
            return None
        found = _SERVER.fullmatch(self.smtp_server)
        if found is None or not 0 < int(found["port"] or 25) < 65536:
            return f"smtp_server: {self.smtp_server!r}: expected a host, or host:port"
        if not self.from_address:
            return "from_address is missing: the address that mails come from"
        if not ADDRESS.fullmatch(self.from_address):
            return f"from_address: {self.from_address!r} is no mail address"
        if self.smtp_tls == "off" and not is_loopback(found["host"].strip("[]")):
            return 'smtp_tls = "off" is for a mail server of this machine; use "starttls" or "implicit"'
        return None

    def _login_problem(self) -> str | None:
        if (self.smtp_username is None) != (self.smtp_password is None):
            return "smtp_username and smtp_password go together"
        return None

    def _webhook_problem(self) -> str | None:
        if self.webhook_url is None:
            return None
        try:
            parts = urlsplit(self.webhook_url)
            host = parts.hostname or ""
            usable = bool(host) and parts.port != 0 and "@" not in parts.netloc
        except ValueError:
            usable = False
        if not usable or parts.scheme not in {"http", "https"} or (parts.scheme == "http" and not is_loopback(host)):
            return f"webhook_url: {self.webhook_url!r}: expected https://host/path, or http:// for this machine"
        if self.webhook_hmac_secret is None or len(self.webhook_hmac_secret.value) < LEAST_SECRET:
            return f"webhook_hmac_secret: expected {LEAST_SECRET} characters or more, which the receiver has too"
        return None


def is_loopback(host: str) -> bool:
    """Whether it is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """[webui]: the name of the service in mails."""

    display_name: str | None = None
    """What the service calls itself; the host of the issuer when left out."""
