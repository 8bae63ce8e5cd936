"""The tkauth-01 challenge (RFC 9447)."""

from collections.abc import Callable, Sequence
from typing import Any

from greatseal import hookimpl
from greatseal.api.acme import ChallengeValidator
from greatseal.api.declarations import Owns
from greatseal.api.issuance import FinalizeCheck, IdentifierType
from greatseal.api.services import RESOLVER
from greatseal.host import Host
from greatseal.net import RemoteKeys
from greatseal_tkauth_01.authorities import Authorities
from greatseal_tkauth_01.constraints import JwtClaimConstraints
from greatseal_tkauth_01.settings import TkauthSettings
from greatseal_tkauth_01.tkauth_01 import ConstrainedNames, Tkauth01


class Plugin:
    """Claim constraints that an authority vouches for. There is nothing of it without `[[tkauth.authorities]]`."""

    requires = (RESOLVER,)

    def __init__(self) -> None:
        self._validator: Tkauth01 | None = None

    def validator(self, host: Host) -> Tkauth01 | None:
        """Made when the first hook needs it; None without an authority."""
        settings = host.settings(TkauthSettings)
        if self._validator is None and settings.authorities:
            remote = RemoteKeys(host.service(RESOLVER), host.clock, allow_private=settings.allow_private_jwks_hosts)
            shown = next((one.token_authority for one in settings.authorities if one.token_authority), None)
            self._validator = Tkauth01(host, Authorities(settings.authorities, host, remote), shown)
        return self._validator

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("tkauth", TkauthSettings)]

    @hookimpl
    def identifier_types(self, host: Host) -> Sequence[IdentifierType]:
        return [JwtClaimConstraints()] if self.validator(host) else []

    @hookimpl
    def challenge_validators(self, host: Host) -> Sequence[ChallengeValidator]:
        validator = self.validator(host)
        return [validator] if validator else []

    @hookimpl
    def finalize_checks(self, host: Host) -> Sequence[FinalizeCheck]:
        return [ConstrainedNames()] if self.validator(host) else []

    @hookimpl
    def operations(self, host: Host) -> Sequence[Callable[..., Any]]:
        validator = self.validator(host)
        return [validator.use] if validator else []
