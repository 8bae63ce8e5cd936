"""Accounts and orders for operators, on both databases."""

import time
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
from rig.acme import AcmeClient, Site, acme_site, csr_for
from sqlalchemy import select

from greatseal.api.services import ACCOUNTS
from greatseal.clock import FakeClock
from greatseal.db.core_tables import audit
from greatseal.db.tables import param
from greatseal.testing.operators import install_operators

SECOND = 1_000_000
ROLES = ("administrator", "ca_operations", "ca_ra@default", "auditor")
EVENTS = select(audit.c.event_type, audit.c.principal, audit.c.detail).where(audit.c.sub == param("sub")).order_by(audit.c.id)
NOBODY = "00000000-0000-8000-8000-000000000000"


class Desk(msgspec.Struct):
    """A site, and operators who ask its admin listener."""

    site: Site

    async def ask(self, method: str, path: str, body: object = None, *, role: str = "administrator"):
        url = f"http://{self.site.service.addresses['admin']}/admin/{path}"
        headers = {"Authorization": f"Bearer ann:{role}"} if role else {}
        async with self.site.session.request(method, url, json=body, headers=headers) as answer:
            text = await answer.read()
            return answer.status, msgspec.json.decode(text) if text else None, answer.links.get("next", {}).get("url")

    async def client(self) -> tuple[AcmeClient, str]:
        client = await self.site.client()
        return client, (client.kid or "").rpartition("/")[2]

    async def events(self, id: str) -> list[tuple[str, str | None, str | None]]:
        rows = await self.site.service.host("acme").db.read(lambda tx: tx.all(EVENTS, sub=id))
        return [(row.event_type, row.principal, row.detail) for row in rows if row.event_type != "account.create"]


@pytest.fixture
async def desk(start_service, database_url, tmp_path, monkeypatch) -> AsyncIterator[Desk]:
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    clock = FakeClock(int(time.time()) * SECOND)
    operators = install_operators(folder)
    async with acme_site(start_service, operators, database=database_url, clock=clock, admin={"listen": "127.0.0.1:0"}) as site:
        yield Desk(site)


async def test_ca_133_grants_are_read_by_every_role(desk):
    client, id = await desk.client()
    accounts, db = desk.site.service.kernel.service(ACCOUNTS), desk.site.service.host("acme").db
    before = [await desk.ask("GET", f"account/{id}/profile-grants", role=role) for role in ROLES]
    await db.write(accounts.grant, id, ("one", "two"))

    assert before == [(200, {"profile_grants": None}, None)] * 4
    assert (await desk.ask("GET", f"account/{id}/profile-grants"))[1] == {"profile_grants": ["one", "two"]}
    assert [(await desk.ask("GET", f"account/{one}/profile-grants"))[0] for one in (NOBODY, "x")] == [404, 404]
    await client.post(client.kid, {"status": "deactivated"})
    assert (await desk.ask("GET", f"account/{id}/profile-grants"))[1] == {"profile_grants": ["one", "two"]}


async def test_ca_134_ca_135_grants_are_set_and_an_empty_list_is_none(desk):
    _, id = await desk.client()
    path, seen = f"account/{id}/profile-grants", []

    for grants in (["one"], [], ["two"], None):
        assert await desk.ask("PUT", path, {"profile_grants": grants}, role="ca_operations") == (204, None, None)
        seen.append((await desk.ask("GET", path))[1]["profile_grants"])

    assert seen == [["one"], None, ["two"], None]
    assert await desk.events(id) == [("account.grants", "ann", said) for said in ("one", "none", "two", "none")]


async def test_ca_136_ca_137_r91_grants_of_an_account_that_is_not_valid_are_404(desk):
    (gone, deactivated), (_, revoked), (_, deleted) = [await desk.client() for _ in range(3)]
    await desk.ask("PUT", f"account/{deleted}/profile-grants", {"profile_grants": ["one"]})
    await gone.post(gone.kid, {"status": "deactivated"})
    await desk.ask("POST", f"account/{revoked}/revoke")

    for id in (deactivated, revoked, NOBODY, "x"):
        assert (await desk.ask("PUT", f"account/{id}/profile-grants", {"profile_grants": ["one"]}))[0] == 404
        assert (await desk.ask("DELETE", f"account/{id}/profile-grants"))[0] == 404
    assert (await desk.ask("GET", f"account/{revoked}/profile-grants"))[:2] == (200, {"profile_grants": None})
    assert await desk.ask("DELETE", f"account/{deleted}/profile-grants") == (204, None, None)
    assert (await desk.ask("GET", f"account/{deleted}/profile-grants"))[1] == {"profile_grants": None}


