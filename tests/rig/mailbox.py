"""A mail server on loopback (aiosmtpd) that people read their mail at: with TLS, a sign-in, and answers that a test chooses."""

import queue
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal

import trustme

from greatseal.testing.service import free_port

USER, PASSWORD = "greatseal", "the password of the mail account"
Protection = Literal["starttls", "implicit", "off"]


class Mailbox:
    """Keeps what it takes. ``rcpt`` and ``data`` are answers for the next commands, in order; then all is taken."""

    def __init__(self, folder: Path, protection: Protection = "starttls", *, name: str = "localhost") -> None:
        self.protection = protection
        self.port = free_port()
        self.mails: queue.Queue[EmailMessage] = queue.Queue()
        self.envelopes: list[tuple[str, list[str]]] = []
        self.rcpt: list[str] = []
        self.data: list[str] = []
        self.signed_in: list[str] = []
        ca = trustme.CA()
        self.ca_file = folder / "mail-ca.pem"
        ca.cert_pem.write_to_path(self.ca_file)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(name).configure_cert(self._context)

    def settings(self, **changes: Any) -> dict[str, Any]:
        """[notices] for this server."""
        own: dict[str, Any] = {"smtp_server": f"localhost:{self.port}", "smtp_tls": self.protection, "from_address": "accounts@example.org"}
        if self.protection != "off":
            own["smtp_ca_cert_file"] = str(self.ca_file)
        if self.protection == "starttls":
            own |= {"smtp_username": USER, "smtp_password": PASSWORD}
        return {**own, **changes}

    @contextmanager
    def served(self) -> Iterator["Mailbox"]:
        from aiosmtpd.controller import Controller

        wanted: dict[str, Any] = {}
        if self.protection == "starttls":
            login = {"authenticator": self._authenticated, "auth_required": True}
            wanted = {"tls_context": self._context, "require_starttls": True, **login}
        elif self.protection == "implicit":  # of which aiosmtpd does not know that a password is safe in it
            wanted = {"ssl_context": self._context}
        controller = Controller(self, hostname="127.0.0.1", port=self.port, ready_timeout=60, **wanted)
        controller.start()
        try:
            yield self
        finally:
            controller.stop()

    def read(self) -> EmailMessage:
        """The next mail, when it is there."""
        return self.mails.get(timeout=30)

    def _authenticated(self, _server: Any, _session: Any, _envelope: Any, mechanism: str, data: Any) -> Any:
        from aiosmtpd.smtp import AuthResult

        right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        self.signed_in.append(f"{mechanism} {'right' if right else 'wrong'}")
        return AuthResult(success=right, handled=False)

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        answer = self.rcpt.pop(0) if self.rcpt else "250 OK"
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        answer = self.data.pop(0) if self.data else "250 kept"
        if answer.startswith("2"):
            self.envelopes.append((envelope.mail_from, envelope.rcpt_tos))
            self.mails.put(message_from_bytes(envelope.content, policy=policy.default))
        return answer
