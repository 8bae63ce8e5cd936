"""Terms of service (RFC 8555 s7.3.3) that were agreed to, that appeared, and that changed."""

from contextlib import asynccontextmanager

import pytest
from rig.acme import Key, acme_site, csr_for
from sqlalchemy import select

from greatseal.db.core_tables import audit

OLD, NEW = "https://ca.example/terms/1", "https://ca.example/terms/2"
AGREED = select(audit.c.sub, audit.c.detail).where(audit.c.event_type == "account.agree")


@pytest.fixture
def at(start_service, database_url, tmp_path):
    """A service with the terms at a URL, on the database of the one before."""

    @asynccontextmanager
    async def start(url):
        server, cluster = {"terms_of_service_url": url} if url else {}, {"key_file": str(tmp_path / "cluster.key")}
        async with acme_site(start_service, database=database_url, server=server, cluster=cluster) as site:
            yield site
            await site.service.stop()

    return start


async def again(site, key):
    """The client of a key whose account the service has from before."""
    client = await site.client(key, register=False)
    found = await client.register(onlyReturnExisting=True, termsOfServiceAgreed=False)
    assert (found.status, found.links.get("terms-of-service")) == (200, client.directory["meta"].get("termsOfService"))
    return client


async def test_a_new_account_agrees_to_the_terms(at):
    async with at(OLD) as site:
        client = await site.client(register=False)
        refused = await client.register(termsOfServiceAgreed=False)
        made = await client.register()

    assert (refused.status, refused.error, refused.json["instance"]) == (403, "userActionRequired", OLD)
    assert refused.links["terms-of-service"] == made.links["terms-of-service"] == OLD
    assert client.directory["meta"]["termsOfService"] == OLD
    assert made.json["termsOfServiceAgreed"] is True


@pytest.mark.parametrize("before", [OLD, None])
async def test_an_account_agrees_anew_to_terms_that_changed_or_appeared(at, before):
    key = Key()
    async with at(before) as site:
        client = await site.client(key)
        ready = await client.ready(site.responder, "a.localhost")
        earlier = client.kid.rpartition("/")[2]
    async with at(NEW) as site:
        client = await again(site, key)
        refused = await client.order("a.localhost")
        shown = await client.post(client.kid)
        order = (await client.post(f"{site.url}/acme/order/{ready.location.rpartition('/')[2]}")).json
        finalized = await client.finalize(order, csr_for("a.localhost"))
        no = await client.post(client.kid, {"termsOfServiceAgreed": False})
        still = await client.order("a.localhost")
        agreed = await client.post(client.kid, {"termsOfServiceAgreed": True, "contact": ["mailto:a@example.org"]})
        twice = await client.post(client.kid, {"termsOfServiceAgreed": True})
        made = await client.order("a.localhost")
        told = [tuple(row) for row in await site.service.host("acme").db.read(lambda tx: tx.all(AGREED))]

    assert (refused.status, refused.error, refused.json["instance"]) == (403, "userActionRequired", NEW)
    assert refused.links["terms-of-service"] == NEW
    assert "termsOfServiceAgreed: true" in refused.json["detail"]
    assert "termsOfServiceAgreed" not in shown.json
    assert finalized.status == 200
    assert no.status == 200
    assert still.error == "userActionRequired"
    assert agreed.json == twice.json
    assert agreed.json["termsOfServiceAgreed"] is True
    assert agreed.json["contact"] == ["mailto:a@example.org"]
    assert made.status == 201
    assert told == [(earlier, NEW)]


async def test_an_account_that_did_not_agree_may_leave_and_change_its_key(at):
    first, second = Key(), Key()
    async with at(OLD) as site:
        await site.client(first), await site.client(second)
    async with at(NEW) as site:
        leaving, changing = await again(site, first), await again(site, second)
        changed = await changing.change_key(Key())
        gone = await leaving.post(leaving.kid, {"status": "deactivated"})

    assert changed.status == 200
    assert gone.json["status"] == "deactivated"


async def test_terms_that_are_gone_bind_nobody(at):
    key = Key()
    async with at(OLD) as site:
        await site.client(key)
    async with at(None) as site:
        client = await again(site, key)
        made = await client.order("a.localhost")
        agreed = await client.post(client.kid, {"termsOfServiceAgreed": True})

    assert made.status == 201
    assert agreed.json["termsOfServiceAgreed"] is True
