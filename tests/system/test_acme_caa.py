"""CAA over HTTP, with a name server that says what the test wants: asked at finalization, after validation and before signing."""

import pytest
from rig.acme import acme_site, b64url, csr_for
from sqlalchemy import select

from greatseal.db.core_tables import audit
from greatseal.testing.dns import Answer, scripted_dns

OURS = ["ca.example", "Other.CA.example."]


@pytest.fixture
async def dns():
    async with scripted_dns() as dns:
        dns.records("a.example", "A", "127.0.0.1")
        dns.records("a.example", "AAAA")
        yield dns


@pytest.fixture
async def site(start_service, dns):
    server = {"dns_resolver_addr": dns.address, "caa_identities": OURS}
    async with acme_site(start_service, "caa", server=server) as site:
        yield site


async def finalized(client, ready):
    return await client.finalize(ready.json, csr_for("a.example"))


async def test_s130_ca_004_ca_201_r89_what_stands_there_at_finalization_decides_and_the_order_stays_ready(site, dns):
    client = await site.client()
    ready = await client.ready(site.responder, "a.example")
    assert not [one for one in dns.questions if one.kind == "CAA"]

    dns.records("a.example", "CAA", '0 issue "other.example"')
    refused = await finalized(client, ready)
    between = await client.post(ready.location)
    dns.records("a.example", "CAA", '0 issue "OTHER.ca.example; validationmethods=http-01"')
    done = await finalized(client, ready)

    place = f"127.0.0.1 port {dns.port}"
    assert (refused.status, refused.error) == (403, "caa")
    assert refused.json["detail"] == (
        f'CAA of a.example at a.example ({place}): "0 issue other.example"; expected issue ca.example or other.ca.example'
    )
    assert refused.json["identifier"] == {"type": "dns", "value": "a.example"}
    assert between.json["status"] == "ready"
    assert done.json["status"] == "valid"
    events = await site.service.host("acme").db.read(lambda tx: tx.all(select(audit).where(audit.c.event_type == "order.deny")))
    assert [event.detail for event in events] == ["profile default, caa: caa"]


async def test_ca_108_the_request_is_read_before_caa_is_asked(site, dns):
    client = await site.client()
    ready = await client.ready(site.responder, "a.example")
    dns.records("a.example", "CAA", '0 issue ";"')

    unread = await client.post(ready.json["finalize"], {"csr": b64url(b"no DER")})
    refused = await finalized(client, ready)

    assert (unread.error, refused.error) == ("badCSR", "caa")
    assert len([one for one in dns.questions if one.kind == "CAA"]) == 1


@pytest.mark.parametrize(
    ("parameter", "allowed"),
    [("validationmethods=http-01", True), ("validationmethods=dns-01", False), ("accounturi={}", True), ("accounturi={}0", False)],
)
async def test_ca_269_ca_270_account_and_method_are_those_of_the_order(site, dns, parameter, allowed):
    client = await site.client()
    ready = await client.ready(site.responder, "a.example")
    dns.records("a.example", "CAA", f'0 issue "ca.example; {parameter.format(client.kid)}"')

    assert ((await finalized(client, ready)).error == "") is allowed


@pytest.mark.parametrize("rcode", ["SERVFAIL", "REFUSED"])
async def test_s128_ca_264_a_look_up_that_fails_denies(site, dns, rcode):
    client = await site.client()
    ready = await client.ready(site.responder, "a.example")
    dns.script("a.example", "CAA", Answer(rcode=rcode))

    refused = await finalized(client, ready)

    assert (refused.status, refused.error) == (403, "caa")
    told = f"CAA a.example: {rcode} from 127.0.0.1 port {dns.port}"
    assert refused.json["detail"] == f"the CAA records of a.example cannot be read: {told}"


async def test_ca_263_a_name_without_records_is_not_restricted(site, dns):
    client = await site.client()
    ready = await client.ready(site.responder, "a.example")

    assert (await finalized(client, ready)).json["status"] == "valid"
    assert [one.name for one in dns.questions if one.kind == "CAA"] == ["a.example"]


async def test_ca_259_ca_260_a_ca_has_names_of_its_own_and_the_directory_shows_them(start_service, dns):
    cas = [{"id": "one"}, {"id": "two", "is_default": True, "caa_identities": ["two.example"]}]
    server = {"dns_resolver_addr": dns.address, "caa_identities": ["one.example"]}
    async with acme_site(start_service, "caa", server=server, ca=cas) as site:
        client = await site.client()
        ready = await client.ready(site.responder, "a.example")
        dns.records("a.example", "CAA", '0 issue "one.example"')
        refused = await finalized(client, ready)
        dns.records("a.example", "CAA", '0 issue "two.example"')
        done = await finalized(client, ready)
        directory = (await site.get_directory()).json
        others = {ca: (await site.client(ca=ca, register=False)).directory for ca in ("one", "two")}

    assert (refused.error, done.error) == ("caa", "")
    assert directory["meta"]["caaIdentities"] == others["two"]["meta"]["caaIdentities"] == ["two.example"]
    assert others["one"]["meta"]["caaIdentities"] == ["one.example"]


async def test_ca_261_without_names_the_directory_shows_none_and_nothing_is_asked(start_service, dns):
    dns.records("a.example", "CAA", '0 issue ";"')
    async with acme_site(start_service, "caa", server={"dns_resolver_addr": dns.address}) as site:
        client = await site.client()
        done = await finalized(client, await client.ready(site.responder, "a.example"))
        directory = (await site.get_directory()).json

    assert done.json["status"] == "valid"
    assert "caaIdentities" not in directory["meta"]
