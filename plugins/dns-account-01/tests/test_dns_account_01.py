"""dns-account-01 keeps the promises of every validator, and what the draft adds to dns-01. Over HTTP: tests/system."""

from hashlib import sha256

import pytest

from greatseal.api.acme import Attempt, Identifier
from greatseal.api.problems import IncorrectResponse
from greatseal.api.services import Resolver
from greatseal.jose.compact import b64url_encode
from greatseal.testing.resolver import FakeResolver, TxtValidatorContract
from greatseal.testing.validators import attempt_for
from greatseal_dns_account_01.dns_account_01 import DnsAccount01, label
from greatseal_dns_account_01.plugin import Plugin


class TestDnsAccount01(TxtValidatorContract):
    def asking(self, resolver: Resolver) -> DnsAccount01:
        return DnsAccount01(resolver)

    def right(self, attempt: Attempt) -> tuple[str, str]:
        name = f"{label(attempt.account.url)}._acme-challenge.{attempt.identifier.base}"
        return name, b64url_encode(sha256(attempt.key_authorization.encode()).digest())


class TestDnsAccount01OfAWildcard(TestDnsAccount01):
    identifier = Identifier("dns", "*.a.example")


def test_the_label_is_that_of_the_draft() -> None:
    assert label("https://ca.example/acme/account/42") == "_lrzej4rv36kmk2df"


async def test_the_record_of_dns_01_is_not_enough_and_what_was_expected_is_told() -> None:
    attempt = attempt_for(DnsAccount01(FakeResolver()), Identifier("dns", "*.a.example"))
    expected = b64url_encode(sha256(attempt.key_authorization.encode()).digest())
    name = f"{label(attempt.account.url)}._acme-challenge.a.example"
    resolver = FakeResolver(txt={"_acme-challenge.a.example": [expected], name: ["other"]})

    with pytest.raises(IncorrectResponse) as raised:
        await DnsAccount01(resolver).validate(attempt)

    assert raised.value.detail == f'TXT {name} at the test\'s resolver: "other"; expected "{expected}"'
    assert resolver.asked == [("TXT", name)]


@pytest.mark.parametrize(("name", "offered"), [("a.example", True), ("*.a.example", True), ("a.onion", False)])
def test_onion_names_are_never_looked_up(name: str, offered: bool) -> None:
    assert DnsAccount01(FakeResolver()).offers(Identifier("dns", name)) is offered  # RFC 7686 s2


def test_the_plugin_needs_the_resolver() -> None:
    assert [key.name for key in Plugin.requires] == ["resolver"]
