"""dns-01 keeps the promises of every validator."""

from greatseal.api.acme import Attempt, Identifier
from greatseal.api.services import Resolver
from greatseal.testing.resolver import TxtValidatorContract
from greatseal_dns_01.dns_01 import Dns01, digest


class TestDns01(TxtValidatorContract):
    def asking(self, resolver: Resolver) -> Dns01:
        return Dns01(resolver)

    def right(self, attempt: Attempt) -> tuple[str, str]:
        return f"_acme-challenge.{attempt.identifier.base}", digest(attempt.key_authorization)


class TestDns01OfAWildcard(TestDns01):
    identifier = Identifier("dns", "*.a.example")
