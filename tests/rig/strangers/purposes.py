"""A stranger's extension in one file: what the client wants the data for. The person reads it, and the token says it."""

from collections.abc import Sequence

import msgspec

from greatseal import hookimpl
from greatseal.api.authorization import Ask, Extension, Granting, Shown, Terms, Wish
from greatseal.api.http import Discovery
from greatseal.api.problems import BadRequest

MOST = 80


class Purpose(msgspec.Struct, frozen=True):
    """What was asked for, in the client's words."""

    words: str


class Purposes(Extension[Purpose]):
    """The parameter ``purpose``; a token request may not name another one."""

    name = "purposes"
    kept_as = Purpose
    claims = frozenset({"purpose"})

    async def ask(self, ask: Ask) -> Wish[Purpose] | None:
        words = ask.given.get("purpose")
        if words is None:
            return None
        if not words.isprintable() or len(words) > MOST:
            raise BadRequest(f"purpose is one line of at most {MOST} characters")
        return Wish(kept=Purpose(words))

    async def shown(self, kept: Purpose, subject: str) -> Sequence[Shown]:
        return [Shown(title="What it is for", lines=(kept.words,), remember=kept.words)]

    def grant(self, kept: Purpose | None, asked: Purpose | None, terms: Terms, granting: Granting) -> Terms:
        if asked and kept and asked != kept:
            raise BadRequest("the person allowed another purpose")
        named = kept or (asked if granting.basis == "client" else None)
        if asked and not named:
            raise BadRequest("the person was not asked about a purpose")
        return msgspec.structs.replace(terms, claims={**terms.claims, "purpose": named.words}) if named else terms


class Plugin:
    """Tokens that say what they are for."""

    @hookimpl
    def extensions(self) -> Sequence[Extension[Purpose]]:
        return [Purposes()]

    @hookimpl
    def discovery(self) -> Sequence[Discovery]:
        return [Discovery("openid", lambda: {"purpose_parameter_supported": True})]
