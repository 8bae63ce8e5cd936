"""Whom a provider proved, once its answer was believed."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from greatseal_federation.upstreams import Upstream

FEDERATED = "fed"
"""The authentication method of everybody who comes through another provider."""
MOST = 16
_WORD = re.compile(r"[\x21-\x7e]{1,64}")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody at a provider. ``subject`` is who they are there for ever, under ``issuer``; ``session`` is ``sid``.
    ``proven_at`` is when they signed in there (microseconds), as far as the ID token says
    or the configuration assumes.

    ``claims`` are those of the ID token and of userinfo. ``id_token`` is there for OpenID Connect.
    """

    upstream: Upstream
    issuer: str
    subject: str
    claims: Mapping[str, Any]
    session: str | None = None
    id_token: str | None = None
    proven_at: int | None = None

    def text(self, name: str) -> str | None:
        """A claim that is one line of text, None for every other."""
        value = self.claims.get(name)
        if not isinstance(value, str) or not 1 <= len(value) <= 256 or not value.isprintable():
            return None
        return value.strip() or None

    def told(self, name: str) -> str | None:
        """The claim by which a directory knows its people, to the letter; an address that is not verified there says nothing."""
        value = self.claims.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        verified = self.claims.get("email_verified", True)
        if name == "email" and verified is not True and verified != "true":
            return None
        return value if isinstance(value, str) and 1 <= len(value) <= 256 and value.isprintable() else None

    @property
    def email(self) -> str | None:
        """The address, verified or not."""
        return self.text("email")

    @property
    def verified_email(self) -> str | None:
        """The address in lower case, where the provider says that it is verified; one of ASCII, which has one spelling."""
        email = self.email
        if email is None or self.claims.get("email_verified") is not True or not email.isascii() or email.count("@") != 1:
            return None
        return email.lower()

    def acr(self, default: str | None) -> str | None:
        """What the provider says where its word counts, else the default."""
        told = self.claims.get("acr")
        return told if isinstance(told, str) and told in self.upstream.acr_values else default

    def amr(self, default: tuple[str, ...]) -> tuple[str, ...]:
        """How the person was proven there, after the word that it was there."""
        return tuple(dict.fromkeys((FEDERATED, *(self.methods or default))))

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that the provider names."""
        told = self.claims.get("amr")
        words = [word for word in told if isinstance(word, str) and _WORD.fullmatch(word)] if isinstance(told, list) else []
        return tuple(dict.fromkeys(word for word in words if word != FEDERATED))[:MOST]
