#!/usr/bin/env python3
"""Send a challenge mail (RFC 8823 s3.1) through the SMTP server of this machine: ``[email_challenge] send_script``.

The mail is in the environment, the server in ``mail.toml`` beside this file. Ends with 0 when the server took the mail, else with a
number of sysexits.h; syslog (facility mail) and standard error say why.
"""

import os
import smtplib
import sys
import syslog
import tomllib
from collections.abc import Mapping
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from typing import NoReturn

EX_USAGE, EX_UNAVAILABLE, EX_TEMPFAIL, EX_CONFIG = 64, 69, 75, 78
SECONDS = 20
"""For each answer of the server; the service waits 30 for the whole."""
VARIABLES = ("ACME_TO", "ACME_FROM", "ACME_SUBJECT", "ACME_MESSAGE_ID", "ACME_AUTO_SUBMITTED")
TEXT = """\
Somebody asked for a certificate for your mail address {to}.

If it was you, your mail program or ACME client answers this mail. If it
shows you a response instead, reply to this mail, keep the subject, and put
the response into the text as it is.

If it was not you, do nothing: without your answer nobody gets a certificate.
"""


def main() -> None:
    mail = challenge(os.environ)
    host, port = server(Path(__file__).with_name("mail.toml"))
    try:
        with smtplib.SMTP(host, port, timeout=SECONDS) as connection:
            connection.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        (answer,) = error.recipients.values()
        end(*refused(answer[0], answer[1]))
    except smtplib.SMTPResponseException as error:
        end(*refused(error.smtp_code, error.smtp_error))
    except (OSError, smtplib.SMTPException) as error:
        end(EX_TEMPFAIL, f"the SMTP server {host}:{port} is away: {error}")


def challenge(environ: Mapping[str, str]) -> EmailMessage:
    """The mail. Nothing of the environment can add a header or an address."""
    if missing := [name for name in VARIABLES if not environ.get(name)]:
        end(EX_USAGE, f"{', '.join(missing)} missing in the environment; the service sets them")
    to, sender, subject, message_id, auto_submitted = (environ[name] for name in VARIABLES)
    mail = EmailMessage(policy=SMTP)
    try:
        if not all(environ[name].isascii() and environ[name].isprintable() for name in VARIABLES):
            raise ValueError("a character beyond printable ASCII")
        mail["From"], mail["To"] = Address(addr_spec=sender), Address(addr_spec=to)
        mail["Subject"], mail["Message-ID"], mail["Auto-Submitted"] = subject, message_id, auto_submitted
        mail["Date"] = formatdate(localtime=True)
    except (ValueError, IndexError) as error:
        end(
            EX_USAGE,
            f"no mail can be made of {dict(zip(VARIABLES, (to, sender, subject, message_id, auto_submitted), strict=True))}: {error}",
        )
    mail.set_content(TEXT.format(to=to))
    return mail


def server(path: Path) -> tuple[str, int]:
    """Host and port of ``[send]``."""
    try:
        settings = tomllib.loads(path.read_text())["send"]
        return str(settings["host"]), int(settings["port"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        end(EX_CONFIG, f"{path}: [send] needs host and port: {error!r}")


def refused(code: int, text: bytes | str) -> tuple[int, str]:
    """What an answer of the server means (RFC 5321 s4.2.1)."""
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    return EX_UNAVAILABLE if code >= 500 else EX_TEMPFAIL, f"the SMTP server said {code} {said}"


def end(code: int, why: str) -> NoReturn:
    syslog.openlog("send_challenge", facility=syslog.LOG_MAIL)
    syslog.syslog(syslog.LOG_ERR, why)
    print(f"send_challenge: {why}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
