"""Refresh token families over the admin API (document, "Nodes, refresh families"; reference 17.4)."""

import pytest

from greatseal.testing import FakeClock

NOT_NUMBERS = ("-1", "x", "1.5", "1e3", "0x10", "٣", " 1", "+1")


@pytest.fixture
def clock():
    return FakeClock(1_800_000_000_000_000)


@pytest.fixture
async def admin(open_admin, clock):
    return await open_admin(clock=clock)


async def ids(admin, query=""):
    answer = await admin.get(f"refresh-families{query}")
    assert answer.status == 200, answer.text
    return [one["family_id"] for one in answer.json]


async def test_idp_106_idp_140_live_families_are_listed_newest_first(admin, clock):
    first = await admin.family(subject="bob@LOCALHOST", client_id="c1", session_id="s1")
    clock.advance(1)
    second = await admin.family(subject="carol@LOCALHOST", client_id="c2")

    answer = await admin.get("refresh-families")

    assert (answer.status, [one["family_id"] for one in answer.json]) == (200, [second.id, first.id])
    assert answer.json[1] == {
        "family_id": first.id,
        "sub": "bob@LOCALHOST",
        "client_id": "c1",
        "scope": "openid offline_access",
        "created_at": 1_800_000_000,
        "last_used_at": 1_800_000_000,
        "expires_at": 1_800_000_000 + 1_209_600,
        "generation": 1,
        "sid": "s1",
    }
    assert answer.json[0]["sid"] is None


async def test_the_list_shows_no_token(admin):
    family = await admin.family()

    assert family.refresh_token not in (await admin.get("refresh-families")).text


async def test_expired_families_are_not_listed(admin, clock):
    await admin.family()
    clock.advance(1_209_600)

    admin.cookie = await admin.desk.cookie("alice")
    assert await ids(admin) == []


async def test_families_of_one_person_or_client_can_be_asked_for(admin):
    made = [await admin.family(subject=sub, client_id=client) for sub in ("b@X", "c@X") for client in ("c1", "c2")]

    assert set(await ids(admin, "?sub=b@X")) == {made[0].id, made[1].id}
    assert set(await ids(admin, "?client_id=c2")) == {made[1].id, made[3].id}
    assert await ids(admin, "?sub=c@X&client_id=c1") == [made[2].id]
    assert await ids(admin, "?sub='%20OR%201=1--") == []


async def test_idp_111_idp_141_delete_revokes_the_family_and_tells_who_did_it(admin):
    family = await admin.family()

    answer = await admin.delete(f"refresh-families/{family.id}")

    assert (answer.status, answer.text) == (204, "")
    assert await ids(admin) == []
    (event,) = await admin.desk.events("refresh_family_revoked")
    assert (event.sub, event.client_id, event.principal) == ("bob@LOCALHOST", "c1", "alice@LOCALHOST")


async def test_s028_idp_113_a_refresh_token_of_a_revoked_family_is_refused(admin):
    client = await admin.client()
    family = await admin.family(client_id=client["client_id"])
    form = {"grant_type": "refresh_token", "refresh_token": family.refresh_token, "client_id": client["client_id"]}
    first = (await admin.desk.post("/token", data=form)).json

    await admin.delete(f"refresh-families/{family.id}")

    second = await admin.desk.post("/token", data={**form, "refresh_token": first["refresh_token"]})
    assert (second.status, second.json["error"]) == (400, "invalid_grant")
    bearer = {"Authorization": f"Bearer {first['access_token']}"}
    assert (await admin.desk.get("/userinfo", headers=bearer)).status == 401


async def test_all_families_of_a_person_are_revoked_or_those_at_one_client(admin):
    made = [await admin.family(subject=sub, client_id=client) for sub in ("b@X", "c@X") for client in ("c1", "c2")]

    assert (await admin.delete("refresh-families?sub=b@X&client_id=c2")).status == 204
    assert set(await ids(admin)) == {made[0].id, made[2].id, made[3].id}
    assert (await admin.delete("refresh-families?sub=c@X")).status == 204
    assert await ids(admin) == [made[0].id]
    earlier, later = await admin.desk.events("refresh_families_revoked")
    assert (earlier.sub, earlier.client_id, earlier.principal) == ("b@X", "c2", "alice@LOCALHOST")
    assert (later.sub, later.client_id, later.principal) == ("c@X", None, "alice@LOCALHOST")


@pytest.mark.parametrize("query", ["", "?sub=", "?client_id=c1", "?sub=b@X&client=c1", "?sub=b@X&sub=c@X", "?sub=%00"])
async def test_whose_families_are_revoked_must_be_said(admin, query):
    await admin.family(subject="b@X", client_id="c2")

    answer = await admin.delete(f"refresh-families{query}")

    assert (answer.status, answer.json["error"]) == (400, "invalid_request")
    assert len(await ids(admin)) == 1


@pytest.mark.parametrize("id", ["unknown", "00000000-0000-4000-8000-000000000000", "'%20OR%201=1--", "%2e%2e%2fclients"])
async def test_idp_361_a_family_that_is_not_there_is_404(admin, id):
    await admin.family()

    assert (await admin.delete(f"refresh-families/{id}")).status == 404
    assert len(await ids(admin)) == 1


async def test_a_family_is_revoked_once(admin, clock):
    family = await admin.family()
    expired = await admin.family()
    assert (await admin.delete(f"refresh-families/{family.id}")).status == 204
    assert (await admin.delete(f"refresh-families/{family.id}")).status == 404
    clock.advance(1_209_600)
    admin.cookie = await admin.desk.cookie("alice")

    assert (await admin.delete(f"refresh-families/{expired.id}")).status == 404
    assert len(await admin.desk.events("refresh_family_revoked")) == 1


async def test_s152_limit_and_after_page_and_are_cut_or_refused(admin, clock):
    made = []
    for _ in range(5):
        made.insert(0, (await admin.family()).id)
        clock.advance(1)

    assert await ids(admin, "?limit=2") == made[:2]
    assert await ids(admin, "?limit=1000000000") == made
    assert await ids(admin, "?after=0.x") == []
    for huge in (str(2**63 - 1), str(2**63), "9" * 5000):
        assert await ids(admin, f"?limit={huge}") == made
    for wrong in NOT_NUMBERS:
        answer = await admin.get("refresh-families", params={"limit": wrong})
        assert (answer.status, answer.json["error"]) == (400, "invalid_request"), wrong
    for wrong in ("-1", "x", "1e3", "٣.x", " 1.x", "1", "1.", f"{2**63}.x", "9" * 5000, "a%00b"):
        answer = await admin.get("refresh-families", params={"after": wrong})
        assert (answer.status, answer.json["error"]) == (400, "invalid_request"), wrong
    assert (await admin.get("refresh-families?limit=0")).status == 400
    assert (await admin.get("refresh-families?offset=2")).status == 400
    assert (await admin.get("refresh-families?limit=1&limit=2")).status == 400


async def test_s151_a_control_character_in_a_filter_is_400(admin):
    assert (await admin.get("refresh-families?sub=a%00b")).status == 400
