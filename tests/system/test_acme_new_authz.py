"""Authorizations before an order (RFC 8555 s7.4.1) and for all names below a domain (RFC 9444), over HTTP on both databases."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography import x509
from rig.acme import AcmeClient, Answer, Site, acme_site, csr_for
from sqlalchemy import select
from system.acme_validators import installed
from system.test_acme_dns import Lab, dns_lab

from greatseal.clock import FakeClock
from greatseal.testing.store import audit
from greatseal_acme import tables as t

DAY = 86_400
SUBDOMAINS = {"allow_subdomain_auth": True}


@pytest.fixture
async def site(start_service: Any, database_url: str) -> AsyncIterator[Site]:
    clock = FakeClock(int(time.time()) * 1_000_000)
    async with acme_site(start_service, database=database_url, clock=clock) as site:
        yield site


@pytest.fixture
async def lab(start_service: Any) -> AsyncIterator[Lab]:
    async with dns_lab(start_service, "dns-01", server=SUBDOMAINS) as lab:
        yield lab


async def beforehand(client: AcmeClient, value: str, type: str = "dns", **members: Any) -> Answer:
    return await client.post(client.directory["newAuthz"], {"identifier": {"type": type, "value": value, **members}})


async def proven(lab: Lab, value: str, **members: Any) -> str:
    """An authorization that was proven by DNS before there is an order; its URL."""
    made = await beforehand(lab.client, value, **members)
    assert made.status == 201, made.body
    await prove(lab, made.location, value)
    return made.location


async def prove(lab: Lab, authorization: str, value: str) -> None:
    url, expected = await lab.due(authorization)
    lab.dns.records(f"_acme-challenge.{value}", "TXT", f'"{expected}"')
    assert (await lab.outcome(authorization, url))["status"] == "valid"


async def names_of(client: AcmeClient, order: Answer, *names: str) -> list[str]:
    """Those of the certificate that a ready order gives."""
    done = await client.finalize(order.json, csr_for(*names))
    assert done.status == 200, done.body
    leaf = x509.load_pem_x509_certificates((await client.post(done.json["certificate"])).body)[0]
    return sorted(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName))


async def test_an_order_uses_what_was_proven_before_it_as_often_as_it_likes(site):
    client = await site.client()
    made = await beforehand(client, "A.localhost")
    assert await client.prove(made.location, site.responder) == "valid"

    orders = [await client.order("a.localhost") for _ in range(2)]
    partly = await client.order("a.localhost", "b.localhost")

    assert (made.status, made.json["status"]) == (201, "pending")
    assert made.json["identifier"] == {"type": "dns", "value": "a.localhost"}
    assert made.json.keys() == {"identifier", "status", "expires", "challenges"}
    assert [order.json["status"] for order in orders] == ["ready", "ready"]
    assert [order.json["authorizations"] for order in orders] == [[made.location]] * 2
    assert (await client.post(orders[0].location)).json == orders[0].json
    assert partly.json["status"] == "pending"
    assert partly.json["authorizations"][0] == made.location
    assert await names_of(client, orders[0], "a.localhost") == ["a.localhost"]
    assert await client.prove(partly.json["authorizations"][1], site.responder) == "valid"
    assert (await client.post(partly.location)).json["status"] == "ready"


async def test_what_was_proven_for_an_order_or_by_another_or_is_not_proven_is_not_used(site):
    client, other = await site.client(), await site.client()
    await client.ready(site.responder, "a.localhost")
    theirs = await beforehand(other, "b.localhost")
    assert await other.prove(theirs.location, site.responder) == "valid"
    waiting = await beforehand(client, "c.localhost")
    given_up = await beforehand(client, "d.localhost")
    assert await client.prove(given_up.location, site.responder) == "valid"
    await client.post(given_up.location, {"status": "deactivated"})

    orders = [await client.order(f"{name}.localhost") for name in "abcd"]

    assert [order.json["status"] for order in orders] == ["pending"] * 4
    assert orders[2].json["authorizations"] != [waiting.location]


async def test_one_that_ends_soon_is_not_used(site):
    client = await site.client()
    made = await beforehand(client, "a.localhost")
    assert await client.prove(made.location, site.responder) == "valid"

    site.service.kernel.clock.advance(DAY - 30)
    client = await site.client(client.key)

    assert (await client.order("a.localhost")).json["status"] == "pending"


async def test_asking_again_gives_the_same_until_it_ends(site):
    client = await site.client()
    made = await beforehand(client, "a.localhost")

    pending = await beforehand(client, "a.localhost")
    assert await client.prove(made.location, site.responder) == "valid"
    valid = await beforehand(client, "a.localhost")
    await client.post(made.location, {"status": "deactivated"})
    fresh = await beforehand(client, "a.localhost")

    assert [(one.status, one.location == made.location) for one in (made, pending, valid, fresh)] == [
        (201, True), (200, True), (200, True), (201, False)
    ]  # fmt: skip


async def test_to_give_it_up_ends_the_orders_that_rest_on_it_and_no_others(site):
    client = await site.client()
    made = await beforehand(client, "a.localhost")
    assert await client.prove(made.location, site.responder) == "valid"
    finished, ready, pending = [await client.order("a.localhost", *more) for more in ((), (), ("b.localhost",))]
    await names_of(client, finished, "a.localhost")

    answer = await client.post(made.location, {"status": "deactivated"})

    shown = [(await client.post(one.location)).json for one in (finished, ready, pending)]
    assert (answer.status, answer.json["status"]) == (200, "deactivated")
    assert [one["status"] for one in shown] == ["valid", "invalid", "invalid"]
    assert shown[1]["error"]["identifier"] == {"type": "dns", "value": "a.localhost"}
    assert (await client.finalize(ready.json, csr_for("a.localhost"))).error == "orderNotReady"
    events = await site.service.host("acme").db.read(
        lambda tx: tx.all(select(audit).where(audit.c.event_type == "authorization.deactivate"))
    )
    assert [event.detail for event in events] == ["dns:a.localhost"]


async def test_what_cannot_be_authorized_beforehand_is_refused(site):
    client = await site.client()

    answers = {
        "wildcard": await beforehand(client, "*.a.localhost"), "name": await beforehand(client, "-"),
        "type": await beforehand(client, "1", type="phone"), "no identifier": await client.post(client.directory["newAuthz"], {}),
        "read": await client.post(client.directory["newAuthz"]),
    }  # fmt: skip

    told = {what: answer.error for what, answer in answers.items()}
    assert told.pop("wildcard") in {"malformed", "rejectedIdentifier"}
    assert told == {"name": "rejectedIdentifier", "type": "unsupportedIdentifier", "no identifier": "malformed", "read": "malformed"}
    assert answers["type"].json["identifier"] == {"type": "phone", "value": "1"}


async def test_a_wildcard_cannot_be_authorized_beforehand(lab):
    refused = await beforehand(lab.client, "*.example.org")

    assert (refused.status, refused.error) == (400, "malformed")
    assert "beforehand" in refused.json["detail"]


async def test_what_has_no_names_below_it_is_authorized_alone(start_service, tmp_path):
    with installed(tmp_path / "installed") as feature:
        async with acme_site(start_service, feature, server=SUBDOMAINS) as site:
            client = await site.client()
            address = await beforehand(client, "ann@a.example", type="email", subdomainAuthAllowed=True)

    assert address.status == 201
    assert "subdomainAuthAllowed" not in address.json


async def test_an_account_has_no_more_of_them_than_orders(start_service):
    async with acme_site(start_service, acme={"max_pending_orders": 2}) as site:
        client, other = await site.client(), await site.client()
        answers = [await beforehand(client, f"{name}.localhost") for name in "abca"]
        free = await beforehand(other, "a.localhost")
        await client.post(answers[0].location, {"status": "deactivated"})
        again = await beforehand(client, "c.localhost")

    assert [answer.status for answer in answers] == [201, 201, 429, 200]
    assert (answers[2].error, answers[2].headers["Retry-After"]) == ("rateLimited", "3600")
    assert (free.status, again.status) == (201, 201)


async def test_each_counts_as_an_order_of_the_hour(start_service):
    async with acme_site(start_service, acme={"new_orders_per_hour": 2}) as site:
        client = await site.client()
        answers = [await beforehand(client, "a.localhost"), await client.order("b.localhost"), await beforehand(client, "c.localhost")]

    assert [answer.status for answer in answers] == [201, 201, 429]


async def test_those_that_no_order_used_leave_thirty_days_after_their_end(site):
    client = await site.client()
    unused, used = await beforehand(client, "a.localhost"), await beforehand(client, "b.localhost")
    assert await client.prove(used.location, site.responder) == "valid"
    assert (await client.order("b.localhost")).json["status"] == "ready"
    host = site.service.host("acme")
    purge = site.service.kernel.hooks.instances["acme"].acme(host).purge

    async def left() -> set[str]:
        return {row.identifier_value for row in await host.db.read(lambda tx: tx.all(select(t.authorization)))}

    site.service.kernel.clock.advance(30 * DAY)
    await purge.run()
    assert await left() == {"a.localhost", "b.localhost"}
    site.service.kernel.clock.advance(2 * DAY + 3600)
    await purge.run()

    assert await left() == set()
    assert unused.status == 201


async def test_a_domain_is_proven_once_for_all_names_below_it(lab):
    domain = await proven(lab, "example.org", subdomainAuthAllowed=True)

    shown = (await lab.client.post(domain)).json
    orders = {
        names: await lab.client.order(*names)
        for names in (("www.example.org",), ("a.b.example.org", "example.org"), ("*.example.org",), ("*.a.example.org",))
    }
    foreign = [await lab.client.order(name) for name in ("badexample.org", "example.org.test", "www.example.net")]

    assert lab.client.directory["meta"]["subdomainAuthAllowed"] is True
    assert shown["subdomainAuthAllowed"] is True
    assert shown["identifier"] == {"type": "dns", "value": "example.org"}
    assert "wildcard" not in shown
    for names, order in orders.items():
        assert (order.json["status"], order.json["authorizations"]) == ("ready", [domain])
        assert await names_of(lab.client, order, *names) == sorted(names)
    assert [one.json["status"] for one in foreign] == ["pending"] * 3


async def test_a_name_that_was_proven_alone_proves_none_below_it(lab):
    await proven(lab, "example.org")

    assert (await lab.client.order("example.org")).json["status"] == "ready"
    assert (await lab.client.order("www.example.org")).json["status"] == "pending"
    assert (await lab.client.order("*.example.org")).json["status"] == "pending"


async def test_an_order_says_which_ancestor_its_client_can_prove(lab):
    names = ("foo.bar.example.org", "*.bar.example.org", "www.example.org")
    identifiers = [{"type": "dns", "value": name, "ancestorDomain": "Example.org"} for name in names]
    made = await lab.client.order(*identifiers)

    (authorization,) = made.json["authorizations"]
    shown = (await lab.client.post(authorization)).json
    await prove(lab, authorization, "example.org")
    ready = await lab.client.post(made.location)

    assert [one["value"] for one in made.json["identifiers"]] == list(names)
    assert (shown["identifier"], shown["subdomainAuthAllowed"]) == ({"type": "dns", "value": "example.org"}, True)
    assert [one["type"] for one in shown["challenges"]] == ["dns-01"]  # what a web server says is said for one name
    assert ready.json["status"] == "ready"
    assert await names_of(lab.client, ready, *names) == sorted(names)


@pytest.mark.parametrize(
    ("ancestor", "error"),
    [
        ("xample.org", "malformed"), ("www.example.org", "malformed"), ("a.www.example.org", "malformed"), ("example.net", "malformed"),
        ("*.example.org", "malformed"), ("org", "rejectedIdentifier"), ("exa_mple.org", "rejectedIdentifier"), ("", "rejectedIdentifier"),
    ],
)  # fmt: skip
async def test_an_ancestor_is_a_whole_domain_above_the_name(lab, ancestor, error):
    refused = await lab.client.order({"type": "dns", "value": "www.example.org", "ancestorDomain": ancestor})

    assert (refused.status, refused.error) == (400, error)
    assert refused.json["identifier"] == {"type": "dns", "value": "www.example.org"}


async def test_only_domains_have_ancestors(start_service, tmp_path):
    with installed(tmp_path / "installed") as feature:
        async with acme_site(start_service, feature, server=SUBDOMAINS) as site:
            client = await site.client()
            refused = await client.order({"type": "email", "value": "ann@a.example.org", "ancestorDomain": "example.org"})

    assert (refused.status, refused.error) == (400, "malformed")


async def test_without_the_switch_each_name_is_proven_for_itself(start_service):
    async with dns_lab(start_service, "dns-01") as lab:
        domain = await proven(lab, "example.org", subdomainAuthAllowed=True)
        shown = (await lab.client.post(domain)).json
        made = await lab.client.order({"type": "dns", "value": "www.example.org", "ancestorDomain": "example.org"})
        authorization = (await lab.client.post(made.json["authorizations"][0])).json

    assert "subdomainAuthAllowed" not in lab.client.directory["meta"]
    assert "subdomainAuthAllowed" not in shown
    assert made.json["status"] == "pending"
    assert authorization["identifier"] == {"type": "dns", "value": "www.example.org"}


async def test_where_no_challenge_proves_the_names_below_each_is_proven_for_itself(start_service):
    async with acme_site(start_service, server=SUBDOMAINS) as site:
        client = await site.client()
        made = await client.order({"type": "dns", "value": "a.b.localhost", "ancestorDomain": "b.localhost"})
        alone = await beforehand(client, "b.localhost", subdomainAuthAllowed=True)

    assert "subdomainAuthAllowed" not in alone.json
    assert made.status == 201


async def test_a_record_that_stays_is_asked_for_each_order(start_service):
    async with dns_lab(start_service, "dns-persist-01", server={"dns_persist_issuer_domains": "ca.example"}) as lab:
        made = await beforehand(lab.client, "a.example")
        challenge = await lab.client.challenge(made.location, "dns-persist-01")
        lab.dns.records("_validation-persist.a.example", "TXT", f'"ca.example; accounturi={lab.client.kid}"')
        decided = await lab.outcome(made.location, challenge["url"])
        order = await lab.client.order("a.example")

    assert decided["status"] == "valid"
    assert order.json["status"] == "pending"


async def test_a_domain_with_the_names_below_it_needs_a_record_for_wildcards(start_service):
    server = {"dns_persist_issuer_domains": "ca.example", **SUBDOMAINS}
    async with dns_lab(start_service, "dns-persist-01", server=server) as lab:
        made = await beforehand(lab.client, "a.example", subdomainAuthAllowed=True)
        challenge = await lab.client.challenge(made.location, "dns-persist-01")
        lab.dns.records("_validation-persist.a.example", "TXT", f'"ca.example; accounturi={lab.client.kid}"')
        decided = await lab.outcome(made.location, challenge["url"])

    assert made.json["subdomainAuthAllowed"] is True
    assert decided["status"] == "invalid"
