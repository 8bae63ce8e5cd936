"""Claims of people: which ones a scope releases, and their values from the first provider that knows them (OpenID Connect Core s5)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from greatseal.api.tokens import ClaimsProvider
from greatseal.host import Host
from greatseal_idp.extensions import Extensions
from greatseal_idp.scopes import Scope, Scopes

USERINFO_CLAIMS = "userinfo_claims"
"""The member of access tokens that names the claims which /userinfo gives beside those of the scopes."""
OWN = frozenset(
    {
        "acr", "act", "amr", "at_hash", "aud", "auth_time", "azp", "c_hash", "client_id", "cnf", "events", "exp",
        "family", "iat", "iss", "jti", "may_act", "nbf", "nonce", "origin", "scope", "sid", "sub", "via", USERINFO_CLAIMS,
    }
)  # fmt: skip
"""Claims that say something about a token or a sign-in: no scope, no provider and no extension sets them."""


COMBINATIONS = 1_000
"""Sets of scopes whose claims are remembered."""


class Claims:
    """The values of claims."""

    def __init__(self, host: Host, scopes: Scopes, extensions: Extensions) -> None:
        self._host = host
        self._scopes = scopes
        self._extensions = extensions
        self._definitions: Mapping[str, Scope] = {}
        self._released: dict[tuple[str, ...], frozenset[str]] = {}

    @cached_property
    def _providers(self) -> Sequence[ClaimsProvider]:
        return tuple(self._host.components(ClaimsProvider).values())

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Claims that no scope and no provider sets: those of tokens, and those of extensions."""
        return OWN | {"authorization_details"} | self._extensions.claims

    async def of(self, subject: str, scopes: Iterable[str], wanted: Iterable[str] = ()) -> dict[str, Any]:
        """The claims that ``scopes`` release and those ``wanted`` by name, as far as they have a value.

        Raises DirectoryUnavailable: no reply with claims missing.
        """
        missing = (await self.released(scopes)).union(wanted) - self.reserved
        found: dict[str, Any] = {}
        for provider in self._providers:
            asked = provider.claims & missing
            if not asked:
                continue
            given = await provider.of(subject, frozenset(asked))
            found |= {name: value for name, value in given.items() if name in missing and value is not None and value != ""}
            missing -= found.keys()
        return found

    async def released(self, scopes: Iterable[str]) -> frozenset[str]:
        """The names of the claims that the scopes release."""
        definitions = await self._scopes.all()
        if definitions is not self._definitions or len(self._released) > COMBINATIONS:
            self._definitions, self._released = definitions, {}
        key = tuple(scopes)
        found = self._released.get(key)
        if found is None:
            found = frozenset(claim for scope in key if scope in definitions for claim in definitions[scope].claims) - self.reserved
            self._released[key] = found
        return found

    async def named(self, names: Iterable[str], scopes: Iterable[str]) -> tuple[str, ...]:
        """Those of the claims asked for by name (s5.5) that ``scopes`` release: the ones that were allowed, and still may be had."""
        wanted = frozenset(names)
        return tuple(sorted(wanted & await self.released(scopes))) if wanted else ()

    async def implied(self, parameter: Mapping[str, Any] | None, scopes: Collection[str], registered: Iterable[str]) -> tuple[str, ...]:
        """The scopes, of those ``registered``, that release what the ``claims`` parameter names and ``scopes`` do not release."""
        missing = {*names_in(parameter, "userinfo"), *names_in(parameter, "id_token")} - self.reserved
        if not missing:
            return ()
        missing -= await self.released(scopes)
        definitions = await self._scopes.all()
        known = (definitions[name] for name in registered if name in definitions)
        return tuple(scope.name for scope in known if not missing.isdisjoint(scope.claims))

    def supported(self) -> frozenset[str]:
        """All that the providers may ever give, for the discovery document."""
        return frozenset(claim for provider in self._providers for claim in provider.claims) - self.reserved


def names_in(parameter: Mapping[str, Any] | None, member: str) -> tuple[str, ...]:
    """The names in a member of the ``claims`` parameter (s5.5)."""
    asked = parameter.get(member) if parameter else None
    return tuple(asked) if isinstance(asked, Mapping) else ()
