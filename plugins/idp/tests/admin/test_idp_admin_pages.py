"""Lists of the admin API and of the account page have pages by key, and a page reads no more than it shows (RFC 8288)."""

import re

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.dialects import sqlite

from greatseal.db.tables import param
from greatseal.testing.distributions import install
from greatseal_idp import tables as t
from greatseal_idp.admin import families
from greatseal_idp.authorize import consents
from greatseal_idp.clients import registry

MANY = 1105
LISTS = {
    "clients": "client_id", "refresh-families": "family_id", "keys": "kid", "scopes": "name", "users": "username", "groups": "name",
    "nodes": "node_id",
}  # fmt: skip

CROWD = """
from greatseal import hookimpl
from greatseal.api.directory import Directory, Group, Tier, User

NAMES = [f"u{number:04}" for number in range(1105)]


def page(prefix, limit, after):
    return [name for name in NAMES if name.startswith(prefix) and name > after][:limit]


class Crowd(Directory):
    name = "crowd"
    tier = Tier.STATIC
    realm = "CROWD"

    async def user(self, username):
        return None

    async def group(self, name):
        return None

    async def users(self, prefix, limit, after=""):
        return [User(username=name, realm="CROWD", source="crowd") for name in page(prefix, limit, after)]

    async def groups(self, prefix, limit, after=""):
        return [Group(name=name, realm=self.realm, source="crowd") for name in page(prefix, limit, after)]


class Plugin:
    @hookimpl
    def directories(self, host):
        return [Crowd()]
"""


@pytest.fixture
async def admin(open_admin, tmp_path, monkeypatch, database_url):
    folder = tmp_path / "crowd"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return await open_admin(install(folder, "greatseal-crowd", CROWD), database={"url": database_url, "migrate": "auto"})


@pytest.fixture
async def filled(admin):
    """Thousands of everything. Three are made in each moment, so that the moment alone is no key."""
    await admin.write(_fill)
    return admin


