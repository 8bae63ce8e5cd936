"""The parts of the plugin, put together. Importing this imports webauthn."""

from collections.abc import Sequence

from greatseal.api.components import Component
from greatseal.api.http import Route
from greatseal.api.services import DIRECTORIES, LOGIN, PAGES
from greatseal.host import Host
from greatseal_passkey import script
from greatseal_passkey.api import PasskeyApi
from greatseal_passkey.challenges import Challenges
from greatseal_passkey.decoys import Decoys
from greatseal_passkey.factor import OwnPasskey
from greatseal_passkey.health import ModelHealth
from greatseal_passkey.holdings import Keeper
from greatseal_passkey.models import Models
from greatseal_passkey.page import PasskeyPage, PasskeyPart
from greatseal_passkey.registration import PasskeyRegistration
from greatseal_passkey.settings import PasskeySettings, RelyingParty
from greatseal_passkey.sign_in import PasskeySignIn
from greatseal_passkey.stores import Stores


class Assembly:
    """Where passkeys are on."""

    def __init__(self, host: Host, party: RelyingParty) -> None:
        login = host.service(LOGIN)
        stores, challenges = Stores(host, host.service(DIRECTORIES)), Challenges(host)
        keeper = Keeper(host, stores)
        self._decoys = Decoys(host)
        self.models = Models(host) if host.settings(PasskeySettings).attestation == "direct" else None
        self.health = None if self.models is None else ModelHealth(host, self.models)
        self._endpoints = (
            PasskeySignIn(host, stores, challenges, self._decoys, party),
            PasskeyRegistration(host, stores, challenges, party, self.models),
            PasskeyApi(keeper),
            PasskeyPage(host, login, host.service(PAGES), keeper),
        )
        self.part = PasskeyPart(keeper)
        self.components: Sequence[Component] = (self.part, OwnPasskey(stores))
        self.option = script.PasskeyLogin()

    def routes(self) -> list[Route]:
        """Every route."""
        return [*(route for endpoint in self._endpoints for route in endpoint.routes()), *script.routes()]

    async def open(self) -> None:
        """At the start: what is needed from the first request on."""
        await self._decoys.open()
