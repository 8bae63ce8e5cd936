"""The lines of the interface document on CAA, and what RFC 8659 and RFC 8657 say of values."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.acme import AccountView, Caa, Identifier
from greatseal.api.issuance import Finalization, ProvenIdentifier
from greatseal.api.problems import DnsFailure, Internal
from greatseal.api.services import CaaRecord, Found, Resolver
from greatseal.testing import FakeClock
from greatseal.testing.finalization import FinalizeCheckContract
from greatseal.testing.issuance import PROFILE, issuance_for
from greatseal.testing.parsers import ParserContract
from greatseal.testing.resolver import FakeResolver
from greatseal_caa.caa import CaaCheck
from greatseal_caa.plugin import Plugin
from greatseal_caa.settings import CaaOfCa, CaaServer, CaId, identities
from greatseal_caa.values import parse, refusal

URL = "https://ca.example/acme/account/0b0f0b0e-0000-8000-8000-000000000003"
ACCOUNT = AccountView(id="a1", url=URL, status="valid", thumbprint="t" * 43)
OURS = ("ca.example", "ca.example.net")

Zone = Mapping[str, Sequence[str | CaaRecord]]


def record(text: str | CaaRecord) -> CaaRecord:
    """``flags tag value`` as in a zone file, without the quotes."""
    if isinstance(text, CaaRecord):
        return text
    flags, tag, value = text.split(" ", 2)
    return CaaRecord(int(flags), tag, value)


def check(zone: Zone, ours: Sequence[str] = OURS) -> CaaCheck:
    resolver = FakeResolver(caa={name: [record(one) for one in records] for name, records in zone.items()})
    return asking(resolver, ours)


def asking(resolver: Resolver, ours: Sequence[str] = OURS) -> CaaCheck:
    return CaaCheck(resolver, {PROFILE.ca_id: ours}, FakeClock(), onions=False)


def order(*names: str, type: str = "dns", method: str = "http-01", url: str = URL) -> Finalization:
    request = issuance_for(*(Identifier(type, name) for name in names))
    return Finalization(
        order_id="o1",
        profile=PROFILE,
        identifiers=tuple(ProvenIdentifier(identifier=one, validated_by=method) for one in request.identifiers),
        account=msgspec.structs.replace(ACCOUNT, url=url),
        csr=request.csr,
        ca_id=PROFILE.ca_id,
        payload={},
    )


class TestCaaCheck(FinalizeCheckContract):
    passes = order("a.example", "*.b.example")
    refuses = order("denied.example", "b.example", "under.denied.example")

    def check(self) -> CaaCheck:
        return check({"a.example": ["0 issue ca.example"], "denied.example": ["0 issue other.example"]})


async def denied(zone: Zone, finalization: Finalization) -> Caa:
    with pytest.raises(Caa) as raised:
        await check(zone).check(finalization)
    assert (raised.value.status, raised.value.type) == (403, "caa")
    return raised.value


WITH_METHODS = "0 issue ca.example; validationmethods=dns-01,http-01"
ALLOWED: list[tuple[str, Zone]] = [
    ("a.example", {}),
    ("a.example", {"a.example": ["0 issue ca.example"]}),
    ("a.example", {"a.example": ["0 issue other.example", "0 issue ca.example"]}),
    ("a.example", {"a.example": ["128 issue ca.example"]}),
    ("a.example", {"a.example": ["0 ISSUE CA.Example."]}),
    ("a.example", {"a.example": ["0 issue \t ca.example \t"]}),
    ("a.example", {"a.example": ["0 issue ca.example;"]}),
    ("a.example", {"a.example": ["0 issue ca.example ; "]}),
    ("a.example", {"a.example": ["0 issue ca.example.net"]}),
    ("a.example", {"a.example": ["0 issue ca.example; unknown=1; other = 2"]}),
    ("a.example", {"a.example": ["0 iodef mailto:security@a.example"]}),
    ("a.example", {"a.example": ["128 iodef mailto:security@a.example", "128 contactemail x@a.example", "128 issuevmc ;"]}),
    ("a.example", {"a.example": ["0 issuewild ;"]}),
    ("a.example", {"a.example": ["0 unknown x"]}),
    ("a.example", {"a.example": ["2 unknown x"]}),  # reserved flags are ignored
    ("a.example", {"example": ["0 issue ;"]}),
    ("b.a.example", {"a.example": ["0 issue ca.example"], "example": ["0 issue ;"]}),
    ("deny.permit.example", {"deny.permit.example": ["0 issue ca.example"], "permit.example": ["0 issue ;"]}),
    ("*.a.example", {"a.example": ["0 issue ca.example"]}),
    ("*.a.example", {"a.example": ["0 issue ;", "0 issuewild ca.example"]}),
    ("*.a.example", {"*.a.example": ["0 issue ;"]}),
    ("a.example", {"a.example": [WITH_METHODS]}),
    ("a.example", {"a.example": [f"0 issue ca.example; accounturi={URL}"]}),
    ("a.example", {"a.example": [f"0 issue ca.example; AccountURI = {URL} ; validationmethods=http-01"]}),
    ("a.example", {"a.example": ["0 issue ca.example; accounturi=https://ca.example/other", f"0 issue ca.example; accounturi={URL}"]}),
]
"""What allows: also RFC 8659 and the permitting cases of caatestsuite.com."""


@pytest.mark.parametrize(("name", "zone"), ALLOWED)
async def test_s129_ca_263_ca_265_ca_266_ca_268_ca_271_what_allows(name: str, zone: Zone) -> None:
    await check(zone).check(order(name))


DENIED: list[tuple[str, Zone, str]] = [
    ("empty.example", {"empty.example": ["0 issue "]}, "expected issue"),
    ("deny.example", {"deny.example": ["0 issue caatestsuite.com"]}, "expected issue"),
    ("nobody.example", {"nobody.example": ["0 issue ;"]}, "expected issue"),
    ("nobody.example", {"nobody.example": ["0 issue ; policy=none"]}, "expected issue"),
    ("uppercase-deny.example", {"uppercase-deny.example": ["0 ISSUE caatestsuite.com"]}, "expected issue"),
    ("mixedcase-deny.example", {"mixedcase-deny.example": ["0 IsSuE caatestsuite.com"]}, "expected issue"),
    ("big.example", {"big.example": [f"0 issue ca{n}.example" for n in range(200)]}, "and 197 more; expected issue"),
    ("critical1.example", {"critical1.example": ["128 tbs unknown"]}, 'the critical property "tbs" is not known here'),
    (
        "critical2.example",
        {"critical2.example": ["130 tbs unknown", "0 issue ca.example"]},
        'the critical property "tbs" is not known here',
    ),
    ("sub1.deny.example", {"deny.example": ["0 issue caatestsuite.com"]}, "at deny.example "),
    ("sub2.sub1.deny.example", {"deny.example": ["0 issue caatestsuite.com"]}, "at deny.example "),
    ("*.deny.example", {"deny.example": ["0 issue caatestsuite.com"]}, "expected issue"),
    ("*.deny-wild.example", {"deny-wild.example": ["0 issue ca.example", "0 issuewild caatestsuite.com"]}, "expected issuewild"),
    ("*.a.deny-wild.example", {"deny-wild.example": ["0 issue ca.example", "0 ISSUEWILD ;"]}, "expected issuewild"),
    ("deny.permit.example", {"deny.permit.example": ["0 issue x.example"], "permit.example": ["0 issue ca.example"]}, "at deny.permit"),
    ("a.example", {"a.example": ["0 issue xca.example"]}, "expected issue"),
    ("a.example", {"a.example": ["0 issue ca.example.com"]}, "expected issue"),
    ("a.example", {"a.example": ["0 issue ca.example; validationmethods=dns-01"]}, "does not list http-01"),
    ("a.example", {"a.example": ["0 issue ca.example; validationmethods=ca-special"]}, "does not list http-01"),
    ("a.example", {"a.example": ["0 issue ca.example; validationmethods="]}, "does not list http-01"),
    ("a.example", {"a.example": ["0 issue ca.example; validationmethods=http-01,"]}, "does not list http-01"),
    ("a.example", {"a.example": ["0 issue ca.example; validationmethods=HTTP-01"]}, "does not list http-01"),
    ("a.example", {"a.example": ["0 issue ca.example; validationmethods=http-01; ValidationMethods=http-01"]}, "validationmethods twice"),
    ("a.example", {"a.example": [f"0 issue ca.example; accounturi={URL}; accounturi={URL}"]}, "has accounturi twice"),
    ("a.example", {"a.example": [f"0 issue ca.example; accounturi={URL}/"]}, f"is for another account than {URL}"),
    ("a.example", {"a.example": [f"0 issue ca.example; accounturi={URL.upper()}"]}, "is for another account"),
    ("a.example", {"a.example": [f"0 issue ca.example; accounturi={URL}; validationmethods=dns-01"]}, "does not list http-01"),
    ("a.example", {"a.example": [f"0 issue ca.example; accounturi={URL}x; validationmethods=http-01"]}, "is for another account"),
    ("a.example", {"a.example": ["0 issue ca.example; a=b c=d"]}, "is no domain name and parameters"),
    ("a.example", {"a.example": ["0 issue ca.example; a=b;"]}, "is no domain name and parameters"),
    ("a.example", {"a.example": ["0 issue ca.example; ab"]}, "is no domain name and parameters"),
    ("a.example", {"a.example": ["0 issue ca.example a=b"]}, "is no domain name and parameters"),
    ("a.example", {"a.example": ["0 issue ca_example"]}, "is no domain name and parameters"),
    ("a.example", {"a.example": ["0 issue -ca.example"]}, "is no domain name and parameters"),
    ("a.example", {"a.example": [CaaRecord(0, "issue", "ca.example\n")]}, "is no domain name and parameters"),
]
"""What denies: the list of caatestsuite.com, then RFC 8659 and RFC 8657. Those with aliases and broken zones: tests/peers."""


@pytest.mark.parametrize(("name", "zone", "told"), DENIED)
async def test_s129_ca_201_ca_262_ca_265_ca_267_ca_269_ca_270_ca_271_what_denies(name: str, zone: Zone, told: str) -> None:
    refused = await denied(zone, order(name))

    assert refused.detail.startswith(f"CAA of {name} at ")
    assert told in refused.detail
    assert refused.identifier == {"type": "dns", "value": name}


async def test_the_refusal_says_what_was_found_where_and_what_was_expected() -> None:
    refused = await denied({"a.example": ["0 issue other.example", "0 iodef mailto:x@a.example"]}, order("www.a.example"))

    shown = '"0 issue other.example", "0 iodef mailto:x@a.example"'
    assert (
        refused.detail == f"CAA of www.a.example at a.example (the test's resolver): {shown}; expected issue ca.example or ca.example.net"
    )


async def test_several_refusals_are_told_one_by_one() -> None:
    zone = {"a.example": ["0 issue ;"]}
    refused = await denied(zone, order("a.example", "b.example", "c.a.example", "*.a.example"))

    assert refused.detail.endswith("expected issue ca.example or ca.example.net (and 2 more; see subproblems)")
    told = [(one.type, (one.identifier or {})["value"]) for one in refused.subproblems]
    assert told == [("caa", "a.example"), ("caa", "c.a.example"), ("caa", "*.a.example")]


@pytest.mark.parametrize("url", ["", f"{URL}/"])
async def test_ca_270_without_the_account_a_record_with_accounturi_denies(url: str) -> None:
    await denied({"a.example": [f"0 issue ca.example; accounturi={URL}"]}, order("a.example", url=url))
    await denied({"a.example": ["0 issue ca.example; accounturi="]}, order("a.example", url=""))


@pytest.mark.parametrize(("method", "allowed"), [("dns-01", True), ("http-01", True), ("tls-alpn-01", False), ("dns", False)])
async def test_ca_269_the_challenge_that_proved_the_name_must_be_listed(method: str, allowed: bool) -> None:
    zone = {"a.example": [WITH_METHODS]}

    if allowed:
        await check(zone).check(order("a.example", method=method))
    else:
        assert method in (await denied(zone, order("a.example", method=method))).detail


async def test_ca_258_addresses_mail_and_onions_are_not_asked_for() -> None:
    checking = check({})
    for finalization in (order("192.0.2.1", type="ip"), order("a@a.example", type="email"), order("a.onion"), order("*.b.a.onion")):
        await checking.check(finalization)

    assert isinstance(checking.resolver, FakeResolver)
    assert checking.resolver.asked == []


async def test_ca_262_names_are_asked_upwards_without_the_last_label_and_each_once() -> None:
    checking = check({"a.example": ["0 issue ca.example"]})
    await checking.check(order("x.y.b.example", "y.b.example", "*.y.b.example", "host", "z.a.example"))

    assert isinstance(checking.resolver, FakeResolver)
    names = [name for _, name in checking.resolver.asked]
    assert sorted(names) == ["a.example", "b.example", "x.y.b.example", "y.b.example", "z.a.example"]


async def test_s135_an_order_does_not_make_us_ask_thousands_of_questions() -> None:
    """Before the first is asked: it is not said by a zone how many there are."""
    deep, deeper = ([f"{'a.' * labels}x{number}.example" for number in range(100)] for labels in (9, 10))
    asking, refusing = check({}), check({})
    await asking.check(order(*deep))
    with pytest.raises(Caa, match="at 1100 names") as raised:
        await refusing.check(order(*deeper))

    assert isinstance(asking.resolver, FakeResolver)
    assert isinstance(refusing.resolver, FakeResolver)
    assert raised.value.status == 403
    assert (len(asking.resolver.asked), refusing.resolver.asked) == (1000, [])


async def test_s135_others_run_between_the_names_of_an_order() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    with pytest.raises(Caa, match="99 more"):
        await check({"a.example": ["0 issue other.example"]}).check(order(*(f"x{number}.a.example" for number in range(100))))
    running.cancel()

    assert turns >= 100


@pytest.mark.parametrize("where", ["b.a.example", "a.example"])
async def test_ca_264_any_dns_error_denies(where: str) -> None:
    class Broken(FakeResolver):
        async def caa(self, name: str) -> Found[CaaRecord]:
            if name == where:
                raise DnsFailure(f"CAA {name}: SERVFAIL from 192.0.2.53 port 53")
            return await super().caa(name)

    with pytest.raises(Caa) as raised:
        await asking(Broken()).check(order("b.a.example"))

    told = f"the CAA records of b.a.example cannot be read: CAA {where}: SERVFAIL from 192.0.2.53 port 53"
    assert raised.value.detail == told


async def test_a_resolver_that_cannot_be_used_is_no_matter_of_caa() -> None:
    class Unusable(FakeResolver):
        async def caa(self, name: str) -> Found[CaaRecord]:
            raise Internal("the address of the DNS resolver is not usable")

    with pytest.raises(Internal):
        await asking(Unusable()).check(order("b.a.example"))


@pytest.mark.parametrize(
    ("server", "own", "found"),
    [
        (("ca.example",), None, ("ca.example",)),
        (("ca.example",), ("Other.Example.",), ("other.example",)),
        (("ca.example",), (), ("ca.example",)),
        ((), ("other.example",), ("other.example",)),
        ((), None, ()),
    ],
)
def test_ca_259_ca_260_the_names_of_the_ca_come_before_those_of_the_server(
    server: tuple[str, ...], own: tuple[str, ...] | None, found: tuple[str, ...]
) -> None:
    ca = CaaOfCa(caa_identities=own)

    assert identities(CaaServer(caa_identities=server), [ca, CaaOfCa()], [CaId(id="main"), CaId(id="more")])["main"] == found


async def test_ca_261_without_names_nothing_is_asked() -> None:
    checking = check({"a.example": ["0 issue ;"]}, ours=())
    await checking.check(order("a.example"))

    assert isinstance(checking.resolver, FakeResolver)
    assert checking.resolver.asked == []


@pytest.mark.parametrize(
    "name", ["", ".", "https://ca.example", "ca..example", "ca.example;", "-ca.example", "*.ca.example", "ü.example", "a." * 128]
)
@pytest.mark.parametrize("struct", [CaaServer, CaaOfCa])
def test_an_identity_that_is_no_domain_name_is_refused(struct: type[CaaServer | CaaOfCa], name: str) -> None:
    with pytest.raises(ValueError, match=r"^caa_identities: .* is no domain name; "):
        struct(caa_identities=("ca.example", name))


GOOD = f"ca.example; accounturi={URL}; validationmethods=http-01,dns-01"


class TestAnyValue(ParserContract):
    valid = (GOOD.encode(),)
    refusals = ValueError
    costly = tuple((value.encode(),) for value in ("a" * 60_000, "a-" * 30_000, "a.a=" * 15_000, ";" * 60_000, "; a=b" * 12_000))

    def read(self, *parts: bytes) -> None:
        """It is read, or it authorizes nobody."""
        value = parts[0].decode(errors="backslashreplace")
        refused = refusal(value, OURS, account_url=URL, method="http-01")
        try:
            issuer = parse(value)
        except ValueError:
            assert refused is not None
            raise
        assert issuer.domain in value.lower()
        assert (refused is None) <= (issuer.domain in OURS)


@given(st.integers(0, len(GOOD)), st.integers(0, 3), st.text("ca.example;=- \t,/X", max_size=3))
def test_a_value_that_was_changed_asks_no_less(at: int, cut: int, put: str) -> None:
    changed = GOOD[:at] + put + GOOD[at + cut :]

    if refusal(changed, OURS, account_url=URL, method="http-01") is None:
        parameters = dict(parse(changed).parameters)
        assert parameters.get("accounturi", URL) == URL
        assert "http-01" in parameters.get("validationmethods", "http-01").split(",")


def test_the_plugin_needs_the_resolver() -> None:
    assert [key.name for key in Plugin.requires] == ["resolver"]
    assert [owned.section for owned in Plugin().settings()] == ["server", "ca[]", "ca[]"]
