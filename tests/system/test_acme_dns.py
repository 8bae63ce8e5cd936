"""Names that are proven by DNS, over HTTP and with a name server that says what the test wants."""

import asyncio
import json
from base64 import b32encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest
from cryptography import x509
from rig.acme import AcmeClient, Site, acme_site, b64url, csr_for, eventually
from sqlalchemy import select

from greatseal.testing.dns import Answer, ScriptedDns, scripted_dns
from greatseal_acme import tables as t

NAME = "_acme-challenge.a.example"


class Lab:
    """A site whose resolver is ``dns``, and an account."""

    def __init__(self, site: Site, dns: ScriptedDns, client: AcmeClient) -> None:
        self.site = site
        self.dns = dns
        self.client = client

    async def due(self, authorization: str, type: str = "dns-01") -> tuple[str, str]:
        """The URL of the challenge, and the value that its record must have."""
        challenge = await self.client.challenge(authorization, type)
        return challenge["url"], b64url(sha256(f"{challenge.get('token')}.{self.client.key.thumbprint}".encode()).digest())

    async def outcome(self, authorization: str, url: str) -> dict[str, Any]:
        """The authorization when its challenge was decided."""
        await self.client.post(url, {})
        return await self.client.until(authorization, "pending")

    async def proves(self, answer: Callable[[str], Answer]) -> dict[str, Any]:
        """What becomes of an authorization for a.example, when the name server says what ``answer`` makes of the right value."""
        (authorization,) = (await self.client.order("a.example")).json["authorizations"]
        url, value = await self.due(authorization)
        self.dns.script(NAME, "TXT", answer(value))
        return await self.outcome(authorization, url)


@asynccontextmanager
async def dns_lab(start_service: Any, *features: str, server: Mapping[str, Any] = {}, **sections: Any) -> AsyncIterator[Lab]:
    async with scripted_dns() as dns:
        settings = {"dns_resolver_addr": dns.address, **server}
        async with acme_site(start_service, *features, server=settings, **sections) as site:
            yield Lab(site, dns, await site.client())


@pytest.fixture
async def lab(start_service) -> AsyncIterator[Lab]:
    async with dns_lab(start_service, "dns-01") as lab:
        yield lab


def error_of(authorization: dict[str, Any], type: str = "dns-01") -> tuple[str, str]:
    (problem,) = (one["error"] for one in authorization["challenges"] if one["type"] == type)
    return problem["type"].removeprefix("urn:ietf:params:acme:error:"), problem["detail"]


async def test_ca_218_a_wildcard_and_its_base_are_proven_at_one_name_and_issued(lab):
    made = await lab.client.order("*.a.example", "a.example")
    due = {url: await lab.due(url) for url in made.json["authorizations"]}
    lab.dns.records(NAME, "TXT", *(f'"{value}"' for _, value in due.values()))

    decided = await asyncio.gather(*(lab.outcome(url, challenge) for url, (challenge, _) in due.items()))
    done = await lab.client.finalize(made.json, csr_for("*.a.example", "a.example"))
    leaf = x509.load_pem_x509_certificates((await lab.client.post(done.json["certificate"])).body)[0]

    assert [one["status"] for one in decided] == ["valid", "valid"]
    assert {one["identifier"]["value"] for one in decided} == {"a.example"}
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {"*.a.example", "a.example"}


async def test_a_wildcard_is_offered_dns_01_alone(lab):
    (authorization,) = (await lab.client.order("*.a.example")).json["authorizations"]

    assert [one["type"] for one in (await lab.client.post(authorization)).json["challenges"]] == ["dns-01"]


@pytest.mark.parametrize("cut", [lambda value: f'"{value}"', lambda value: f'" {value} "', lambda value: f'"{value[:20]}" "{value[20:]}"'])
async def test_s127_ca_220_strings_of_a_record_are_joined_and_trimmed(lab, cut):
    assert (await lab.proves(lambda value: Answer(values=(cut(value),))))["status"] == "valid"


async def test_s127_an_alias_is_followed_and_a_chain_of_twenty_is_not(lab):
    def aliases(length):
        return tuple(f"n{number}.example" for number in range(length))

    short, long = [await lab.proves(lambda value: Answer(alias=aliases(length), values=(f'"{value}"',))) for length in (2, 20)]  # noqa: B023

    assert short["status"] == "valid"
    kind, told = error_of(long)
    assert kind == "dns"
    assert told.startswith(f"TXT {NAME}: ChainTooLong")


@pytest.mark.parametrize(("count", "status"), [(199, "valid"), (200, "invalid")])
async def test_s127_two_hundred_records_are_read(lab, count, status):
    others = tuple(f'"value {number}"' for number in range(count))

    assert (await lab.proves(lambda value: Answer(values=(*others, f'"{value}"'), truncated=True)))["status"] == status


async def test_ca_221_a_wrong_value_names_question_resolver_finding_and_what_was_expected(lab):
    found = await lab.proves(lambda value: Answer(values=('"v=spf1 -all"',)))

    kind, told = error_of(found)
    assert (found["status"], kind) == ("invalid", "incorrectResponse")
    assert told.startswith(f'TXT {NAME} at 127.0.0.1 port {lab.dns.port}: "v=spf1 -all"; expected "')


@pytest.mark.parametrize("rcode", ["SERVFAIL", "REFUSED", "NXDOMAIN"])
async def test_s128_ca_221_a_failed_look_up_is_a_dns_problem(lab, rcode):
    found = await lab.proves(lambda value: Answer(rcode=rcode))

    assert error_of(found) == ("dns", f"TXT {NAME}: {rcode} from 127.0.0.1 port {lab.dns.port}")


# ---- dns-account-01


