"""http-01 (RFC 8555 s8.3, RFC 8738): the identifier's web server gives the key authorization under a well-known path."""

from hmac import compare_digest
from ipaddress import ip_address

from greatseal.api.acme import VALID, Attempt, ChallengeValidator, Identifier, Verdict
from greatseal.api.problems import IncorrectResponse
from greatseal.net import SECONDS, TOR_SECONDS, AddressPolicy, Fetched, NameResolver, TorAccess, excerpt, fetch, is_onion
from greatseal_http_01.settings import HttpValidation


class Http01(ChallengeValidator):
    """Asks like any browser would, so it takes redirects, and certificates that nobody trusts yet."""

    type = "http-01"
    identifier_types = frozenset({"dns", "ip"})

    def __init__(self, resolver: NameResolver, settings: HttpValidation, access: TorAccess) -> None:
        self.resolver = resolver
        self.tor = access.tor
        self.port = settings.http_validation_port
        self.policy = AddressPolicy(allow_private=settings.http_validation_allow_private_ips)
        self.ports = None if self.policy.allow_private else {80, 443, self.port}

    def offers(self, identifier: Identifier) -> bool:
        """For onion names only by Tor: DNS must never be asked for them (RFC 7686 s2)."""
        return self.tor is not None or not is_onion(identifier.value)

    async def validate(self, attempt: Attempt) -> Verdict:
        url = f"http://{self.authority(attempt.identifier)}/.well-known/acme-challenge/{attempt.token}"
        seconds = TOR_SECONDS if is_onion(attempt.identifier.value) else SECONDS
        found = await fetch(url, resolver=self.resolver, policy=self.policy, ports=self.ports, tls=False, seconds=seconds, tor=self.tor)
        if not 200 <= found.status < 300:
            raise IncorrectResponse(f"{answer(found)}; expected a 2xx status")
        if not compare_digest(text(found).strip().encode(), attempt.key_authorization.encode()):
            raise IncorrectResponse(f"{answer(found)}; expected {excerpt(attempt.key_authorization)}")
        return VALID

    def authority(self, identifier: Identifier) -> str:
        """Host and port of the URL; port 80 goes without saying."""
        host = identifier.value
        if identifier.type == "ip" and ip_address(host).version == 6:
            host = f"[{host}]"
        return host if self.port == 80 else f"{host}:{self.port}"


def text(found: Fetched) -> str:
    try:
        return found.body.decode()
    except UnicodeDecodeError as error:
        raise IncorrectResponse(f"{answer(found)}, which is not UTF-8") from error


def answer(found: Fetched) -> str:
    """What came back, for the person who runs the web server."""
    return f"{found.url} at {found.address} gave status {found.status} and {excerpt(found.body)}"
