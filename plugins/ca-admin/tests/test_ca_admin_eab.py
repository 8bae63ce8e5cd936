"""Sign-in by EAB key: the challenge, the MAC, the key that was meant."""

import asyncio
import hmac

import pytest

from greatseal.jose.compact import b64url_encode
from greatseal_ca_admin import tables as t

EAB, KEYS, OPERATORS = "/admin/session/eab", "/admin/eab", "/admin/operators"
KEY = bytes(range(32))
KID = "ann/1"


async def given(office, key=KEY, kid=KID):
    answer = await office.post(KEYS, token=office.token, json={"kid": kid, "hmac_key_b64u": b64url_encode(key)})
    assert answer.status == 201, answer.text


async def hired(office, role="auditor", **more):
    """Ann, who has the key and nothing else."""
    await given(office)
    return await office.post(OPERATORS, token=office.token, json={"name": "ann", "role": role, "eab_kid": KID, **more})


async def proof(office, key=KEY, kid=KID, **other):
    """A fresh one; ``other`` is what the MAC is over instead."""
    asked = (await office.get(EAB)).json
    over = {"url": asked["url"], "kid": kid, "challenge": asked["challenge"], **other}
    mac = hmac.digest(key, f"greatseal operator sign-in\n{over['url']}\n{over['kid']}\n{over['challenge']}".encode(), "sha256")
    return {"kid": kid, "challenge": asked["challenge"], "mac": b64url_encode(mac)}


@pytest.fixture
async def keyed(open_office, database_url):
    """With the plugin eab, on both databases."""
    return await open_office("eab", admin={"auth_rate_limit": 0}, database={"url": database_url})


async def test_ca_192_an_operator_signs_in_by_eab_key_and_the_key_is_not_used_up(keyed):
    made = await hired(keyed)
    answers = [await keyed.post(EAB, json=await proof(keyed)) for _ in range(2)]
    token = answers[0].json["session_token"]

    assert (made.status, made.json["eab_kid"], made.json["cert_fingerprint"]) == (201, KID, None)
    assert [(answer.status, answer.json["role"]) for answer in answers] == [(200, "auditor")] * 2
    assert (len(token), answers[0].headers["X-Session-Token"]) == (64, token)
    assert (await keyed.get("/admin/session", token=token)).json["name"] == "ann"
    assert (await keyed.get("/admin/eab/ann%2F1", token=token)).json["used_at"] is None
    assert (await keyed.events("admin.login"))[-1].detail == f"as auditor, by EAB key {KID}"


async def test_s120_a_challenge_is_good_once_and_for_a_minute(keyed):
    await hired(keyed)
    sent = await proof(keyed)
    answers = await asyncio.gather(*(keyed.post(EAB, json=sent) for _ in range(8)))
    late = await proof(keyed)
    keyed.clock.advance(61)

    assert sorted(answer.status for answer in answers) == [200] + [401] * 7
    assert (await keyed.post(EAB, json=late)).status == 401
    assert (await keyed.post(EAB, json={**sent, "challenge": "x"})).status == 401


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": KEY[::-1]}, {"url": "https://relay.example/admin/session/eab"}, {"challenge": "another"}, {"kid": "ann/2"},
        {"kid": "a\n"}, {"kid": "x" * 256}, {"kid": ""},
    ],
    ids=str,
)  # fmt: skip
async def test_s120_what_is_no_proof_is_refused_and_a_stranger_hears_the_same(keyed, wrong):
    await hired(keyed)
    sent = await proof(keyed, **wrong)
    answer = await keyed.post(EAB, json=sent)

    assert (answer.status, answer.json["detail"]) == (401, "no active operator has this EAB key, or the MAC is not by it")
    assert [event.outcome for event in await keyed.events("admin.login")][-1] == "failure"


@pytest.mark.parametrize(
    ("members", "status"), [({"mac": "!"}, 400), ({"mac": ""}, 401), ({"mac": "AAAA"}, 401), ({"kid": 1}, 400), ({"more": 1}, 400)], ids=str
)
async def test_s120_a_mac_that_is_short_or_none(keyed, members, status):
    await hired(keyed)

    assert (await keyed.post(EAB, json={**await proof(keyed), **members})).status == status


async def test_s120_a_key_that_was_made_anew_under_its_id_proves_nobody(keyed):
    """ca_operations make and delete keys: they must not become an administrator by that."""
    id = (await hired(keyed, "administrator")).json["id"]
    keyed.clock.advance(5)
    assert (await keyed.ask("DELETE", "/admin/eab/ann%2F1", token=keyed.token)).status == 204
    gone = await keyed.post(EAB, json=await proof(keyed))
    await given(keyed, KEY[::-1])
    anew = await keyed.post(EAB, json=await proof(keyed, KEY[::-1]))
    renamed = await keyed.ask("PATCH", f"{OPERATORS}/{id}", token=keyed.token, json={"name": "anna"})
    still = await keyed.post(EAB, json=await proof(keyed, KEY[::-1]))
    bound = await keyed.ask("PATCH", f"{OPERATORS}/{id}", token=keyed.token, json={"eab_kid": KID})

    assert [answer.status for answer in (gone, anew, renamed, still, bound)] == [401, 401, 200, 401, 200]
    assert (await keyed.post(EAB, json=await proof(keyed, KEY[::-1]))).status == 200