@pytest.mark.parametrize(
    "body", [{}, [], {"profile_grants": "one"}, {"profile_grants": [1]}, {"profile_grants": [""]}, {"profile_grants": ["x"] * 1001}]
)
async def test_grants_that_are_none_are_400(desk, body):
    _, id = await desk.client()

    status, problem, _ = await desk.ask("PUT", f"account/{id}/profile-grants", body)

    assert (status, problem["type"]) == (400, "urn:ietf:params:acme:error:malformed")


async def test_ca_017_r117_a_revoked_account_can_do_nothing_more(desk):
    client, id = await desk.client()
    pending, ready = await client.order("a.localhost"), await client.ready(desk.site.responder, "b.localhost")

    status, shown, _ = await desk.ask("POST", f"account/{id}/revoke")
    twice, deactivated = await desk.ask("POST", f"account/{id}/revoke"), await desk.ask("POST", f"account/{id}/deactivate")
    answers = [
        await client.post(client.kid),
        await client.order("c.localhost"),
        await client.finalize(ready.json, csr_for("b.localhost")),
        await client.post(client.directory["newAccount"], {}, kid=None, jwk=client.key.jwk),
    ]
    orders = [(await desk.ask("GET", f"orders/{one.location.rpartition('/')[2]}"))[1] for one in (pending, ready)]

    assert (status, shown["status"], twice[1]["status"], deactivated[0]) == (200, "revoked", "revoked", 409)
    assert {(one.status, one.error) for one in answers} == {(401, "unauthorized")}
    assert "revoked" in answers[0].json["detail"]
    assert [(one["status"], one["error"]["type"]) for one in orders] == [("invalid", "urn:ietf:params:acme:error:unauthorized")] * 2
    assert await desk.events(id) == [("challenge.valid", None, "http-01 dns:b.localhost"), ("account.revoke", "ann", None)]


async def test_an_operator_deactivates_and_revokes_afterwards(desk):
    client, id = await desk.client()

    statuses = [(await desk.ask("POST", f"account/{id}/{verb}"))[1]["status"] for verb in ("deactivate", "deactivate", "revoke")]

    assert statuses == ["deactivated", "deactivated", "revoked"]
    assert (await client.post(client.kid)).error == "unauthorized"
    assert [one[:2] for one in await desk.events(id)] == [("account.deactivate", "ann"), ("account.revoke", "ann")]
    assert [(await desk.ask("POST", f"account/{NOBODY}/{verb}"))[0] for verb in ("deactivate", "revoke")] == [404, 404]


async def test_accounts_are_listed_newest_first_by_pages_and_status(desk):
    made = []
    for _ in range(3):
        made.insert(0, (await desk.client())[1])
        desk.site.service.kernel.clock.advance(1)
    await desk.ask("POST", f"account/{made[1]}/revoke")

    status, first, following = await desk.ask("GET", "accounts?limit=2")
    second = (await desk.ask("GET", "accounts?limit=2&after=" + made[1]))[1]

    assert status == 200
    assert [one["id"] for one in first + second] == made
    assert str(following).endswith(f"/admin/accounts?limit=2&after={made[1]}")
    assert [one["id"] for one in (await desk.ask("GET", "accounts?status=valid"))[1]] == [made[0], made[2]]
    shown = (await desk.ask("GET", f"account/{made[0]}"))[1]
    assert shown == first[0]
    assert shown["url"] == f"{desk.site.url}/acme/account/{made[0]}"
    assert (await desk.ask("GET", f"account/{NOBODY}"))[0] == 404


async def test_orders_are_listed_by_account_status_and_ca(desk):
    (client, id), (other, _) = await desk.client(), await desk.client()
    pending, foreign = await client.order("a.localhost"), await other.order("b.localhost")
    done = await client.ready(desk.site.responder, "c.localhost")
    await client.finalize(done.json, csr_for("c.localhost"))
    ids = {one.location: one.location.rpartition("/")[2] for one in (pending, foreign, done)}

    async def found(query):
        return {one["id"] for one in (await desk.ask("GET", f"orders?{query}"))[1]}

    assert await found("") == set(ids.values())
    assert await found(f"account_id={id}") == {ids[pending.location], ids[done.location]}
    assert await found("status=valid") == {ids[done.location]}
    assert await found("ca_id=another") == set()
    assert (await desk.ask("GET", "orders?ca_id=another", role="ca_ra@default"))[1]
    assert [(await desk.ask("GET", f"orders/{one}"))[0] for one in (NOBODY, "x")] == [404, 404]
    shown = (await desk.ask("GET", f"orders/{ids[pending.location]}"))[1]
    assert (shown["account_id"], shown["identifiers"]) == (id, [{"type": "dns", "value": "a.localhost"}])
    desk.site.service.kernel.clock.advance(86401)
    assert await found("status=pending") == set()
    assert await found("status=invalid") == {ids[pending.location], ids[foreign.location]}


