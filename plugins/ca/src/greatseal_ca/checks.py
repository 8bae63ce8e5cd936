"""What may refuse a finalization: identifier patterns and an operator's program of the profile, blocked keys."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import structlog

from greatseal.api.acme import BadCsr, Identifier, Unauthorized
from greatseal.api.issuance import Finalization, FinalizeCheck
from greatseal.api.keys import BlockedKey, BlockedKeys
from greatseal.api.problems import Internal
from greatseal.host import Scripts
from greatseal_ca.settings import ProfileSettings
from greatseal_ca.usages import usages_of

if TYPE_CHECKING:
    import regex

MAX_REASON = 300
MATCH_SECONDS = 0.05
"""For all patterns of a profile on one identifier: strangers choose the names, and some patterns take for ever on some names."""


class IdentifierPatterns(FinalizeCheck):
    """`allowed_identifier_patterns`: identifiers match one in full, as ``value`` or as ``type:value``."""

    name = "identifier-patterns"
    phase = "authorize"
    order = 10

    def __init__(self, profiles: Mapping[str, ProfileSettings], log: structlog.stdlib.BoundLogger) -> None:
        self._profiles = profiles
        self._log = log

    async def check(self, finalization: Finalization) -> None:
        profile = finalization.profile.id
        own = self._profiles.get(profile)
        if own is None or not own.allowed_identifier_patterns:
            return
        patterns = _compiled(own.allowed_identifier_patterns)
        one_is_enough = own.identifier_match == "any"
        refused: list[str] = []
        for one in finalization.identifiers:
            matches = self._matches(profile, patterns, one.identifier)
            if matches and one_is_enough:
                return
            if not matches:
                refused.append(f"{one.identifier.type}:{one.identifier.value}")
            if refused and not one_is_enough:
                break
            await asyncio.sleep(0)  # others may run: an order has up to a hundred names
        if refused:
            raise Unauthorized(f"allowed_identifier_patterns: profile {profile} is not for {refused[0]}")

    def _matches(self, profile: str, patterns: "Sequence[regex.Pattern[str]]", identifier: Identifier) -> bool:
        """Whether a pattern matches in time; an identifier that takes too long matches none."""
        end = time.monotonic() + MATCH_SECONDS
        for pattern in patterns:
            for text in (identifier.value, f"{identifier.type}:{identifier.value}"):
                try:
                    if pattern.fullmatch(text, timeout=max(end - time.monotonic(), 0.0)):
                        return True
                except TimeoutError:
                    self._log.warning("a pattern took too long and its identifier is refused", profile=profile, pattern=pattern.pattern)
                    return False
        return False


class AuthHook(FinalizeCheck):
    """`auth_hook`: a program that gets the order on its standard input and permits it with exit code 0."""

    name = "auth-hook"
    phase = "authorize"
    order = 20

    def __init__(self, profiles: Mapping[str, ProfileSettings], scripts: Scripts) -> None:
        self._profiles = profiles
        self._scripts = scripts

    async def check(self, finalization: Finalization) -> None:
        own = self._profiles.get(finalization.profile.id)
        if own is None or own.auth_hook is None:
            return
        question = {
            "account_id": finalization.account.id,
            "profile": finalization.profile.id,
            "identifiers": [{"type": one.identifier.type, "value": one.identifier.value} for one in finalization.identifiers],
        }
        try:
            answer = await self._scripts.run(
                own.auth_hook.absolute(), env={}, stdin=msgspec.json.encode(question), timeout=own.auth_hook_timeout_secs
            )
        except OSError as error:
            raise Internal(cause=f"auth_hook {own.auth_hook} cannot be run: {error}") from None
        if answer.timed_out:
            raise Unauthorized(f"auth_hook: no answer within {own.auth_hook_timeout_secs:g} seconds")
        if answer.code != 0:
            raise Unauthorized(f"auth_hook: {_reason(answer.stdout) or 'refused without a reason'}")


class BlockedKeyCheck(FinalizeCheck):
    """The key of the CSR is not blocked. It is asked again with the reservation; here it spares the work in between."""

    name = "blocked-keys"
    phase = "csr"

    def __init__(self, blocked: BlockedKeys) -> None:
        self._blocked = blocked

    async def check(self, finalization: Finalization) -> None:
        assert finalization.csr is not None
        if found := await self._blocked.find(finalization.csr.spki_sha256):
            raise refused_key(found)


class KeyTypes(FinalizeCheck):
    """`key_types` and `key_usage`: the profile certifies such keys. Composing asks the same again."""

    name = "key-types"
    phase = "csr"

    def __init__(self, profiles: Mapping[str, ProfileSettings]) -> None:
        self._profiles = profiles

    async def check(self, finalization: Finalization) -> None:
        assert finalization.csr is not None
        if own := self._profiles.get(finalization.profile.id):
            usages_of(finalization.csr.public_key, finalization.profile.id, own)


def refused_key(blocked: BlockedKey) -> BadCsr:
    """What whoever sends a CSR with a blocked key is told."""
    return BadCsr(f"the key of the CSR is blocked ({blocked.reason}); make another one")


def compromised_key() -> BadCsr:
    """What whoever sends a CSR with a key that was revoked for keyCompromise is told."""
    return BadCsr("a certificate for the key of the CSR was revoked for keyCompromise; make another key")


@lru_cache(1000)
def _compiled(patterns: tuple[str, ...]) -> "list[regex.Pattern[str]]":
    import regex  # 15 ms of a start, for those that have patterns

    return [regex.compile(one) for one in patterns]


def _reason(output: bytes) -> str:
    """The trimmed output on one line, fit to be shown."""
    text = " ".join(output[: 4 * MAX_REASON].decode(errors="replace").split())
    return "".join(character for character in text if character.isprintable())[:MAX_REASON]
