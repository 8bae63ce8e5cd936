"""External account binding over HTTP, on both databases: the keys of operators, and the accounts that they are good for."""

import asyncio
import time
from pathlib import Path

import pytest
from rig.acme import Key, acme_site, b64url, csr_for
from rig.eab import binding
from sqlalchemy import select

from greatseal.api.declarations import Statistic
from greatseal.api.services import ACCOUNTS
from greatseal.db.core_tables import audit
from greatseal.testing.operators import install_operators

HMAC_KEY = bytes(range(32))
PATH = "/admin/eab"
ROLES = ("administrator", "ca_operations", "ca_ra", "auditor")


@pytest.fixture
def operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The feature that knows operators."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return install_operators(folder)


@pytest.fixture
async def site(start_service, database_url, operators):
    profiles = {"open": {}, "closed": {"require_account_grant": True}, "default": {}}
    server = {"external_account_required": True, "eab_keys": {"kid-1": b64url(HMAC_KEY)}}
    more = {"profiles": profiles, "admin": {"listen": "127.0.0.1:0"}}
    async with acme_site(start_service, "eab", operators, database=database_url, server=server, **more) as site:
        yield site


async def admin(site, method="GET", path=PATH, *, role="administrator", listener="admin", **options):
    """A call of an operator; its status, and what it answered."""
    address = site.service.addresses[listener]
    headers = {"Authorization": f"Bearer ann:{role}"}
    async with site.session.request(method, f"http://{address}{path}", headers=headers, **options) as answer:
        return answer.status, await answer.json() if answer.content_length else None


async def events(site, *types):
    rows = await site.service.host("acme").db.read(lambda tx: tx.all(select(audit).order_by(audit.c.id)))
    return [row for row in rows if row.event_type in types]


async def accounts(site):
    from greatseal_acme.tables import account

    return await site.service.host("acme").db.read(lambda tx: tx.all(select(account)))


async def give(site, kid, **more):
    status, made = await admin(site, "POST", json={"kid": kid, "hmac_key_b64u": b64url(HMAC_KEY), **more})
    assert status == 201, made
    return made


async def test_ca_005_ca_099_ca_124_an_account_is_bound_and_shows_it(site):
    client = await site.client(register=False)
    absent = await client.register()
    bound = binding(client, "kid-1", HMAC_KEY)

    made = await client.register(**bound)

    assert client.directory["meta"]["externalAccountRequired"] is True
    assert (absent.status, absent.error) == (403, "externalAccountRequired")
    assert made.status == 201
    assert made.json["externalAccountBinding"] == bound["externalAccountBinding"]
    assert (await client.post(client.kid)).json == made.json
    _, shown = await admin(site, path=f"{PATH}/kid-1")
    assert shown["used_at"] >= shown["created"]
    assert [(one.event_type, one.sub) for one in await events(site, "eab.use", "account.create")] == [
        ("eab.use", "kid-1"),
        ("account.create", client.kid.rpartition("/")[2]),
    ]


async def test_a_key_that_has_an_account_gets_it_back_and_uses_nothing_up(site):
    await give(site, "kid-2")
    client = await site.client(register=False)
    await client.register(**binding(client, "kid-1", HMAC_KEY))

    again = await client.register(**binding(client, "kid-2", HMAC_KEY))
    wrong = await client.register(externalAccountBinding="nothing of the kind")
    existing = await client.register(onlyReturnExisting=True)

    assert {one.status for one in (again, wrong, existing)} == {200}
    assert (await admin(site, path=f"{PATH}/kid-2"))[1]["used_at"] is None


async def test_s111_ca_100_ca_117_r4_fifty_accounts_of_one_key_at_once(site):
    clients = [await site.client(Key(), register=False) for _ in range(50)]

    answers = await asyncio.gather(*(one.register(**binding(one, "kid-1", HMAC_KEY)) for one in clients))

    lost = [one for one in answers if one.status != 201]
    assert len(lost) == 49
    assert {(one.status, one.error) for one in lost} <= {(401, "unauthorized"), (409, "malformed")}
    assert len(await accounts(site)) == 1
    assert len(await events(site, "eab.use")) == 1


REFUSED = {
    "unknown kid": ({"kid": "kid-9"}, 401, "unauthorized"),
    "alg none": ({"alg": "none"}, 400, "malformed"),
    "alg RS256": ({"alg": "RS256"}, 400, "malformed"),
    "another url": ({"url": "https://ca.example/acme/new-account"}, 401, "unauthorized"),
    "another account key": ({"payload": Key().jwk}, 401, "unauthorized"),
    "another HMAC key": ({"key": b"x" * 32}, 401, "unauthorized"),
}


