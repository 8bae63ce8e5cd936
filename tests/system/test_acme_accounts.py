"""Accounts over HTTP (RFC 8555 s7.3), on both databases."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from rig.acme import Key, Site, acme_site, csr_for

from greatseal.api.acme import AccountBinding, Binding, BindingRequest, Unauthorized
from greatseal.api.services import ACCOUNTS
from greatseal.api.store import Refuse
from greatseal.jose.acceptance import spki_sha256
from greatseal.testing.acme import AccountBindingContract
from greatseal.testing.store import open_test_database


@pytest.fixture
async def site(start_service, database_url) -> AsyncIterator[Site]:
    async with acme_site(start_service, database=database_url) as site:
        yield site


def service(site, key):
    return site.service.kernel.service(key)


async def events(site, account_url):
    """The audit events about the account, in order."""
    from sqlalchemy import select

    from greatseal.db.core_tables import audit
    from greatseal.db.tables import param

    rows = select(audit.c.event_type, audit.c.outcome, audit.c.service).where(audit.c.sub == param("sub")).order_by(audit.c.id)
    found = await site.service.host("acme").db.read(lambda tx: tx.all(rows, sub=account_url.rpartition("/")[2]))
    return [(row.event_type, row.outcome, row.service) for row in found]


async def test_ca_016_a_new_account(site):
    client = await site.client(register=False)

    answer = await client.register(contact=["mailto:admin@example.org"], status="deactivated", orders="https://x.example")

    assert answer.status == 201
    assert answer.location.startswith(f"{site.url}/acme/account/")
    shown = {"status": "valid", "contact": ["mailto:admin@example.org"], "termsOfServiceAgreed": True}
    assert answer.json == {**shown, "orders": f"{client.kid}/orders"}
    assert (await client.post(client.kid)).json == answer.json
    assert await events(site, client.kid) == [("account.create", "success", "ca")]


async def test_ca_018_the_account_of_a_key_is_found_again(site):
    client = await site.client()
    url = client.kid

    again = await client.register(contact=["mailto:other@example.org"])
    existing = await client.register(onlyReturnExisting=True)

    assert (again.status, again.location, again.json["contact"]) == (200, url, [])
    assert (existing.status, existing.location) == (200, url)
    view = await service(site, ACCOUNTS).find(url.rpartition("/")[2])
    assert view.thumbprint == client.key.thumbprint


async def test_requests_of_one_new_key_at_once_make_one_account(site):
    key = Key()
    clients = [await site.client(key, register=False) for _ in range(20)]

    answers = await asyncio.gather(*(client.register() for client in clients))

    assert sorted(one.status for one in answers) == [200] * 19 + [201]
    assert len({one.location for one in answers}) == 1
    assert await events(site, answers[0].location) == [("account.create", "success", "ca")]


async def test_an_update_changes_contacts_alone(site):
    client = await site.client()

    changed = await client.post(client.kid, {"contact": ["mailto:new@example.org"], "termsOfServiceAgreed": False, "orders": 7})
    same = await client.post(client.kid, {})
    cleared = await client.post(client.kid, {"contact": []})
    wrong = await client.post(client.kid, {"status": "revoked"})

    assert changed.json == same.json
    assert (changed.json["contact"], changed.json["termsOfServiceAgreed"]) == (["mailto:new@example.org"], True)
    assert cleared.json["contact"] == []
    assert (wrong.status, wrong.error) == (400, "malformed")
    assert [one[0] for one in await events(site, client.kid)] == ["account.create", "account.update", "account.update"]


async def test_ca_017_a_deactivated_account_can_do_nothing_more(site):
    client = await site.client()
    pending, ready = await client.order("a.localhost"), await client.ready(site.responder, "b.localhost")

    gone = await client.post(client.kid, {"status": "deactivated"})
    answers = [
        await client.post(client.kid),
        await client.post(pending.location),
        await client.order("c.localhost"),
        await client.finalize(ready.json, csr_for("b.localhost")),
        await client.post(client.directory["newAccount"], {}, kid=None, jwk=client.key.jwk),
        await client.post(client.directory["newAccount"], {"onlyReturnExisting": True}, kid=None, jwk=client.key.jwk),
    ]

    assert (gone.status, gone.json["status"]) == (200, "deactivated")
    assert {(one.status, one.error) for one in answers} == {(401, "unauthorized")}
    assert [one[0] for one in await events(site, client.kid)][-1] == "account.deactivate"


async def block(site, key):
    blocked, db = site.service.host("acme").blocked_keys, site.service.host("acme").db
    assert await db.write(blocked.block, spki_sha256(key.private.public_key()), reason="keyCompromise", by="alice")


@pytest.fixture(params=["at once", "in the transaction"])
def moment(request, site, monkeypatch):
    """A block is seen before the work, or, when it commits during the work, by the transaction that records it."""
    if request.param == "in the transaction":

        async def find(_spki_sha256):
            return None

        monkeypatch.setattr(site.service.kernel.blocked_keys, "find", find)


async def test_a_blocked_key_gets_no_account(site, moment):
    client = await site.client(register=False)
    await block(site, client.key)

    refused = await client.register()

    assert (refused.status, refused.error) == (400, "badPublicKey")
    assert refused.json["detail"] == "the account key is blocked (keyCompromise); make an account with another key"
    assert (await client.register(onlyReturnExisting=True)).error in {"badPublicKey", "accountDoesNotExist"}


async def test_an_account_whose_key_is_blocked_can_do_nothing_more(site):
    client = await site.client()
    ready = await client.ready(site.responder, "a.localhost")
    await block(site, client.key)

    answers = [
        await client.post(client.kid),
        await client.post(client.kid, {"status": "deactivated"}),
        await client.order("b.localhost"),
        await client.finalize(ready.json, csr_for("a.localhost")),
        await client.register(onlyReturnExisting=True),
    ]

    assert {(one.status, one.error) for one in answers} == {(400, "badPublicKey")}
    assert all("keyCompromise" in one.json["detail"] for one in answers)


async def test_a_key_that_is_blocked_while_the_order_is_finalized_ends_it(site, moment):
    client, key = await site.client(), Key()
    ready, other = await client.ready(site.responder, "a.localhost"), await client.ready(site.responder, "b.localhost")
    await block(site, key)

    refused = await client.finalize(ready.json, csr_for("a.localhost", key=key.private))

    assert (refused.status, refused.error) == (400, "badCSR")
    assert refused.json["detail"] == "the key of the CSR is blocked (keyCompromise); make another one"
    assert (await client.post(ready.location)).json["status"] == "ready"
    assert (await client.finalize(ready.json, csr_for("a.localhost"))).json["status"] == "valid"
    await block(site, client.key)
    blocked = await client.finalize(other.json, csr_for("b.localhost"))
    assert (blocked.status, blocked.error) == (400, "badPublicKey")


async def test_ca_019_grants_are_set_through_the_service(site):
    client, accounts = await site.client(), service(site, ACCOUNTS)
    id, db = client.kid.rpartition("/")[2], site.service.host("acme").db

    assert (await accounts.find(id)).profile_grants is None
    assert await db.write(accounts.grant, id, ("one", "two"))
    assert (await accounts.find(id)).profile_grants == ("one", "two")
    assert await db.write(accounts.grant, id, None)
    assert (await accounts.find(id)).profile_grants is None
    await client.post(client.kid, {"status": "deactivated"})
    assert not await db.write(accounts.grant, id, ("one",))
    assert not await db.write(accounts.grant, "unknown", ("one",))
    assert await accounts.find("unknown") is None


class Voucher(AccountBinding):
    """A binding that wants the word ``please``."""

    member = "voucher"
    required = True

    def bind(self, tx, request: BindingRequest) -> Binding:
        if request.value != {"word": "please"}:
            raise Refuse(Unauthorized("the voucher is not good"))
        return Binding(echo=request.value, profile_grants=("special",), kerberos_principal="alice@EXAMPLE.ORG")


class TestVoucher(AccountBindingContract):
    single_use = False
    wrong = ("please",)

    @pytest.fixture(autouse=True)
    async def _store(self, tmp_path):
        async with open_test_database(f"sqlite:///{tmp_path}/voucher.db") as self.store:
            yield

    def binding(self):
        return Voucher()

    def database(self):
        return self.store

    async def sent(self, request):
        return {"word": "please"}


async def test_ca_019_ca_020_a_binding_gives_grants_and_principal(start_service, tmp_path, monkeypatch):
    from greatseal.testing.distributions import install

    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    code = "from greatseal import hookimpl\nfrom system.test_acme_accounts import Voucher\n\n\n"
    code += "class Plugin:\n    @hookimpl\n    def account_bindings(self):\n        return [Voucher()]\n"
    feature = install(folder, "greatseal-voucher", code)
    async with acme_site(start_service, feature) as site:
        client = await site.client(register=False)
        absent = await client.register()
        wrong = await client.register(voucher={"word": "now"})
        existing = await client.register(onlyReturnExisting=True)
        bound = await client.register(voucher={"word": "please"})
        again = await client.register()
        view = await service(site, ACCOUNTS).find(client.kid.rpartition("/")[2])

    assert client.directory["meta"]["externalAccountRequired"] is True
    assert (absent.status, absent.error) == (403, "externalAccountRequired")
    assert (wrong.status, wrong.error) == (401, "unauthorized")
    assert existing.error == "accountDoesNotExist"
    assert (bound.status, bound.json["voucher"]) == (201, {"word": "please"})
    assert again.status == 200
    assert (view.profile_grants, view.kerberos_principal) == (("special",), "alice@EXAMPLE.ORG")
