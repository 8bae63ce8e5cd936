"""The configuration keys of email-reply-00."""

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from greatseal.api.declarations import Secret
from greatseal.api.folders import is_program

_ADDRESS = re.compile(r"[A-Za-z0-9][!#-?A-Z^-~]*@[a-z0-9.-]+", re.ASCII)


class EmailChallenge(msgspec.Struct, frozen=True, kw_only=True):
    """[email_challenge]: who sends challenge mails, and who may tell of replies."""

    enabled: bool = False
    """Whether mail addresses can be proven. The keys without a default must then be given."""
    from_address: str = ""
    """The address that challenge mails come from and that people answer to."""
    send_script: Path | None = None
    """The program that sends a challenge mail: it finds the mail in its environment, and ends with 0 when the mail is on its way."""
    send_script_timeout_secs: Annotated[float, msgspec.Meta(gt=0, le=300)] = 30.0
    """How long the program may take; then it is killed and the challenge has failed."""
    webhook_hmac_secret: Secret | None = None
    """What signs the calls of /acme/email-webhook."""
    send_on: Literal["post", "authorization"] = "post"
    """When the mail is sent: when the client answers the challenge, or with the new authorization as RFC 8823 says."""

    def __post_init__(self) -> None:
        if self.enabled and (problems := [*filter(None, (self._sender_problem(), self._script_problem(), self._secret_problem()))]):
            raise ValueError("; ".join(problems))

    def _sender_problem(self) -> str | None:
        if not self.from_address:
            return "from_address is missing: the address that challenge mails come from"
        return None if _ADDRESS.fullmatch(self.from_address) else f"from_address: {self.from_address!r} is no mail address"

    def _script_problem(self) -> str | None:
        if self.send_script is None:
            return "send_script is missing: the program that sends challenge mails"
        return None if is_program(self.send_script) else f"send_script: {self.send_script} is no file that can be executed"

    def _secret_problem(self) -> str | None:
        given = self.webhook_hmac_secret is not None and self.webhook_hmac_secret.value
        return None if given else "webhook_hmac_secret is missing: the secret that signs what is told of replies"
