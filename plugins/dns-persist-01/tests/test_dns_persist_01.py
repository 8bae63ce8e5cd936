"""The lines of the interface document on dns-persist-01, with ruling R79 and the promises of every validator. Over HTTP: tests/system."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.acme import VALID, Attempt, Identifier
from greatseal.api.problems import DnsFailure, IncorrectResponse
from greatseal.api.services import Found, Resolver
from greatseal.testing import FakeClock
from greatseal.testing.parsers import ParserContract
from greatseal.testing.resolver import FakeResolver, TxtValidatorContract
from greatseal.testing.validators import attempt_for
from greatseal_dns_persist_01.dns_persist_01 import DnsPersist01
from greatseal_dns_persist_01.plugin import Plugin
from greatseal_dns_persist_01.settings import DnsPersistence

NAME = "_validation-persist.a.example"
NOW = 1_800_000_000
ISSUERS = ("ca.example", "other.ca.example")
URL = "https://ca.example/acme/account/0b0f0b0e-0000-8000-8000-000000000003"
RIGHT = f"ca.example; accounturi={URL}"


def validator(resolver: Resolver) -> DnsPersist01:
    return DnsPersist01(resolver, FakeClock(NOW * 1_000_000 + 999_999), ISSUERS)


def challenge(name: str = "a.example") -> Attempt:
    return attempt_for(validator(FakeResolver()), Identifier("dns", name))


class TestDnsPersist01(TxtValidatorContract):
    def asking(self, resolver: Resolver) -> DnsPersist01:
        return validator(resolver)

    def right(self, attempt: Attempt) -> tuple[str, str]:
        return f"_validation-persist.{attempt.identifier.base}", f"ca.example; accounturi={attempt.account.url}; policy=wildcard"


class TestDnsPersist01OfAWildcard(TestDnsPersist01):
    identifier = Identifier("dns", "*.a.example")


PROVES = [
    RIGHT,
    f"ca.example;accounturi={URL}",
    f" CA.Example. ;\taccounturi = {URL} ",
    f"other.ca.example; accounturi={URL}; policy=wildcard; persistUntil={NOW}",
    f"ca.example; AccountURI={URL}; PERSISTUNTIL=9999999999999999999",
    f"ca.example; accounturi={URL}; unknown=1; unknown=2; 3;;",
    f"ca.example; accounturi={URL}; policy=other",
]


@pytest.mark.parametrize("value", PROVES)
async def test_s132_ca_230_ca_234_ca_235_ca_237_ca_238_r79_what_proves(value: str) -> None:
    resolver = FakeResolver(txt={NAME: ["v=spf1 -all", "ca.example; accounturi=", value, ";;;"]})

    assert await validator(resolver).validate(challenge()) is VALID
    assert resolver.asked == [("TXT", NAME)]


FAILS = [
    (f"{URL}", "names another"),
    (f"ca.example accounturi={URL}", "names another"),
    (f"elsewhere.example; accounturi={URL}", "names another"),
    (f"xca.example; accounturi={URL}", "names another"),
    (f"ca.example..; accounturi={URL}", "names another"),
    ("ca.example", "is for another account"),
    ("ca.example; accounturi", "is for another account"),
    (f"ca.example; accounturi={URL}/", "is for another account"),
    (f"ca.example; accounturi={URL.upper()}", "is for another account"),
    (f"ca.example; accounturi={URL[:-1]}4", "is for another account"),
    (f"ca.example; accounturi={URL}; accounturi={URL}", "has accounturi twice"),
    (f"ca.example; accounturi={URL}; AccountUri={URL}x", "has accounturi twice"),
    (f"ca.example; accounturi={URL}; persistUntil={NOW}; persistuntil={NOW}", "has persistuntil twice"),
    (f"ca.example; accounturi={URL}; policy=wildcard; Policy=wildcard", "has policy twice"),
    (f"ca.example; accounturi={URL}; persistUntil={NOW - 1}", f"ended: it is {NOW} now"),
    (f"ca.example; accounturi={URL}; persistUntil=-1", f"ended: it is {NOW} now"),
    *(
        (f"ca.example; accounturi={URL}; persistUntil={odd}", "has a persistUntil that is no number of seconds")
        for odd in ("", "1e9", "1800000001.0", "2099-01-01T00:00:00Z", "+1800000001", "١٨٠٠٠٠٠٠٠١", "0x7fffffff", "9" * 5000)
    ),
    (f"ca.example; accounturi={URL}; persistUntil", "has a persistUntil that is no number of seconds"),
]


@pytest.mark.parametrize(("value", "why"), FAILS)
async def test_s132_ca_234_ca_235_ca_237_ca_239_r79_what_proves_nothing_and_why(value: str, why: str) -> None:
    with pytest.raises(IncorrectResponse) as raised:
        await validator(FakeResolver(txt={NAME: ["v=spf1 -all", value]})).validate(challenge())

    told = raised.value.detail
    assert told.startswith(f"TXT {NAME} at the test's resolver: ")
    assert told.endswith(f'; expected "{RIGHT}"')
    assert ("v=spf1" in told) is (why == "names another")
    assert why == "names another" or why in told


@pytest.mark.parametrize(
    ("policy", "proves"),
    [
        ("; policy=wildcard", True),
        ("; Policy = wildcard", True),
        ("", False),
        ("; policy=WILDCARD", False),
        ("; policy", False),
        ("; wildcard", False),
    ],
)
async def test_s132_ca_231_ca_236_a_wildcard_needs_the_policy(policy: str, proves: bool) -> None:
    asking = validator(FakeResolver(txt={NAME: [RIGHT + policy]}))

    assert await asking.validate(challenge()) is VALID
    if proves:
        assert await asking.validate(challenge("*.a.example")) is VALID
    else:
        with pytest.raises(IncorrectResponse, match=f'is for no wildcards; expected "{RIGHT}; policy=wildcard"$'):
            await asking.validate(challenge("*.a.example"))


async def test_ca_239_a_failed_look_up_is_a_dns_problem() -> None:
    with pytest.raises(DnsFailure, match=f"^TXT {NAME}: NXDOMAIN from "):
        await validator(FakeResolver()).validate(challenge())


@pytest.mark.parametrize("server", ["192.0.2.53:5353", None])
async def test_ca_232_the_resolver_of_these_records_is_asked(server: str | None) -> None:
    class Noting(FakeResolver):
        async def txt(self, name: str, *, server: str | None = None) -> Found[str]:
            servers.append(server)
            return await super().txt(name, server=server)

    servers: list[str | None] = []
    await DnsPersist01(Noting(txt={NAME: [RIGHT]}), FakeClock(0), ISSUERS, server).validate(challenge())

    assert servers == [server]


def test_r22_the_challenge_names_issuers_and_account_and_has_no_token() -> None:
    members = validator(FakeResolver()).members(challenge().challenge)

    assert members == {"issuer-domain-names": list(ISSUERS), "accounturi": URL}


@pytest.mark.parametrize(
    ("given", "names"),
    [("CA.Example.", ("ca.example",)), (("a.example", "b.example", "A.example"), ("a.example", "b.example")), (None, ())],
)
def test_names_of_the_ca_are_one_or_several(given: str | tuple[str, ...] | None, names: tuple[str, ...]) -> None:
    assert DnsPersistence(dns_persist_issuer_domains=given).issuers() == names


@pytest.mark.parametrize(
    "given", ["", ".", "https://ca.example", "*.ca.example", "ü.example", "a." * 127 + "ex", (), tuple(f"{n}.example" for n in range(11))]
)
def test_names_that_no_record_can_have_are_refused(given: str | tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^dns_persist_issuer_domains: .*(is no domain name; |names; expected 1 to 10)"):
        DnsPersistence(dns_persist_issuer_domains=given)


def test_r20_a_bad_resolver_address_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^dns_persist01_resolver_addr: 'dns\.example' is not the address of a server"):
        DnsPersistence(dns_persist01_resolver_addr="dns.example")


@pytest.mark.parametrize(("name", "offered"), [("a.example", True), ("*.a.example", True), ("*.a.onion", False)])
def test_onion_names_are_never_looked_up(name: str, offered: bool) -> None:
    assert validator(FakeResolver()).offers(Identifier("dns", name)) is offered  # RFC 7686 s2


class TestAnyValue(ParserContract):
    valid = (RIGHT.encode(),)
    refusals = ()
    costly = tuple(
        (value.encode(),)
        for value in (";" * 60_000, "ca.example" + ";accounturi=" * 5_000, RIGHT + ";persistUntil=" + "9" * 60_000, RIGHT + ";a=b" * 15_000)
    )

    def read(self, *parts: bytes) -> None:
        """Whatever it says, it proves nothing without the account."""
        value = parts[0].decode(errors="backslashreplace")
        found = validator(FakeResolver()).refusal(value, challenge().challenge)
        assert found is not None or URL in value


@given(st.integers(0, len(RIGHT)), st.integers(0, 3), st.text("ca.example;=- \t,/X1", max_size=3))
def test_a_value_that_was_changed_still_names_issuer_and_account(at: int, cut: int, put: str) -> None:
    changed = RIGHT[:at] + put + RIGHT[at + cut :]

    if validator(FakeResolver()).refusal(changed, challenge().challenge) is None:
        issuer, *parameters = (part.strip(" \t") for part in changed.split(";"))
        assert issuer.strip().lower().removesuffix(".") in ISSUERS
        assert [one.partition("=")[2].strip(" \t") for one in parameters if one.lower().startswith("accounturi")] == [URL]


def test_the_plugin_needs_the_resolver() -> None:
    assert [key.name for key in Plugin.requires] == ["resolver"]
    assert [owned.section for owned in Plugin().settings()] == ["server"]
