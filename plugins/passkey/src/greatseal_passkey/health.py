"""Whether the models of passkeys can be read, and are new enough: for the start and for doctor."""

from greatseal.api.declarations import CheckResult
from greatseal.host import Host
from greatseal_passkey.models import BadMetadata, Models, is_old


class ModelHealth:
    """Looks at the file."""

    def __init__(self, host: Host, models: Models) -> None:
        self._host = host
        self._models = models

    def problems(self) -> list[str]:
        """What keeps the service from starting."""
        try:
            self._models.known()
        except (OSError, BadMetadata) as error:
            return [f"[passkey] metadata_file: {error}"]
        return []

    async def run(self) -> CheckResult:
        try:
            known = await self._host.blocking.run("passkey-models", self._models.known)
        except (OSError, BadMetadata) as error:
            return CheckResult(ok=False, detail=str(error))
        number = f"models of passkeys: {len(known.by_aaguid) + len(known.by_key)}"
        if is_old(known, self._host.clock.now()):
            return CheckResult(ok=False, detail=f"{number}; a newer file was to be had on {known.next_update}: fetch it")
        return CheckResult(ok=True, detail=number)