def _fill(tx):
    client = {
        "client_name": "", "token_endpoint_auth_method": "none", "redirect_uris": "[]", "scopes": "[]", "grant_types": "[]",
        "allow_token_exchange_actor": 0, "source": "admin", "more": "{}", "updated_at": tx.now,
    }  # fmt: skip
    new = t.family.insert().values({column.name: param(column.name) for column in t.family.columns})
    later = tx.now + 10**12
    family = {
        "subject": "bob@X", "session_id": None, "origin": None, "scopes": "[]", "granted": "{}", "generation": 1, "rotated_at": tx.now,
        "idle_expires_at": later, "revoked_at": None,
    }  # fmt: skip
    for number in range(MANY):
        name, moment = f"c{number * 7919 % MANY:04}", tx.now + number // 3
        tx.put(t.CLIENT, name, created_at=moment, **client)
        tx.put(t.SCOPE, f"s{number}", description="", claims="[]", is_system=0)
        row = {**family, "client_id": f"c{number % 2}", "created_at": moment, "expires_at": later + number // 3}
        tx.run(new, id=f"f-{name}", **row)
        tx.run(new, id=f"ended-{name}", **{**row, "revoked_at": tx.now})
        consent = {"subject": "alice@LOCALHOST", "scopes": '["openid"]', "granted_at": moment}
        tx.put(t.CONSENT, name, client_id=name, **consent)


async def followed(admin, path):
    """Every page of a list, by its links."""
    pages = []
    while path:
        answer = await admin.get(path)
        assert answer.status == 200, answer.text
        pages.append(answer.json)
        path = next_of(admin, answer)
    return pages


def next_of(admin, answer):
    link = answer.headers.get("Link")
    if link is None:
        return None
    url = re.fullmatch(r'<([^>]+)>; rel="next"', link)[1]
    assert url.startswith(f"{admin.desk.url}/api/admin/")
    return url.removeprefix(f"{admin.desk.url}/api/admin/")


async def test_every_list_is_followed_by_its_links_to_the_end(filled):
    for path, key in LISTS.items():
        pages = await followed(filled, f"{path}?limit=500")

        found = [one[key] for page in pages for one in page]
        assert len(found) == len(set(found)), path
        assert [len(page) for page in pages[:-1]] == [500] * (len(pages) - 1), path
        assert len(found) >= {"keys": 2, "nodes": 1}.get(path, MANY), path
        assert found == [one[key] for page in await followed(filled, f"{path}?limit=999") for one in page], path


async def test_what_is_not_said_is_a_hundred_and_what_is_too_much_a_thousand(filled):
    for path in LISTS.keys() - {"keys", "nodes"}:
        assert [len((await filled.get(f"{path}{query}")).json) for query in ("", "?limit=5000")] == [100, 1000], path


async def test_a_page_reads_one_row_more_than_it_shows(filled, monkeypatch):
    counts = []
    store = filled.desk.service.host("idp").db
    read = store.read

    class Counted:
        def __init__(self, tx):
            self.tx = tx

        def __getattr__(self, name):
            return getattr(self.tx, name)

        def all(self, statement, **values):
            rows = self.tx.all(statement, **values)
            counts.append(len(rows))
            return rows

    async def counted(fn, *args):
        return await read(lambda tx: fn(Counted(tx), *args))

    monkeypatch.setattr(store, "read", counted)
    for path in ("clients", "refresh-families", "refresh-families?client_id=c1", "refresh-families?sub=bob@X", "audit"):
        link = path
        for _ in range(3):
            answer = await filled.get(link + ("&" if "?" in link else "?") + "limit=20" if link == path else link)
            link = next_of(filled, answer) or path
    assert counts
    assert max(counts) <= 21


async def test_filters_hold_on_every_page(filled):
    pages = await followed(filled, "refresh-families?client_id=c1&sub=bob@X&limit=100")

    found = [one for page in pages for one in page]
    assert {one["client_id"] for one in found} == {"c1"}
    assert len(found) == MANY // 2


async def test_what_is_made_and_deleted_meanwhile_shifts_nothing(filled):
    first = await filled.get("clients?limit=10")
    await filled.client(client_name="new")
    assert (await filled.delete(f"clients/{first.json[-1]['client_id']}")).status == 204

    second = await filled.get(next_of(filled, first))
    before = [one["client_id"] for one in first.json]
    rest = [one["client_id"] for page in await followed(filled, "clients?limit=1000") for one in page]
    assert rest[9:19] == [one["client_id"] for one in second.json]
    assert not set(before) & {one["client_id"] for one in second.json}


async def test_the_audit_log_keeps_its_offset_and_links_by_key(admin):
    for _ in range(5):
        await admin.get("clients")
        await admin.client()
    everything = (await admin.get("audit")).json

    first = await admin.get("audit?limit=2&offset=1&event_type=client_created")
    await admin.client()  # would shift pages by offset
    second = await admin.get(next_of(admin, first))

    made = [event for event in everything if event["event_type"] == "client_created"]
    assert [*first.json, *second.json] == made[1:5]
    for wrong in ("x", "-1", "0", "1.5"):
        assert (await admin.get(f"audit?after={wrong}")).status == 400


async def test_a_wrong_key_is_400(admin):
    for path in ("clients", "refresh-families"):
        for wrong in ("x", "1", "-1.c", f"{2**63}.c", "1.", "1.%00"):
            answer = await admin.get(f"{path}?after={wrong}")
            assert (answer.status, answer.json["error"]) == (400, "invalid_request"), (path, wrong)
    for path in LISTS:
        assert (await admin.get(f"{path}?offset=1")).status == 400, path
        assert (await admin.get(f"{path}?limit=0")).status == 400, path


async def test_the_account_page_shows_a_hundred_applications_and_leads_to_the_rest(filled):
    desk, path, found = filled.desk, "/account", []
    while path:
        page = await desk.get(path, cookie=filled.cookie)
        assert page.status == 200
        names = re.findall(r'name="client_id" value="([^"]+)"', page.text)
        assert len(names) <= 100
        found += names
        link = re.search(r'id="more" href="([^"]+)"', page.text)
        path = link and link[1]

    assert len(found) == len(set(found)) == MANY
    assert "No more." in (await desk.get(f"/account?after={2**62}.x", cookie=filled.cookie)).text
    assert (await desk.get("/account?after=x", cookie=filled.cookie)).status == 400


STATEMENTS = {
    "clients": registry._LISTED,
    "consents": consents._OF,
    **{f"families {filters}": statement for filters, statement in families._LISTINGS.items() if len(filters) < 2},
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_page_is_a_walk_along_an_index(name):
    compiled = STATEMENTS[name].compile(dialect=sqlite.dialect())
    engine = create_engine("sqlite://")
    t.SCHEMA.metadata.create_all(engine)

    with engine.connect() as connection:
        steps = [row.detail for row in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}".replace("?", "1")))]
    engine.dispose()
    # Endings under way are a handful, if there are any.
    steps = [step for step in steps if step not in {"CORRELATED SCALAR SUBQUERY 1", "SCAN idp_ending"}]

    assert len(steps) == 1, steps  # no second step that sorts
    assert re.match(r"(SEARCH|SCAN) idp_\w+ USING (COVERING )?INDEX idp_", steps[0]), steps
    assert "SEARCH" in steps[0] or "COVERING" in steps[0], steps
