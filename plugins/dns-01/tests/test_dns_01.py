"""The lines of the interface document on dns-01."""

import asyncio

import pytest

from greatseal.api.acme import VALID, Attempt, Identifier
from greatseal.api.problems import DnsFailure, IncorrectResponse
from greatseal.testing.parsers import ParserContract
from greatseal.testing.resolver import FakeResolver
from greatseal.testing.validators import attempt_for
from greatseal_dns_01.dns_01 import Dns01, digest
from greatseal_dns_01.plugin import Plugin

NAME = "_acme-challenge.a.example"
OTHER = "lAV291d372xyXVEZRY9j2FQ8g1TYpOaJr620CiahePA"


def challenge(name: str = "a.example") -> Attempt:
    return attempt_for(Dns01(FakeResolver()), Identifier("dns", name))


RIGHT = digest(challenge().key_authorization)


def zone(*values: str) -> FakeResolver:
    return FakeResolver(txt={NAME: values})


@pytest.mark.parametrize("name", ["a.example", "*.a.example"])
async def test_ca_218_the_record_of_a_wildcard_is_that_of_its_base(name: str) -> None:
    resolver = zone(RIGHT)

    assert await Dns01(resolver).validate(challenge(name)) is VALID
    assert resolver.asked == [("TXT", NAME)]


def test_ca_219_the_value_is_the_digest_of_the_key_authorization() -> None:
    thumbprint = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"

    assert digest(f"evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA.{thumbprint}") == OTHER


@pytest.mark.parametrize("values", [[RIGHT], [OTHER, "v=spf1 -all", RIGHT], [f" \t{RIGHT}\r\n"]])
async def test_s127_ca_220_one_record_that_is_right_after_trimming_is_enough(values: list[str]) -> None:
    assert await Dns01(zone(*values)).validate(challenge()) is VALID


@pytest.mark.parametrize("value", [OTHER, RIGHT.lower(), RIGHT.upper(), f"{RIGHT}=", f"{RIGHT[:20]} {RIGHT[20:]}", f'"{RIGHT}"', ""])
async def test_s127_ca_221_another_value_is_an_incorrect_response(value: str) -> None:
    with pytest.raises(IncorrectResponse) as raised:
        await Dns01(zone(value)).validate(challenge())

    shown = value.replace('"', "")
    assert raised.value.detail.startswith(f"TXT {NAME} at the test's resolver: ")
    assert shown in raised.value.detail
    assert raised.value.detail.endswith(f'; expected "{RIGHT}"')


class TestAnyValue(ParserContract):
    """Two records, as the resolver hands them over."""

    valid = (RIGHT.encode(), b"v=spf1 -all")
    refusals = IncorrectResponse
    costly = ((b" " * 60_000, b"\xff" * 60_000), (b"\x1b" * 60_000, RIGHT.encode() * 1400))

    def read(self, *parts: bytes) -> None:
        """The digest proves it, and nothing else does."""
        values = [part.decode(errors="backslashreplace") for part in parts]
        asyncio.run(Dns01(zone(*values)).validate(challenge()))
        assert any(RIGHT in value for value in values)


@pytest.mark.parametrize(
    ("values", "shown"),
    [([], "nothing"), (["one", "two", "three", "four", "five"], '"one", "two", "three" and 2 more'), (["\x1b[31m\n"], '"\\x1b[31m\\n"')],
)
async def test_ca_221_the_problem_shows_what_was_found(values: list[str], shown: str) -> None:
    with pytest.raises(IncorrectResponse) as raised:
        await Dns01(zone(*values)).validate(challenge())

    # A name without such records is there: FakeResolver knows an empty list from none.
    assert raised.value.detail == f'TXT {NAME} at the test\'s resolver: {shown}; expected "{RIGHT}"'


async def test_ca_221_a_failed_look_up_is_a_dns_problem() -> None:
    with pytest.raises(DnsFailure, match=f"^TXT {NAME}: NXDOMAIN from "):
        await Dns01(FakeResolver()).validate(challenge())


@pytest.mark.parametrize(("name", "offered"), [("a.example", True), ("*.a.example", True), ("onion.example", True), ("*.a.onion", False)])
def test_onion_names_are_never_looked_up(name: str, offered: bool) -> None:
    assert Dns01(FakeResolver()).offers(Identifier("dns", name)) is offered  # RFC 7686 s2


def test_wildcards_are_proven_and_the_resolver_is_needed() -> None:
    assert Dns01.wildcard
    assert [key.name for key in Plugin.requires] == ["resolver"]
