"""Mail on loopback: an SMTP server (aiosmtpd) for the CA and for everybody, who sign what they send (dkimpy), as npm mailauth sees it."""

import asyncio
import base64
import json
import queue
import re
import shutil
import smtplib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from rig.server import Server

from greatseal.testing.service import free_port

EXAMPLE = Path(__file__).parents[2] / "examples/email-reply-00"
FROM, MTA, SECRET = "acme@ca.example", "mx.ca.example", "the secret of the mail server"
SELECTOR = "sel"
SIGNED = b"from to subject date in-reply-to message-id content-type content-transfer-encoding mime-version".split()
ANSWERS = {0: "250 taken", 75: "451 try again"}


class Domain:
    """A domain that signs its mail."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = rsa.generate_private_key(65537, 2048)

    @property
    def record(self) -> tuple[str, str]:
        """Name and text of what DNS says."""
        public = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return f"{SELECTOR}._domainkey.{self.name}", f"v=DKIM1; k=rsa; p={base64.b64encode(public).decode()}"

    def signed(self, mail: bytes, *unsigned: bytes) -> bytes:
        """With a signature over what RFC 8823 wants, but for the headers named here."""
        import dkim

        pem = self.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        headers = [one for one in SIGNED if one not in unsigned]
        signature: bytes = dkim.sign(mail, SELECTOR.encode(), self.name.encode(), pem, include_headers=headers)
        return signature + mail


class Post:
    """The server. What comes for :data:`FROM` is judged and handed to the example; all else is kept for its reader."""

    def __init__(self, folder: Path, node: Path, script: Path, domains: list[Domain]) -> None:
        self.folder = folder
        self.command = [str(node), str(script), MTA, str(folder / "dns.json")]
        self.boxes: dict[str, queue.Queue[EmailMessage]] = defaultdict(queue.Queue)
        self.refuses: dict[str, str] = {}
        """Answers to RCPT, by address."""
        self.port = free_port()
        (folder / "dns.json").write_text(json.dumps(dict(domain.record for domain in domains)))

    def configure(self, server: Server, **keys: str) -> None:
        """The service sends and hears by the two programs of the example."""
        programs = {}
        for name in ("send_challenge.py", "receive_reply.py"):
            text = (EXAMPLE / name).read_text()
            programs[name] = Path(shutil.copy(EXAMPLE / name, self.folder))
            programs[name].write_text(re.sub(r"\A#!.*", f"#!{sys.executable}", text))
        settings = (EXAMPLE / "mail.toml").read_text()
        told = {
            '"localhost"': '"127.0.0.1"',
            "port = 25": f"port = {self.port}",
            "https://ca.example.org": server.base_url,
            "/etc/greatseal/webhook-secret": str(self.folder / "secret"),
            "mx.example.org": MTA,
        }
        for old, new in told.items():
            assert old in settings
            settings = settings.replace(old, new)
        (self.folder / "mail.toml").write_text(settings)
        (self.folder / "secret").write_text(f"{SECRET}\n")
        own = {"from_address": FROM, "send_script": str(programs["send_challenge.py"]), **keys}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items())
        section = f'\n[email_challenge]\nenabled = true\n{lines}webhook_hmac_secret = {{ file = "{self.folder / "secret"}" }}\n'
        with server.configuration.open("a") as file:
            file.write(f'{section}\n[profiles.default]\neku = ["emailProtection"]\nsubject = "none"\n')

    @contextmanager
    def served(self) -> Iterator["Post"]:
        from aiosmtpd.controller import Controller

        controller = Controller(self, hostname="127.0.0.1", port=self.port, ready_timeout=60)
        controller.start()
        try:
            yield self
        finally:
            controller.stop()

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        if envelope.rcpt_tos != [FROM]:
            for address in envelope.rcpt_tos:
                self.boxes[address].put(message_from_bytes(envelope.content, policy=policy.default))
            return "250 kept"
        return await asyncio.to_thread(self._hand_over, envelope.content)

    def _hand_over(self, mail: bytes) -> str:
        judged = subprocess.run(self.command, input=mail, stdout=subprocess.PIPE, check=True, timeout=60).stdout
        done = subprocess.run([str(self.folder / "receive_reply.py")], input=judged + mail, check=False, timeout=60)
        return ANSWERS.get(done.returncode, "554 given up")

    def read(self, address: str) -> EmailMessage:
        """The next mail for somebody, when it is there."""
        return self.boxes[address].get(timeout=60)

    def deliver(self, sender: str, mail: bytes) -> int:
        """Send it to the CA; what the server answered."""
        with smtplib.SMTP("127.0.0.1", self.port, timeout=60) as connection:
            try:
                connection.sendmail(sender, [FROM], mail)
            except smtplib.SMTPResponseException as error:
                return error.smtp_code
        return 250


def reply(mail: EmailMessage, address: str, response: str) -> bytes:
    """A reply as a mail program writes it."""
    made = EmailMessage(policy=policy.SMTP)
    made["From"], made["To"], made["Date"] = f"Somebody <{address}>", mail["From"], formatdate()
    made["Subject"], made["In-Reply-To"] = f"Re: {mail['Subject']}", mail["Message-ID"]
    made["Message-ID"] = make_msgid(domain=address.rpartition("@")[2])
    block = f"-----BEGIN ACME RESPONSE-----\n{response}\n-----END ACME RESPONSE-----"
    made.set_content(f"Here you are:\n\n{block}\n\n> {mail.get_content().splitlines()[0]}\n")
    return bytes(made)
