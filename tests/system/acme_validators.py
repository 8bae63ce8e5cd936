"""Challenge types for tests: one that waits for the test, one that fails in every way, one for wildcards, one that others decide."""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from greatseal import hookimpl
from greatseal.api.acme import VALID, WAIT, Attempt, Caa, Challenge, ChallengeValidator, Verdict
from greatseal.api.http import Discovery
from greatseal.api.issuance import Finalization, FinalizeCheck, FinalizePhase
from greatseal.api.problems import BadRequest, DnsFailure, IncorrectResponse, TlsFailure
from greatseal.api.store import Tx
from greatseal.testing.distributions import install


class Gate:
    """Validations of ``gate-01`` stand here until it opens."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = self.most = self.passed = 0

    async def passage(self) -> None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1
        self.passed += 1


class Barring(FinalizeCheck):
    """Refuses the name ``<phase>.localhost``, and what an onion service says of itself in band."""

    def __init__(self, phase: FinalizePhase) -> None:
        self.name = f"barring-{phase}"
        self.phase = phase

    async def check(self, finalization: Finalization) -> None:
        in_band = finalization.payload.get("onionCAA")
        if self.phase == "policy" and isinstance(in_band, dict):
            raise Caa("; ".join(f"{name} says {said['caa']}" for name, said in in_band.items()))
        if any(one.identifier.value == f"{self.phase}.localhost" for one in finalization.identifiers):
            raise Caa(f"{self.phase}: {'no CSR' if finalization.csr is None else 'a CSR'}")


class Gated(ChallengeValidator):
    type = "gate-01"
    identifier_types = frozenset({"dns"})

    def __init__(self) -> None:
        self.gate = Gate()

    async def validate(self, attempt: Attempt) -> Verdict:
        await self.gate.passage()
        return VALID


class Failing(ChallengeValidator):
    """Fails as the name says, for example ``oserror.localhost``; its challenge objects claim what is not its own to say."""

    type = "fail-01"
    identifier_types = frozenset({"dns"})
    deadline = 0.05

    def __init__(self) -> None:
        self.tried = 0

    def members(self, challenge: Challenge) -> dict[str, object]:
        return {"token": challenge.token, "status": "valid", "url": "https://elsewhere.example/", "validated": "long ago", "error": {}}

    async def start(self, attempt: Attempt) -> bool:  # type: ignore[override]  # a third party's, without types
        if attempt.identifier.value == "start.localhost":
            raise IncorrectResponse("the mail could not be sent")
        return attempt.identifier.value == "started.localhost"

    async def validate(self, attempt: Attempt) -> Verdict:
        self.tried += 1
        match attempt.identifier.value.partition(".")[0]:
            case "oserror":
                raise ConnectionRefusedError(111, "Connection refused")
            case "name":
                raise DnsFailure("NXDOMAIN")
            case "handshake":
                raise TlsFailure("handshake failure")
            case "bug":
                raise KeyError("secret detail")
            case "slow":
                await asyncio.Event().wait()
            case "nothing":
                return None  # type: ignore[return-value]
            case "false":
                return False  # type: ignore[return-value]
            case "cancelled":
                part = asyncio.ensure_future(asyncio.sleep(3600))
                part.cancel()
                await part
            case "quits":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(3600)
        raise IncorrectResponse("found nothing")


class Kept(msgspec.Struct):
    made: int = 0
    said: str = ""


class Wild(ChallengeValidator):
    """Proves wildcards; ``accept`` wants a member ``word``; somebody else decides."""

    type = "wild-01"
    identifier_types = frozenset({"dns", "email"})
    wildcard = True
    kept_as = Kept

    def create(self, tx: Tx, challenge: Challenge) -> Kept:
        return Kept(made=1)

    def members(self, challenge: Challenge) -> dict[str, object]:
        return {"said": challenge.kept.said, "made": challenge.kept.made}

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> Kept:
        word = payload.get("word")
        if not isinstance(word, str):
            raise BadRequest("word is missing")
        return Kept(made=challenge.kept.made, said=word)

    async def validate(self, attempt: Attempt) -> Verdict:
        return WAIT


class Plugin:
    def __init__(self) -> None:
        self.gated = Gated()
        self.failing = Failing()

    @hookimpl
    def challenge_validators(self) -> list[ChallengeValidator]:
        return [self.gated, self.failing, Wild()]

    @hookimpl
    def discovery(self) -> list[Discovery]:
        return [Discovery("acme", lambda: {"meta": {"caaIdentities": ["ca.example"]}})]

    @hookimpl
    def finalize_checks(self) -> list[FinalizeCheck]:
        return [Barring("authorize"), Barring("csr"), Barring("policy")]


@contextmanager
def installed(folder: Path) -> Iterator[str]:
    """The feature's name, while its distribution can be found."""
    folder.mkdir()
    sys.path.insert(0, str(folder))
    try:
        yield install(folder, "greatseal-test-validators", "from system.acme_validators import Plugin\n")
    finally:
        sys.path.remove(str(folder))
