"""The challenge mail (RFC 8823 s3.1), handed to the operator's program."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Literal

import msgspec

from greatseal.api.acme import Challenge
from greatseal.api.problems import RateLimited, Unreachable
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal_email_reply_00.settings import EmailChallenge

TOKEN_BYTES = 20
PROGRAMS = 16
"""Programs that run at once."""
MAILS, MAILS_SECONDS = 20, 3600.0
"""Mails to one address: whoever orders names it, and need not be its owner."""


class Mail(msgspec.Struct, frozen=True):
    """What is kept with a challenge. ``verdict`` is what a reply that came before the answer to the challenge was worth: what was wrong
    with it, empty for nothing; None while there was none."""

    token_part1: str
    message_id: str
    send_on: Literal["post", "authorization"]
    verdict: str | None = None


class Post:
    """Writes challenge mails and has them sent."""

    def __init__(self, host: Host, settings: EmailChallenge) -> None:
        assert settings.send_script is not None
        self.sender = settings.from_address
        self._domain = settings.from_address.rpartition("@")[2]
        self._script = settings.send_script.absolute()
        self._seconds = settings.send_script_timeout_secs
        self._host = host
        self._room = asyncio.Semaphore(PROGRAMS)

    def written(self, challenge: Challenge, send_on: Literal["post", "authorization"]) -> Mail:
        """A mail for a challenge. Its Message-ID is the id of the challenge, which a reply is found by."""
        return Mail(b64url_encode(secrets.token_bytes(TOKEN_BYTES)), f"<{challenge.id}@{self._domain}>", send_on)

    def challenge_id(self, message_id: str) -> str:
        """The id in a Message-ID of ours; of another, something that is no id."""
        return message_id.removeprefix("<").partition("@")[0]

    async def send(self, mail: Mail, address: str, token: str) -> None:
        """Run the program. Raises RateLimited, and Unreachable when the program did not end with 0 in time."""
        if (wait := self._host.limits.hit("email-reply-00", _mailbox(address), MAILS, MAILS_SECONDS)) is not None:
            raise RateLimited(f"{address} had {MAILS} challenge mails within an hour; try again in {wait} seconds")
        async with self._room:
            try:
                ended = await self._host.scripts.run(self._script, env=self.environment(mail, address, token), timeout=self._seconds)
            except OSError as error:
                raise _unsent(address, f"send_script {self._script} cannot be run: {error}") from None
        if ended.timed_out:
            raise _unsent(address, f"send_script {self._script} did not end within {self._seconds:g} seconds")
        if ended.code != 0:
            raise _unsent(address, f"send_script {self._script} ended with {ended.code}")

    def environment(self, mail: Mail, address: str, token: str) -> Mapping[str, str]:
        """All that the program is told."""
        return {
            "ACME_TO": address,
            "ACME_FROM": self.sender,
            "ACME_SUBJECT": f"ACME: {mail.token_part1}",
            "ACME_MESSAGE_ID": mail.message_id,
            "ACME_AUTO_SUBMITTED": "auto-generated; type=acme",
            "ACME_TOKEN_PART2": token,
        }


def _mailbox(address: str) -> str:
    """One text for what most mail servers put into one mailbox: the local part in any case and with any tag after a plus."""
    local, _, domain = address.lower().rpartition("@")
    return f"{local.partition('+')[0] or local}@{domain}"


def _unsent(address: str, cause: str) -> Unreachable:
    return Unreachable(f"the challenge mail to {address} could not be sent", cause=cause)
