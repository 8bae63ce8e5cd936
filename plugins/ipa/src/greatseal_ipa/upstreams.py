"""Identity providers that the directory names, for people who sign in there (FreeIPA's ipaIdP)."""

from collections.abc import Sequence

from structlog.stdlib import BoundLogger

from greatseal.api.directory import DirectoryUnavailable, User
from greatseal.api.upstreams import NamedUpstream, UpstreamSource
from greatseal_ipa.reader import Reader
from greatseal_ipa.schema import SOURCE, Provider


class Upstreams(UpstreamSource):
    """The providers as they were read last. What cannot be read again stays as it was."""

    name = SOURCE

    def __init__(self, reader: Reader, log: BoundLogger) -> None:
        self._reader = reader
        self._log = log
        self.providers: Sequence[Provider] = ()
        self._named: dict[str, tuple[Provider, NamedUpstream]] = {}

    def upstreams(self) -> Sequence[NamedUpstream]:
        return tuple(named for _, named in self._named.values())

    async def person(self, upstream_id: str, value: str) -> User | None:
        provider = next((one for one in self.providers if one.id == upstream_id), None)
        user = await self._reader.linked(provider.dn, value) if provider is not None else None
        # The directory may have taken the authentication type idp away from somebody who has the link still.
        return user if user is not None and user.upstream == upstream_id else None

    async def refresh(self) -> None:
        """Read them again. An outage is logged."""
        try:
            found = await self._reader.providers()
        except DirectoryUnavailable as problem:
            self._log.warning("the identity providers of the directory cannot be read; those of before are kept", cause=problem.cause)
            return
        if [one.id for one in found] != [one.id for one in self.providers]:
            self._log.info("identity providers of the directory", providers=[provider.id for provider in found])
        self.providers = found
        self._reader.upstreams = {provider.dn: provider.id for provider in found}
        self._named = {one.id: self._same(one) or (one, named_of(one)) for one in found}

    def _same(self, provider: Provider) -> tuple[Provider, NamedUpstream] | None:
        known = self._named.get(provider.id)
        return known if known is not None and known[0].same_as(provider) else None


def named_of(provider: Provider) -> NamedUpstream:
    """As whoever signs people in wants it."""
    return NamedUpstream(
        id=provider.id,
        display_name=provider.display_name,
        client_id=provider.client_id,
        issuer=provider.issuer,
        scopes=provider.scopes,
        subject_claim=provider.subject_claim,
        client_secret=provider.client_secret,
        authorization_endpoint=provider.authorization_endpoint,
        token_endpoint=provider.token_endpoint,
        userinfo_endpoint=provider.userinfo_endpoint,
    )
