"""finger-01: whoever controls a host can make its finger server (RFC 1288) answer a token with the key authorization."""

from greatseal import hookimpl
from greatseal.api.acme import VALID, Attempt, ChallengeValidator, Verdict
from greatseal.api.declarations import Owns
from greatseal.api.problems import IncorrectResponse
from greatseal.api.services import RESOLVER, Resolver
from greatseal.host import Host
from greatseal.net import AddressPolicy, excerpt, open_connection


class Settings(AddressPolicy, frozen=True):
    port: int = 79


class Finger01(ChallengeValidator):
    type = "finger-01"
    identifier_types = frozenset({"dns", "ip"})

    def __init__(self, resolver: Resolver, settings: Settings) -> None:
        self.resolver, self.settings = resolver, settings

    async def validate(self, attempt: Attempt) -> Verdict:
        async with open_connection(attempt.identifier.value, self.settings.port, resolver=self.resolver, policy=self.settings) as peer:
            found = await peer.ask(f"{attempt.token}\r\n".encode(), limit=1000)
        if found.strip() != attempt.key_authorization.encode():
            raise IncorrectResponse(f"the finger server at {peer.address} answered {excerpt(found)}, not the key authorization")
        return VALID


class Plugin:
    requires = (RESOLVER,)

    @hookimpl
    def settings(self) -> list[Owns]:
        return [Owns("finger-01", Settings)]

    @hookimpl
    def challenge_validators(self, host: Host) -> list[ChallengeValidator]:
        return [Finger01(host.service(RESOLVER), host.settings(Settings))]
