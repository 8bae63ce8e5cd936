"""CAA of onion services in band (RFC 9799 s6)."""

from base64 import b32encode
from collections.abc import Mapping
from hashlib import sha3_256
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.acme import AccountView, Caa, Identifier, OnionCaaRequired
from greatseal.api.issuance import Finalization, ProvenIdentifier
from greatseal.api.moments import SECOND
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.services import CaaRecord
from greatseal.jose.compact import b64url_encode
from greatseal.testing import FakeClock
from greatseal.testing.issuance import PROFILE, issuance_for
from greatseal.testing.parsers import ParserContract
from greatseal.testing.resolver import FakeResolver
from greatseal_caa.caa import CaaCheck
from greatseal_caa.onions import LONGEST, MOST_BYTES, MOST_RECORDS, Given, parse, records

OURS = ("ca.example",)
ACCOUNT = AccountView(id="a1", url="https://ca.example/acme/account/1", status="valid", thumbprint="t" * 43)
KEY, OTHER = [Ed25519PrivateKey.from_private_bytes(bytes([one]) * 32) for one in (1, 2)]
NOW = FakeClock().now() // SECOND


def address(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes_raw()
    return b32encode(raw + sha3_256(b".onion checksum" + raw + b"\x03").digest()[:2] + b"\x03").decode().lower() + ".onion"


NAME, FOREIGN = address(KEY), address(OTHER)
EXAMPLE_NAME = "5anebu2glyc235wbbop3m2ukzlaptpkq333vdtdvcjpigyb7x2i2m2qd.onion"
EXAMPLE = Given(
    'caa 128 issue "test.acmeforonions.org; validationmethods=onion-csr-01"\ncaa 0 iodef "mailto:example@example.com"',
    1697210719,
    "u_iP6JZ4JZBrzQUKH6lSrWejjRfeQmkTuehc0_FaaTNPAV0RVxpUz9r44DRdy6kgy0ofnx18KIhMrP7N1wpxAA==",
)
"""RFC 9799 s6.4.2."""


def brought(caa: str | None, *, left: int = 3600, key: Ed25519PrivateKey = KEY, **other: Any) -> dict[str, Any]:
    expiry = NOW + left
    signature = b64url_encode(key.sign(f"onion-caa|{expiry}|{caa or ''}".encode()))
    return {"caa": caa, "expiry": expiry, "signature": signature, **other}


def order(*names: str, payload: Mapping[str, Any], method: str = "onion-csr-01") -> Finalization:
    request = issuance_for(*(Identifier("dns", name) for name in names))
    return Finalization(
        order_id="o1",
        profile=PROFILE,
        identifiers=tuple(ProvenIdentifier(identifier=one, validated_by=method) for one in request.identifiers),
        account=ACCOUNT,
        csr=request.csr,
        ca_id=PROFILE.ca_id,
        payload=payload,
    )


async def checked(*names: str, onions: bool = True, ours: tuple[str, ...] = OURS, **payload: Any) -> None:
    resolver = FakeResolver()
    await CaaCheck(resolver, {PROFILE.ca_id: ours}, FakeClock(), onions=onions).check(order(*names, payload=payload))
    assert not [name for _, name in resolver.asked if name.endswith("onion")]


def test_the_example_of_rfc_9799() -> None:
    found = records(EXAMPLE, EXAMPLE_NAME, (EXAMPLE.expiry - 1) * SECOND)

    assert found == [
        CaaRecord(128, "issue", "test.acmeforonions.org; validationmethods=onion-csr-01"),
        CaaRecord(0, "iodef", "mailto:example@example.com"),
    ]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (None, NAME),
        ("", NAME),
        ("caa 0 iodef x", NAME),
        ('caa 0 issue "ca.example"', NAME),
        ('caa 0 issue "ca.example"\n', NAME),
        ("caa 0 issue ca.example", NAME),
        ('caa 128 IsSuE "ca.example; validationmethods=onion-csr-01"', NAME),
        (f'caa 0 issue "ca.example; accounturi={ACCOUNT.url}"', NAME),
        ('caa 0 issue ";"\ncaa 0 issue "ca.example"', NAME),
        ('caa 0 issue "\\099a\\.example"', NAME),
        ('caa 0 issue "ca.example"\ncaa 0 issuewild ";"', NAME),
        ('caa 0 issue ";"\ncaa 0 issuewild "ca.example"', f"*.{NAME}"),
        ('caa 0 issue "ca.example"', f"b.a.{NAME}"),
    ],
)
async def test_what_the_service_allows(said: str | None, name: str) -> None:
    await checked(name, onionCAA={NAME: brought(said)})
    await checked(name, onionCAA={name.removeprefix("*."): brought(said)})


