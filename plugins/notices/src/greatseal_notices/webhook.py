"""Notices to a program: JSON, POSTed to one URL and signed."""

from hashlib import sha256
from hmac import digest as hmac_digest

import msgspec

from greatseal.api.moments import seconds
from greatseal.api.notices import Letter, NoticeCarrier, Undeliverable
from greatseal.api.problems import IncorrectResponse
from greatseal.host import Host
from greatseal.net import fetch
from greatseal_notices.outward import ANYWHERE, resolver_of
from greatseal_notices.settings import NoticesSettings

SIGNATURE = "X-Service-Signature"
"""``sha256=`` and the HMAC over the body in hexadecimal."""
TIMEOUT = 10.0
TAKEN = frozenset({200, 201, 202, 204})
FOR_GOOD = frozenset(range(400, 500)) - {401, 403, 404, 408, 425, 429}
"""Statuses that another attempt with the same body does not change; somebody may mend a key or a path."""


class WebhookCarrier(NoticeCarrier):
    """It never gets a notice with a link: who reads what is POSTed need not be the person."""

    name = "webhook"
    deadline = TIMEOUT + 1

    def __init__(self, host: Host, settings: NoticesSettings) -> None:
        assert settings.webhook_url is not None
        assert settings.webhook_hmac_secret is not None
        self._host = host
        self._url = settings.webhook_url
        self._secret = settings.webhook_hmac_secret.value.encode()

    async def carry(self, letter: Letter) -> bool:
        said = body_of(letter)
        signature = hmac_digest(self._secret, msgspec.json.encode(said), sha256).hex()
        answer = await fetch(
            self._url,
            resolver=resolver_of(self._host),
            policy=ANYWHERE,
            seconds=TIMEOUT,
            max_body=65_536,
            headers={SIGNATURE: f"sha256={signature}"},
            json=said,
        )
        if answer.status in TAKEN:
            return True
        problem = f"{self._url} answered with status {answer.status}"
        raise Undeliverable(problem) if answer.status in FOR_GOOD else IncorrectResponse(problem)


def body_of(letter: Letter) -> dict[str, object]:
    """The members of the body. ``id`` is the same when it comes again, ``at`` is seconds."""
    notice, person = letter.notice, letter.person
    return {
        "id": letter.id,
        "kind": notice.kind,
        "at": seconds(letter.told_at),
        "sub": notice.subject,
        "username": person.username,
        "email": person.email,
        "title": str(notice.title),
        "text": str(notice.text),
        "facts": {name: str(value) for name, value in notice.facts.items()},
    }
