"""dns-account-01 (draft-ietf-acme-dns-account-label): dns-01 at a name of the account's own, so that several clients prove one domain.

Each of them may have an alias (CNAME) of its own there, into a zone that it alone writes.
"""

from base64 import b32encode
from hashlib import sha256

from greatseal.api.acme import VALID, Attempt, ChallengeValidator, Identifier, Verdict
from greatseal.api.problems import IncorrectResponse
from greatseal.api.services import Resolver
from greatseal.jose.compact import b64url_encode
from greatseal.net import excerpt, listing


class DnsAccount01(ChallengeValidator):
    """As dns-01: of several records one that is right is enough."""

    type = "dns-account-01"
    identifier_types = frozenset({"dns"})
    wildcard = True

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def offers(self, identifier: Identifier) -> bool:
        """Not for onion names: DNS must never be asked for them (RFC 7686 s2)."""
        return not identifier.value.endswith(".onion")

    async def validate(self, attempt: Attempt) -> Verdict:
        name = f"{label(attempt.challenge.account_url)}._acme-challenge.{attempt.identifier.base}"
        expected = b64url_encode(sha256(attempt.key_authorization.encode()).digest())
        found = await self.resolver.txt(name)
        if expected not in (value.strip() for value in found.records):
            raise IncorrectResponse(f"TXT {name} at {found.server}: {listing(found.records)}; expected {excerpt(expected)}")
        return VALID


def label(account_url: str) -> str:
    """The label of an account: the first ten bytes of the digest of its URL, in base32."""
    return f"_{b32encode(sha256(account_url.encode()).digest()[:10]).decode().lower()}"
