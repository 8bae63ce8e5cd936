"""Trust marks that the entity configuration shows (OpenID Federation 1.0 s7), each from a file that may be renewed at any time."""

from collections.abc import Sequence
from pathlib import Path

from greatseal.api.moments import SECOND
from greatseal.host import Host
from greatseal.jose.compact import parse_compact
from greatseal.jose.strict import decode_object
from greatseal_openid_federation.settings import TrustMarkFile
from greatseal_openid_federation.statements import TRUST_MARK

LARGEST = 64 * 1024


class TrustMarks:
    """Those of the configuration that are good now; of others :meth:`problems` tells."""

    def __init__(self, host: Host, files: Sequence[TrustMarkFile]) -> None:
        self._host = host
        self._files = files

    async def current(self) -> list[dict[str, str]]:
        """The claim ``trust_marks``."""
        found = await self._read() if self._files else []
        return [{"trust_mark_type": table.trust_mark_type, "trust_mark": text} for table, text, problem in found if problem is None]

    async def problems(self) -> list[str]:
        """What is wrong with files, one line each."""
        return [f"{table.file}: {problem}" for table, _, problem in await self._read() if problem is not None]

    async def _read(self) -> list[tuple[TrustMarkFile, str, str | None]]:
        return await self._host.blocking.run("trust-marks", self.read)

    def read(self) -> list[tuple[TrustMarkFile, str, str | None]]:
        """Each with its text, and what is wrong with it."""
        found: list[tuple[TrustMarkFile, str, str | None]] = []
        for table in self._files:
            try:
                text = _text(table.file)
            except OSError as error:
                found.append((table, "", f"it cannot be read: {error.strerror}"))
            else:
                found.append((table, text, problem_of(text, table.trust_mark_type, self._host.issuer, self._host.clock.now() // SECOND)))
        return found


def problem_of(text: str, trust_mark_type: str, subject: str, now: int) -> str | None:
    """What is wrong with a trust mark; None for one that is good. ``now`` is seconds. Who issued it, others decide."""
    try:
        jws = parse_compact(text)
        claims = decode_object(jws.payload)
    except ValueError as error:
        return f"it is no signed JWT: {error}"
    expires = claims.get("exp", now + 1)
    if jws.header.get("typ") != TRUST_MARK:
        return f"its typ is not {TRUST_MARK}"
    if claims.get("sub") != subject or claims.get("trust_mark_type") != trust_mark_type:
        return f"sub is not {subject}, or trust_mark_type is another one"
    if not isinstance(expires, int | float) or expires <= now:
        return "it has expired; get a new one of its issuer"
    return None


def _text(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(LARGEST).decode("ascii", "replace").strip()
