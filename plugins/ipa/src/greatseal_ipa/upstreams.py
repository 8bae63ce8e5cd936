"""Identity providers that the directory names, for people who sign in there (FreeIPA's ipaIdP)."""

from collections.abc import Sequence

from structlog.stdlib import BoundLogger

from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.identity import LoginContext, LoginOption, LoginOptions
from greatseal_ipa.reader import Reader
from greatseal_ipa.schema import SOURCE, Provider


class Upstreams:
    """The providers as they were read last. What cannot be read again stays as it was."""

    def __init__(self, reader: Reader, log: BoundLogger) -> None:
        self._reader = reader
        self._log = log
        self.providers: Sequence[Provider] = ()

    async def refresh(self) -> None:
        """Read them again. An outage is logged."""
        try:
            found = await self._reader.providers()
        except DirectoryUnavailable as problem:
            self._log.warning("the identity providers of the directory cannot be read; those of before are kept", cause=problem.cause)
            return
        if list(found) != list(self.providers):
            self._log.info("identity providers of the directory", providers=[provider.id for provider in found])
        self.providers = found
        self._reader.upstreams = {provider.dn: provider.id for provider in found}


class UpstreamHint(LoginOptions):
    """Says which provider a person of the directory has to take. Everybody is asked for in the directory, known or not."""

    name = SOURCE

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def options(self, context: LoginContext) -> Sequence[LoginOption]:  # noqa: ARG002  # the contract's parameter
        """None: who leads to the providers offers them."""
        return ()

    async def hint(self, username: str) -> str | None:
        """The provider's id. Raises DirectoryUnavailable."""
        person = await self._reader.named(username)
        return person.user.upstream if person is not None else None