async def test_an_operator_of_one_ca_sees_its_orders_alone(desk):
    client, _ = await desk.client()
    id = (await client.order("a.localhost")).location.rpartition("/")[2]

    assert (await desk.ask("GET", f"orders/{id}", role="ca_ra@default"))[0] == 200
    assert (await desk.ask("GET", f"orders/{id}", role="ca_ra@second"))[0] == 404
    assert (await desk.ask("GET", "orders", role="ca_ra@second"))[1] == []
    for path in ("orders", f"orders/{id}", "accounts", f"account/{NOBODY}"):
        assert (await desk.ask("GET", path, role="ca_ra"))[0] == 403


async def test_an_operator_of_one_ca_sees_its_accounts_alone(start_service, tmp_path, monkeypatch):
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    cas, server = [{"id": "one", "is_default": True}, {"id": "two"}], {"account_scope": "ca"}
    async with acme_site(start_service, install_operators(folder), ca=cas, server=server, admin={"listen": "127.0.0.1:0"}) as site:
        client, desk = await site.client(), Desk(site)
        id = client.kid.rpartition("/")[2]
        listed = {role: [one["id"] for one in (await desk.ask("GET", "accounts", role=role))[1]] for role in ("ca_ra@one", "ca_ra@two")}
        shown = {role: await desk.ask("GET", f"account/{id}", role=role) for role in ("ca_ra@one", "ca_ra@two", "auditor")}
        of_two = (await desk.ask("GET", "accounts?ca_id=two"))[1]

    assert listed == {"ca_ra@one": [id], "ca_ra@two": []}
    assert {role: answer[0] for role, answer in shown.items()} == {"ca_ra@one": 200, "ca_ra@two": 404, "auditor": 200}
    assert shown["auditor"][1]["ca_id"] == "one"
    assert of_two == []


MATRIX = {
    ("GET", "accounts"): ROLES,
    ("GET", "account/{id}"): ROLES,
    ("GET", "account/{id}/profile-grants"): ROLES,
    ("GET", "orders"): ROLES,
    ("GET", "orders/{order}"): ROLES,
    ("PUT", "account/{id}/profile-grants"): ROLES[:2],
    ("DELETE", "account/{id}/profile-grants"): ROLES[:1],
    ("POST", "account/{id}/deactivate"): ROLES[:1],
    ("POST", "account/{id}/revoke"): ROLES[:1],
}


async def test_the_role_matrix(desk):
    client, id = await desk.client()
    order = (await client.order("a.localhost")).location.rpartition("/")[2]

    for (method, path), allowed in MATRIX.items():
        where, body = path.format(id=id, order=order), {"profile_grants": None} if method == "PUT" else None
        got = {role: (await desk.ask(method, where, body, role=role))[0] for role in (*ROLES, "")}
        assert got.pop("") == 401
        assert {role for role, status in got.items() if status != 403} == set(allowed), f"{method} {path}: {got}"
        assert all(200 <= got[role] < 300 for role in allowed), f"{method} {path}: {got}"


async def test_r92_admin_paths_are_not_on_the_main_listener(desk):
    async with aiohttp.ClientSession() as session, session.get(f"{desk.site.url}/admin/accounts") as answer:
        assert answer.status == 404


async def test_without_operators_there_are_no_such_routes(start_service):
    async with acme_site(start_service, admin={"listen": "127.0.0.1:0"}) as site:
        assert (await Desk(site).ask("GET", "accounts"))[0] == 404


async def test_s120_a_registration_authority_without_a_ca_sees_nothing_of_any_and_revokes_nothing(desk):
    paths = ("accounts", "orders", "certs", "profiles")
    client, _ = await desk.client()
    await client.issue(desk.site.responder, "a.localhost")
    (one,) = (await desk.ask("GET", "certs"))[1]

    assert [(await desk.ask("GET", path, role="ca_ra"))[0] for path in paths] == [403] * 4
    for path, body in (("revoke", {"cert_id": one["id"]}), ("revocations", {"cert_ids": [one["id"]]})):
        assert (await desk.ask("POST", path, body, role="ca_ra"))[0] == 403
    assert (await desk.ask("GET", f"certs/{one['id']}"))[1]["status"] == "issued"
