"""dns-01 (RFC 8555 s8.4): a TXT record under _acme-challenge holds the digest of the key authorization."""

from hashlib import sha256

from greatseal.api.acme import VALID, Attempt, ChallengeValidator, Identifier, Verdict
from greatseal.api.problems import IncorrectResponse
from greatseal.api.services import Resolver
from greatseal.jose.compact import b64url_encode
from greatseal.net import excerpt, listing


class Dns01(ChallengeValidator):
    """A wildcard and its base share one name, which therefore may have several records: one that is right is enough."""

    type = "dns-01"
    identifier_types = frozenset({"dns"})
    wildcard = True

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def offers(self, identifier: Identifier) -> bool:
        """Not for onion names: DNS must never be asked for them (RFC 7686 s2)."""
        return not identifier.value.endswith(".onion")

    async def validate(self, attempt: Attempt) -> Verdict:
        name = f"_acme-challenge.{attempt.identifier.base}"
        expected = digest(attempt.key_authorization)
        found = await self.resolver.txt(name)
        if expected not in (value.strip() for value in found.records):
            raise IncorrectResponse(f"TXT {name} at {found.server}: {listing(found.records)}; expected {excerpt(expected)}")
        return VALID


def digest(key_authorization: str) -> str:
    """What the record holds: SHA-256 in base64url, 43 characters."""
    return b64url_encode(sha256(key_authorization.encode()).digest())