async def test_s111_ca_117_ca_120_ca_121_ca_122_ca_198_ca_199_ca_203_ca_204_r5_what_is_refused_makes_no_account(site):
    client = await site.client(register=False)

    for what, (changes, status, error) in REFUSED.items():
        answer = await client.register(**binding(client, **{"kid": "kid-1", "key": HMAC_KEY, **changes}))
        assert (answer.status, answer.error) == (status, error), what

    assert await accounts(site) == []
    assert [(one.event_type, one.outcome, one.sub, one.service) for one in await events(site, "eab.reject", "security.violation")] == [
        ("eab.reject", "failure", "kid-1", "ca"),
        ("security.violation", "failure", "kid-1", "ca"),
    ]
    assert (await client.register(**binding(client, "kid-1", HMAC_KEY))).status == 201


async def test_s112_ca_014_ca_189_what_the_key_grants_follows_it(site):
    await give(site, "kid-2", profile_grants=["closed"])
    plain, granted = await site.client(register=False), await site.client(register=False)
    await plain.register(**binding(plain, "kid-1", HMAC_KEY))
    await granted.register(**binding(granted, "kid-2", HMAC_KEY))

    answers = []
    for client in (plain, granted):
        ready = await client.ready(site.responder, "a.localhost", profile="closed")
        answers.append(await client.finalize(ready.json, csr_for("a.localhost")))

    assert [(one.status, one.error) for one in answers] == [(401, "unauthorized"), (200, "")]
    view = await site.service.kernel.service(ACCOUNTS).find(granted.kid.rpartition("/")[2])
    assert view.profile_grants == ("closed",)


async def test_s112_ca_101_a_key_that_was_deleted_and_made_again_is_another_key(site):
    first, second = await site.client(register=False), await site.client(register=False)
    await first.register(**binding(first, "kid-1", HMAC_KEY))
    gone = await admin(site, "DELETE", f"{PATH}/kid-1")
    unknown = await second.register(**binding(second, "kid-1", HMAC_KEY))
    await give(site, "kid-1", profile_grants=["closed"])
    made = await second.register(**binding(second, "kid-1", HMAC_KEY))

    assert gone == (204, None)
    assert (unknown.status, made.status) == (401, 201)
    views = [await site.service.kernel.service(ACCOUNTS).find(one.kid.rpartition("/")[2]) for one in (first, second)]
    assert [one.profile_grants for one in views] == [None, ("closed",)]
    assert (await first.order("a.localhost")).status == 201


async def test_ca_012_ca_126_ca_127_ca_131_ca_132_ca_208_operators_make_show_and_delete_keys(site):
    sent = {"kid": "of/some one", "hmac_key_b64u": "+/+/" * 8, "profile_grants": ["open", "closed"]}
    status, made = await admin(site, "POST", json=sent)
    path = f"{PATH}/of%2Fsome%20one"

    assert (status, made.keys()) == (201, {"kid", "created"})
    assert abs(made["created"] - time.time()) < 600
    assert (await admin(site, "POST", json=sent))[0] == 409
    assert await admin(site, path=path) == (200, {**made, "used_at": None, "profile_grants": ["open", "closed"]})
    assert await admin(site, "DELETE", path) == (204, None)
    assert [(await admin(site, method, path))[0] for method in ("GET", "DELETE")] == [404, 404]
    made_and_gone = [(one.event_type, one.sub, one.principal) for one in await events(site, "eab.create", "eab.delete")]
    assert made_and_gone == [
        ("eab.create", "kid-1", "configuration"),
        ("eab.create", "of/some one", "ann"),
        ("eab.delete", "of/some one", "ann"),
    ]


BAD = {
    "no key": {"kid": "a"},
    "a short key": {"kid": "a", "hmac_key_b64u": b64url(bytes(15))},
    "no base64": {"kid": "a", "hmac_key_b64u": "!" * 30},
    "no kid": {"kid": "", "hmac_key_b64u": b64url(HMAC_KEY)},
    "control characters": {"kid": "a\nb", "hmac_key_b64u": b64url(HMAC_KEY)},
    "a number": {"kid": 7, "hmac_key_b64u": b64url(HMAC_KEY)},
    "grants that are none": {"kid": "a", "hmac_key_b64u": b64url(HMAC_KEY), "profile_grants": "open"},
    "a grant without a name": {"kid": "a", "hmac_key_b64u": b64url(HMAC_KEY), "profile_grants": [""]},
    "too many grants": {"kid": "a", "hmac_key_b64u": b64url(HMAC_KEY), "profile_grants": ["open"] * 1001},
}


