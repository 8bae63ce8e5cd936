"""What a profile asks before a CSR is looked at: identifier patterns and an operator's program (rulings R60, R61)."""

import re
from collections.abc import Mapping

import msgspec

from greatseal.api.acme import Identifier, Unauthorized
from greatseal.api.issuance import Finalization, FinalizeCheck
from greatseal.api.problems import Internal
from greatseal.host import Scripts
from greatseal_ca.settings import ProfileSettings

MAX_REASON = 300


class IdentifierPatterns(FinalizeCheck):
    """`allowed_identifier_patterns`: identifiers match one in full, as ``value`` or as ``type:value``."""

    name = "allowed_identifier_patterns"
    phase = "authorize"

    def __init__(self, profiles: Mapping[str, ProfileSettings]) -> None:
        self._patterns = {id: [re.compile(one) for one in own.allowed_identifier_patterns] for id, own in profiles.items()}
        self._any = {id for id, own in profiles.items() if own.identifier_match == "any"}

    async def check(self, finalization: Finalization) -> None:
        profile = finalization.profile.id
        patterns = self._patterns.get(profile)
        if not patterns:
            return
        refused = [one.identifier for one in finalization.identifiers if not _matches(patterns, one.identifier)]
        if len(refused) == len(finalization.identifiers) or (refused and profile not in self._any):
            first = f"{refused[0].type}:{refused[0].value}"
            raise Unauthorized(f"allowed_identifier_patterns: profile {profile} is not for {first}")


class AuthHook(FinalizeCheck):
    """`auth_hook`: a program that gets the order on its standard input and permits it with exit code 0."""

    name = "auth_hook"
    phase = "authorize"

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


def _matches(patterns: list[re.Pattern[str]], identifier: Identifier) -> bool:
    texts = (identifier.value, f"{identifier.type}:{identifier.value}")
    return any(pattern.fullmatch(text) for pattern in patterns for text in texts)


def _reason(output: bytes) -> str:
    """The trimmed output on one line, fit to be shown."""
    text = " ".join(output[: 4 * MAX_REASON].decode(errors="replace").split())
    return "".join(character for character in text if character.isprintable())[:MAX_REASON]
