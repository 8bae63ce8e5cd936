"""The witness as a part of the plugin: there while the configuration has `[witness]`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from greatseal.api.declarations import Lifespan
from greatseal.api.http import Route
from greatseal.api.keys import Signer
from greatseal.api.problems import StartProblem
from greatseal.host import Host
from greatseal_mtc.witness.routes import WitnessRoutes
from greatseal_mtc.witness.service import Witness
from greatseal_mtc.witness.settings import KEY_TYPES, WitnessSettings

__all__ = ["WitnessPart"]

PURPOSE = "mtc-witness"


class WitnessPart:
    """Everything of the witness that the hooks of the plugin give."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._settings = host.settings(WitnessSettings)
        self.witness = Witness(host, self._settings.name or default_name(host.base_url), self._settings.logs)

    def routes(self) -> Sequence[Route]:
        """Below /witness."""
        return WitnessRoutes(self.witness).routes()

    def lifespans(self) -> Sequence[Lifespan]:
        """The keys are there before the first request."""
        return [Lifespan(name="mtc-witness", open=self._opened)]

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        try:
            self.witness.use(await self._signers())
        except ValueError as error:
            raise StartProblem(f"[witness] key_files: {error}") from None
        yield

    async def _signers(self) -> list[Signer]:
        if self._settings.key_files:
            return [await self._host.keys.signer(one, purpose=PURPOSE) for one in self._settings.key_files]
        found = []
        for algorithm in KEY_TYPES:
            ring = self._host.keys.ring(f"{PURPOSE}:{algorithm}")
            found.append(ring.active or await ring.make(algorithm))
        return found


def default_name(base_url: str) -> str:
    """The base URL without its scheme, and /witness."""
    parts = urlsplit(base_url)
    return f"{parts.netloc}{parts.path}/witness"