async def test_a_name_is_proven_at_the_label_of_the_account(start_service):
    async with dns_lab(start_service, "dns-account-01") as lab:
        (authorization,) = (await lab.client.order("*.a.example")).json["authorizations"]
        url, value = await lab.due(authorization, "dns-account-01")
        label = b32encode(sha256(str(lab.client.kid).encode()).digest()[:10]).decode().lower()
        lab.dns.records(f"_{label}.{NAME}", "TXT", f'"{value}"')

        assert (await lab.outcome(authorization, url))["status"] == "valid"


# ---- dns-persist-01

PERSIST = "_validation-persist.a.example"


@asynccontextmanager
async def persist_lab(start_service: Any, **server: Any) -> AsyncIterator[Lab]:
    async with dns_lab(start_service, "dns-persist-01", server={"dns_persist_issuer_domains": "CA.example", **server}) as lab:
        yield lab


@pytest.fixture
async def standing(start_service) -> AsyncIterator[Lab]:
    """A lab with a record that stands."""
    async with persist_lab(start_service) as lab:
        lab.dns.records(PERSIST, "TXT", f'"ca.example; accounturi={lab.client.kid}; policy=wildcard"')
        yield lab


async def test_ca_230_ca_231_one_record_proves_name_and_wildcard_order_after_order(standing):
    names = ["*.a.example", "a.example"]
    for _ in range(2):
        made = await standing.client.order(*names)
        for authorization in made.json["authorizations"]:
            challenge = await standing.client.challenge(authorization, "dns-persist-01")
            assert challenge.keys() == {"type", "url", "status", "issuer-domain-names", "accounturi"}
            assert (challenge["issuer-domain-names"], challenge["accounturi"]) == (["ca.example"], standing.client.kid)
            assert (await standing.outcome(authorization, challenge["url"]))["status"] == "valid"
        assert (await standing.client.finalize(made.json, csr_for(*names))).json["status"] == "valid"


async def test_ca_235_the_record_of_one_account_proves_nothing_for_another(standing):
    other = Lab(standing.site, standing.dns, await standing.site.client())
    (authorization,) = (await other.client.order("a.example")).json["authorizations"]
    url, _ = await other.due(authorization, "dns-persist-01")

    kind, told = error_of(await other.outcome(authorization, url), "dns-persist-01")

    assert kind == "incorrectResponse"
    assert told.startswith(f"TXT {PERSIST} at 127.0.0.1 port {other.dns.port}: ")
    assert f"is for another account than {other.client.kid}; expected" in told


async def test_ca_232_ca_233_these_records_are_asked_of_a_resolver_of_their_own(start_service):
    async with scripted_dns() as own, persist_lab(start_service, dns_persist01_resolver_addr=own.address) as lab:
        own.records(PERSIST, "TXT", f'"ca.example; accounturi={lab.client.kid}"')
        (authorization,) = (await lab.client.order("a.example")).json["authorizations"]
        url, _ = await lab.due(authorization, "dns-persist-01")

        assert (await lab.outcome(authorization, url))["status"] == "valid"
        assert lab.dns.questions == []


async def test_without_names_of_the_ca_the_challenge_is_not_offered(start_service):
    async with acme_site(start_service, "dns-persist-01") as site:
        client = await site.client()
        (authorization,) = (await client.order("a.example")).json["authorizations"]

        assert [one["type"] for one in (await client.post(authorization)).json["challenges"]] == ["http-01"]


@asynccontextmanager
async def held(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The parts of ACME, and the answer to a client that answered a dns-persist-01 challenge; the validation begins after the block."""
    acme = lab.site.service.kernel.hooks.instances["acme"].acme(lab.site.service.host("acme"))
    with monkeypatch.context() as patched:
        patched.setattr(acme.challenges.validations, "_start_some", lambda: None)
        (authorization,) = (await lab.client.order("a.example")).json["authorizations"]
        url, _ = await lab.due(authorization, "dns-persist-01")
        yield acme, await lab.client.post(url, {})
    acme.challenges.validations._start_some()


async def test_ca_082_the_answer_says_processing_before_anything_was_looked_up(standing, monkeypatch):
    async with held(standing, monkeypatch) as (_, answer):
        assert (answer.status, answer.json["status"]) == (200, "processing")
        assert standing.dns.questions == []


async def decided(lab: Lab) -> dict[str, Any]:
    """The problem of the only dns-persist-01 challenge, once it has one."""
    rows = select(t.challenge.c.error).where(t.challenge.c.type == "dns-persist-01", t.challenge.c.status == "invalid")
    db = lab.site.service.host("acme").db

    async def found() -> Any:
        return await db.read(lambda tx: tx.one(rows))

    await eventually(found)
    problem: dict[str, Any] = json.loads((await found()).error)
    return problem


async def test_ca_096_ca_203_an_account_that_is_not_valid_any_more_proves_nothing_and_nothing_is_asked(standing, monkeypatch):
    async with held(standing, monkeypatch):
        await standing.client.post(standing.client.kid, {"status": "deactivated"})

    assert (await decided(standing))["type"] == "urn:ietf:params:acme:error:unauthorized"
    assert standing.dns.questions == []


async def test_ca_097_an_account_that_cannot_be_read_is_our_fault_and_nothing_is_asked(standing, monkeypatch):
    async def failing(id: str) -> None:
        raise OSError("the disk is gone")

    async with held(standing, monkeypatch) as (acme, _):
        monkeypatch.setattr(acme.challenges.validations._accounts, "get", failing)

    problem = await decided(standing)
    assert problem["type"] == "urn:ietf:params:acme:error:serverInternal"
    assert "disk" not in problem["detail"]
    assert standing.dns.questions == []