@pytest.mark.parametrize(
    ("said", "name", "why"),
    [
        ('caa 0 issue ";"', NAME, "expected issue ca.example"),
        ('caa 0 issue "other.example"', NAME, "expected issue ca.example"),
        ('caa 128 other "x"', NAME, "critical property"),
        ('caa 0 issue "ca.example; validationmethods=http-01"', NAME, "does not list onion-csr-01"),
        ('caa 0 issue "ca.example; accounturi=https://ca.example/acme/account/2"', NAME, "another account"),
        ('caa 0 issue "ca.example"\ncaa 0 issuewild ";"', f"*.{NAME}", "expected issuewild ca.example"),
        ('caa 0 issue ";"', f"b.a.{NAME}", "expected issue ca.example"),
    ],
)
async def test_what_the_service_denies(said: str, name: str, why: str) -> None:
    with pytest.raises(Caa, match=why) as raised:
        await checked(name, onions=False, onionCAA={NAME: brought(said)})
    assert raised.value.identifier == {"type": "dns", "value": name}


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (brought(None, key=OTHER), "not signed by the key"),
        (brought(None) | {"caa": "caa 0 iodef x"}, "not signed by the key"),
        (brought('caa 0 issue ";"') | {"caa": None}, "not signed by the key"),
        (brought(None) | {"expiry": NOW + 3601}, "not signed by the key"),
        (brought(None, signature="AAAA"), "not signed by the key"),
        (brought(None, signature="A+/"), "has a signature that is"),
        (brought(None, left=0), "ends 0 s from now"),
        (brought(None, left=-1), "ends -1 s from now"),
        (brought(None, left=LONGEST + 1), f"ends {LONGEST + 1} s from now; expected 1 to {LONGEST}"),
        (brought("caa 0 issue"), "has the line"),
        (brought("issue ca.example"), "has the line"),
        (brought("caa 256 issue ca.example"), "has the line"),
        (brought("caa 0 issue ca.example\n\n"), "has the line"),
        (brought('caa 0 issue "ca.example'), "has the line"),
        (brought('caa 0 issue "ca.example" x'), "has the line"),
        (brought('caa 0 issue "\\256"'), "no byte"),
        (brought("caa 0 issue caf\u00e9.example"), "has the line"),
        (brought("\n".join(["caa 0 iodef x"] * (MOST_RECORDS + 1))), f"has {MOST_RECORDS + 1} lines"),
        (brought(f"caa 0 iodef {'x' * MOST_BYTES}"), f"at most {MOST_RECORDS} of {MOST_BYTES} are read"),
    ],
)
async def test_what_is_not_signed_or_cannot_be_read_denies(one: dict[str, Any], why: str) -> None:
    with pytest.raises(Caa, match=why):
        await checked(NAME, onions=False, onionCAA={NAME: one})


async def test_the_longest_is_taken() -> None:
    await checked(NAME, onionCAA={NAME: brought(None, left=LONGEST)})
    await checked(NAME, onionCAA={NAME: brought("\n".join(["caa 0 iodef x"] * MOST_RECORDS))})


@pytest.mark.parametrize(
    "member",
    [
        [],
        "x",
        {NAME: "x"},
        {NAME: {"caa": None, "expiry": NOW + 1}},
        {NAME: brought(None) | {"caa": 1}},
        {NAME: brought(None) | {"expiry": "1"}},
        {NAME: brought(None) | {"expiry": True}},
        {NAME: brought(None) | {"expiry": -1}},
        {NAME: brought(None) | {"expiry": 2**63}},
    ],
)
async def test_what_has_another_form_is_malformed(member: Any) -> None:
    with pytest.raises(BadRequest, match="onionCAA"):
        await checked(NAME, onions=False, onionCAA=member)


@pytest.mark.parametrize("payload", [{}, {"onionCAA": None}, {"onionCAA": {}}, {"onionCAA": {FOREIGN: brought(None, key=OTHER)}}])
async def test_without_records_it_is_refused_where_they_are_required(payload: dict[str, Any]) -> None:
    with pytest.raises(OnionCaaRequired, match=NAME) as raised:
        await checked(NAME, "a.example", **payload)
    assert (raised.value.status, raised.value.type) == (403, "onionCAARequired")
    await checked(NAME, onions=False, **payload)
    await checked(NAME, ours=(), **payload)
    await checked("a.example", **payload)


async def test_each_service_has_its_own_records() -> None:
    signed = {NAME: brought('caa 0 issue ";"'), FOREIGN: brought(None, key=OTHER)}
    await checked(FOREIGN, onionCAA=signed)
    with pytest.raises(Caa, match="1 more; see subproblems"):
        await checked(NAME, FOREIGN, f"*.{NAME}", onionCAA=signed)


class TestAnyLines(ParserContract):
    """The lines as they are sent."""

    valid = (str(EXAMPLE.caa).encode(),)
    refusals = ValueError
    costly = tuple(
        (text.encode(),)
        for text in ("caa 0 issue " + "\\" * 60_000, 'caa 0 issue "' + "\\1" * 30_000, "caa 0 issue x\n" * 4_000, "\n" * 60_000)
    )

    def read(self, *parts: bytes) -> None:
        assert all(0 <= one.flags < 256 and one.tag.isalnum() for one in parse(parts[0].decode(errors="backslashreplace")))


class TestAnySignedLines(ParserContract):
    """What the key of the service signed."""

    valid = (str(EXAMPLE.caa).encode(),)
    refusals = Problem

    def read(self, *parts: bytes) -> None:
        one = brought(parts[0].decode(errors="backslashreplace"))
        assert len(records(msgspec.convert(one, Given), NAME, NOW * SECOND)) <= MOST_RECORDS


@given(st.integers(0, 200), st.integers(0, 3), st.text('caa 0issue".;=', max_size=3))
def test_what_was_changed_after_signing_is_refused(at: int, cut: int, put: str) -> None:
    caa = 'caa 0 issue "ca.example; validationmethods=onion-csr-01"'
    changed = caa[:at] + put + caa[at + cut :]
    one = msgspec.convert(brought(caa) | {"caa": changed}, Given)
    if changed == caa:
        assert records(one, NAME, NOW * SECOND)
    else:
        with pytest.raises(Caa):
            records(one, NAME, NOW * SECOND)