@pytest.mark.parametrize("what", BAD)
async def test_r80_a_key_that_cannot_be_is_400(site, what):
    status, problem = await admin(site, "POST", json=BAD[what])

    assert (status, problem["type"]) == (400, "urn:ietf:params:acme:error:malformed")
    assert b64url(HMAC_KEY) not in problem["detail"]


async def test_ca_012_ca_129_ca_130_r90_keys_are_listed_in_pages(site):
    for number in range(2, 6):
        await give(site, f"kid-{number}")
    client = await site.client(register=False)
    await client.register(**binding(client, "kid-3", HMAC_KEY))

    async def kids(query=""):
        status, found = await admin(site, path=f"{PATH}{query}")
        assert status == 200, found
        return [one["kid"] for one in found["eab_keys"]]

    everything = [f"kid-{number}" for number in range(1, 6)]
    assert await kids() == await kids("?limit=99999999999999999999") == everything
    assert await kids("?used=true") == ["kid-3"]
    assert await kids("?used=false") == [one for one in everything if one != "kid-3"]
    assert await kids("?limit=2&offset=1") == everything[1:3]
    assert await kids("?limit=0") == await kids("?offset=9999") == []
    (statistic,) = (one for name, one in site.service.host("eab").components(Statistic).items() if name == "eab_keys")
    assert await statistic.count() == {"total": 5, "used": 1, "unused": 4}
    _, whole = await admin(site)
    assert {tuple(one) for one in whole["eab_keys"]} == {("kid", "created", "used_at", "profile_grants")}
    for wrong in ("used=yes", "limit=-1", "limit=x", "offset=-1", "offset=1.5"):
        assert (await admin(site, path=f"{PATH}?{wrong}"))[0] == 400, wrong


async def test_ca_130_r90_a_page_has_200_keys_and_never_more_than_1000(start_service, operators):
    keys = {f"kid-{number}": b64url(HMAC_KEY) for number in range(1001)}
    async with acme_site(start_service, "eab", operators, server={"eab_keys": keys}, admin={"listen": "127.0.0.1:0"}) as site:
        pages = [(await admin(site, path=f"{PATH}{query}"))[1]["eab_keys"] for query in ("", "?limit=5000", "?limit=5000&offset=1000")]

    assert [len(page) for page in pages] == [200, 1000, 1]
    assert {one["kid"] for page in pages[1:] for one in page} == set(keys)


async def test_s120_ca_126_ca_128_ca_129_ca_131_ca_132_ca_208_each_role_may_do_its_part(site):
    allowed = {}
    for role in (*ROLES, "guest"):
        made = await admin(site, "POST", role=role, json={"kid": role, "hmac_key_b64u": b64url(HMAC_KEY)})
        listed, shown = await admin(site, role=role), await admin(site, path=f"{PATH}/kid-1", role=role)
        allowed[role] = [made[0], listed[0], shown[0], (await admin(site, "DELETE", f"{PATH}/{role}", role=role))[0]]

    writes, reads = [201, 200, 200, 204], [403, 200, 200, 403]
    assert allowed == {"administrator": writes, "ca_operations": writes, "ca_ra": reads, "auditor": reads, "guest": [403] * 4}
    assert (await admin(site, listener="main"))[0] == 404


async def test_s120_without_anybody_who_knows_operators_there_are_no_routes(start_service):
    async with acme_site(start_service, "eab", admin={"listen": "127.0.0.1:0"}) as site:
        assert (await admin(site))[0] == 404
        assert (await site.client()).directory["meta"]["externalAccountRequired"] is False


async def test_s149_no_secret_is_shown(site, capfd):
    client = await site.client(register=False)
    await client.register(**binding(client, "kid-1", b"x" * 32))
    await client.register(**binding(client, "kid-1", HMAC_KEY))
    whole = repr(await admin(site)) + repr([tuple(one) for one in await events(site, "eab.create", "eab.use", "eab.reject")])

    assert b64url(HMAC_KEY) not in whole + "".join(capfd.readouterr())
