"""When to renew, and orders that replace a certificate (RFC 9773), over HTTP on both databases."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from rig.acme import AcmeClient, Answer, Site, acme_site, b64url, csr_for
from sqlalchemy import select

from greatseal.api.services import ISSUANCE
from greatseal.clock import FakeClock
from greatseal_acme.renewal_info import UNKNOWN_PER_MINUTE, CertificateName
from greatseal_acme.tables import order

DAY = 86_400


@pytest.fixture
async def site(start_service: Any, database_url: str) -> AsyncIterator[Site]:
    clock = FakeClock(int(time.time()) * 1_000_000)
    async with acme_site(start_service, database=database_url, clock=clock) as site:
        yield site


def name_of(leaf: x509.Certificate) -> str:
    """As a client makes it (RFC 9773 s4.1)."""
    key = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert key is not None
    serial = leaf.serial_number.to_bytes(leaf.serial_number.bit_length() // 8 + 1)
    return f"{b64url(key)}.{b64url(serial)}"


async def certificate(client: AcmeClient, site: Site, *names: str) -> str:
    """Issue one; its name."""
    return name_of((await client.issue(site.responder, *names))[0])


async def ask(client: AcmeClient, name: str) -> Answer:
    return await client.get(f"{client.directory['renewalInfo']}/{name}")


async def revoke(site: Site, name: str) -> None:
    """As an operator does."""
    issuance = site.service.kernel.service(ISSUANCE)
    read = CertificateName.read(name)

    def write(tx: Any) -> None:
        issuance.revoke(tx, issuance.named(tx, read.key_identifier, read.serial).id, 1, by="a test")

    await site.service.host("acme").db.write(write)


async def test_the_window_is_in_the_last_third_and_the_answer_says_when_to_ask_again(site):
    client = await site.client()
    leaf, _ = await client.issue(site.responder, "a.localhost")

    answer = await ask(client, name_of(leaf))

    lifetime = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    window = {member: datetime.fromisoformat(moment) for member, moment in answer.json["suggestedWindow"].items()}
    assert answer.json.keys() == {"suggestedWindow"}
    assert abs(window["start"] - (leaf.not_valid_before_utc + lifetime * 2 / 3)) < timedelta(seconds=2)
    assert window["end"] == leaf.not_valid_after_utc - timedelta(days=1)
    assert answer.headers["Retry-After"] == "21600"
    assert answer.headers["Cache-Control"] == "max-age=300"
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_a_revoked_certificate_is_to_be_renewed_at_once(site):
    client = await site.client()
    name, other = [await certificate(client, site, f"{one}.localhost") for one in "ab"]
    before = (await ask(client, name)).json["suggestedWindow"]

    await revoke(site, name)
    window = (await ask(client, name)).json["suggestedWindow"]

    now = datetime.fromtimestamp(site.service.kernel.clock.now() / 1_000_000, UTC)
    assert now < datetime.fromisoformat(before["start"])
    assert datetime.fromisoformat(window["start"]) < datetime.fromisoformat(window["end"]) <= now
    assert now < datetime.fromisoformat((await ask(client, other)).json["suggestedWindow"]["start"])


async def test_interval_and_explanation_are_those_of_the_configuration(start_service):
    server = {"ari_retry_after_secs": 3600, "ari_explanation_url": "https://ca.example/why"}
    async with acme_site(start_service, server=server) as site:
        client = await site.client()
        answer = await ask(client, await certificate(client, site, "a.localhost"))

    assert answer.json["explanationURL"] == "https://ca.example/why"
    assert answer.headers["Retry-After"] == "3600"


async def test_what_is_no_name_is_malformed_and_what_is_not_here_is_not_found(site):
    client = await site.client()
    key, _, serial = (await certificate(client, site, "a.localhost")).partition(".")

    answers = {
        name: await ask(client, name)
        for name in ("nonsense", f"{key}.", f"{key}.{serial}=", f"{key}.AQID", f"{b64url(b'another authority...')}.{serial}")
    }

    told = [(answer.status, answer.error) for answer in answers.values()]
    assert told == [(400, "malformed")] * 3 + [(404, "malformed")] * 2


async def test_an_address_that_asks_for_what_is_not_here_is_slowed_down(site):
    client = await site.client()
    name = await certificate(client, site, "a.localhost")
    key = name.partition(".")[0]
    assert (await ask(client, name)).status == 200

    answers = [await ask(client, f"{key}.{b64url(bytes([1, number, 9]))}") for number in range(UNKNOWN_PER_MINUTE + 5)]

    assert Counter(answer.status for answer in answers) == {404: UNKNOWN_PER_MINUTE, 429: 5}
    assert (answers[-1].error, int(answers[-1].headers["Retry-After"]) <= 60) == ("rateLimited", True)
    assert (await ask(client, name)).status == 200  # what is known costs nothing


async def test_s074_all_addresses_of_one_network_of_ipv6_are_slowed_down_as_one(start_service):
    async with acme_site(start_service, server={"trusted_proxies": ["127.0.0.0/8"]}) as site:
        client = await site.client()
        key = (await certificate(client, site, "a.localhost")).partition(".")[0]
        url = client.directory["renewalInfo"]

        answers = [
            await client.get(f"{url}/{key}.{b64url(bytes([1, number, 9]))}", headers={"X-Forwarded-For": f"2001:db8::{number:x}"})
            for number in range(UNKNOWN_PER_MINUTE + 5)
        ]

    assert Counter(answer.status for answer in answers) == {404: UNKNOWN_PER_MINUTE, 429: 5}


async def test_a_certificate_of_another_ca_is_not_found_below_this_one(start_service):
    async with acme_site(start_service, ca=[{"id": "one"}, {"id": "two", "is_default": True}]) as site:
        one, two = await site.client(ca="one"), await site.client(ca="two")
        name = await certificate(one, site, "a.localhost")
        again = await site.client(one.key, ca="two")

        assert (await ask(one, name)).status == 200
        assert (await ask(two, name)).status == 404
        refused = await again.order("a.localhost", replaces=name)

    assert (refused.status, refused.error) == (400, "malformed")


async def test_an_order_replaces_a_certificate_of_its_account_with_a_name_in_common(site):
    client, other = await site.client(), await site.client()
    name = await certificate(client, site, "a.localhost", "b.localhost")
    key = name.partition(".")[0]

    refusals = {
        "no name": await client.order("a.localhost", replaces="nonsense"),
        "unknown": await client.order("a.localhost", replaces=f"{key}.AQID"),
        "of another": await other.order("a.localhost", replaces=name),
        "nothing in common": await client.order("c.localhost", replaces=name),
        "no text": await client.order("a.localhost", replaces=7),
    }
    made = await client.order("b.localhost", "c.localhost", replaces=name)
    shown = await client.post(made.location)

    assert {why: (one.status, one.error) for why, one in refusals.items()} == {
        "no name": (400, "malformed"),
        "unknown": (400, "malformed"),
        "of another": (401, "unauthorized"),
        "nothing in common": (400, "malformed"),
        "no text": (400, "malformed"),
    }
    assert refusals["no name"].json["detail"].startswith("replaces: ")
    assert made.status == 201
    assert made.json["replaces"] == shown.json["replaces"] == name
    assert "replaces" not in (await client.order("a.localhost")).json


async def test_a_certificate_is_replaced_once_for_as_long_as_the_order_is_not_invalid(site):
    client = await site.client()
    name = await certificate(client, site, "a.localhost")

    first = await client.order("a.localhost", "b.localhost", replaces=name)
    taken = await client.order("a.localhost", replaces=name)
    again = await client.order("a.localhost", "b.localhost", replaces=name)
    await client.post(first.json["authorizations"][0], {"status": "deactivated"})
    second = await client.order("a.localhost", replaces=name)
    site.service.kernel.clock.advance(DAY + 1)  # it expires, and nothing wrote that down
    client.nonces.clear()
    third = await client.ready(site.responder, "a.localhost", replaces=name)
    done = await client.finalize(third.json, csr_for("a.localhost"))
    late = await client.order("a.localhost", replaces=name)

    assert (taken.status, taken.error) == (409, "alreadyReplaced")
    assert (again.status, again.location) == (201, first.location)  # whose answer was lost
    assert len({first.location, second.location, third.location}) == 3
    assert [(await client.post(one.location)).json["status"] for one in (first, second)] == ["invalid", "invalid"]
    assert done.json["status"] == "valid"
    assert (late.status, late.error) == (409, "alreadyReplaced")


async def test_s113_fifty_orders_at_once_replace_it_once(site):
    client = await site.client()
    name = await certificate(client, site, "a.localhost")
    while len(client.nonces) < 50:
        client.nonces.append((await client.get(client.directory["newNonce"], "HEAD")).headers["Replay-Nonce"])

    answers = await asyncio.gather(*(client.order("a.localhost", f"n{number}.localhost", replaces=name) for number in range(50)))

    assert Counter(answer.error for answer in answers) == {"": 1, "alreadyReplaced": 49}
    rows = await site.service.host("acme").db.read(lambda tx: tx.all(select(order.c.id).where(order.c.replaces == name)))
    assert len(rows) == 1