async def test_another_key_ends_the_sessions(keyed):
    id = (await hired(keyed)).json["id"]
    token = (await keyed.post(EAB, json=await proof(keyed))).json["session_token"]
    await given(keyed, kid="other")

    assert (await keyed.ask("PATCH", f"{OPERATORS}/{id}", token=keyed.token, json={"eab_kid": "other"})).status == 200
    assert (await keyed.get("/admin/session", token=token)).status == 401
    assert (await keyed.post(EAB, json=await proof(keyed))).status == 401


@pytest.mark.parametrize("anew", [False, True])
async def test_s120_a_key_that_is_deleted_ends_the_session_at_once(keyed, anew):
    await hired(keyed)
    token = (await keyed.post(EAB, json=await proof(keyed))).json["session_token"]
    assert (await keyed.get("/admin/stats", token=token)).status == 200
    keyed.clock.advance(5)
    assert (await keyed.ask("DELETE", "/admin/eab/ann%2F1", token=keyed.token)).status == 204
    if anew:
        await given(keyed)
    ended = await keyed.get("/admin/stats", token=token)

    assert (ended.status, ended.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "the EAB key of the operator was deleted" in ended.json["detail"]
    assert [row.eab_kid for row in await keyed.rows(t.session)] == [None]  # the administrator's, who has a certificate
    assert [(event.sub, event.detail) for event in await keyed.events("admin.logout")] == [
        ("ann", "the EAB key of the operator was deleted")
    ]
    assert (await keyed.get("/admin/stats", token=token)).status == 401
    assert (await keyed.get("/admin/stats", token=keyed.token)).status == 200


async def test_a_session_by_key_ends_where_the_plugin_eab_is_gone(open_office, database_url, people):
    sections = {"database": {"url": database_url}, "cluster": {"key_file": str(people / "cluster.key")}}
    office = await open_office("eab", **sections)
    await hired(office)
    token = (await office.post(EAB, json=await proof(office))).json["session_token"]
    await office.service.stop()
    office = await open_office(**sections)

    assert (await office.get("/admin/session", token=token)).status == 401


async def test_s120_failures_lock_the_operator_and_an_inactive_one_is_refused(keyed):
    id = (await hired(keyed)).json["id"]
    statuses = [(await keyed.post(EAB, json=await proof(keyed, KEY[::-1]))).status for _ in range(6)]
    good = await keyed.post(EAB, json=await proof(keyed))
    await keyed.post(f"{OPERATORS}/{id}/unlock", token=keyed.token)
    after = await keyed.post(EAB, json=await proof(keyed))
    await keyed.ask("PATCH", f"{OPERATORS}/{id}", token=keyed.token, json={"active": False})

    assert (statuses, good.status, after.status) == ([401] * 5 + [423], 423, 200)
    assert (await keyed.post(EAB, json=await proof(keyed))).status == 401
    assert len(await keyed.events("operator.lock")) == 1


async def test_a_key_is_one_operators_and_has_to_be_there(keyed):
    await hired(keyed)
    second = await keyed.post(OPERATORS, token=keyed.token, json={"name": "bob", "role": "auditor", "eab_kid": KID})
    none = await keyed.post(OPERATORS, token=keyed.token, json={"name": "bob", "role": "auditor", "eab_kid": "nobody"})
    bad = [
        await keyed.post(OPERATORS, token=keyed.token, json={"name": "bob", "role": "auditor", "eab_kid": kid})
        for kid in ("", "a\n", "x" * 256)
    ]

    assert [answer.status for answer in (second, none, *bad)] == [409, 400, 400, 400, 400]
    assert (second.json["detail"], none.json["detail"]) == (
        "eab_kid: another operator has it", "eab_kid: there is no EAB key of this id; make one first"
    )  # fmt: skip
    assert [answer.json["detail"] for answer in bad] == ["eab_kid: expected 1 to 255 printable characters"] * 3


async def test_an_address_may_try_so_often_by_key(open_office):
    office = await open_office("eab", admin={"auth_rate_limit": 2})
    await hired(office)

    assert [(await office.post(EAB, json=await proof(office))).status for _ in range(2)] == [200, 429]


async def test_without_the_plugin_eab_there_is_no_such_sign_in(office):
    refused = await office.post(OPERATORS, token=office.token, json={"name": "ann", "role": "auditor", "eab_kid": KID})

    assert [(await office.get(EAB)).status, (await office.post(EAB, json={})).status, refused.status] == [404, 404, 400]
    assert [row.eab_kid for row in await office.rows(t.operator)] == [None]
