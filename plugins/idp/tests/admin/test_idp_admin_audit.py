"""The audit log over the admin API (document, "Audit event" and "Audit log"; rulings R11, R12 and R90)."""

import pytest

from greatseal.api.audit import AuditEvent
from greatseal.testing import FakeClock


@pytest.fixture
async def admin(open_admin):
    return await open_admin(clock=FakeClock(1_800_000_000_999_999))


async def write(admin, count, **fields):
    host = admin.desk.service.host("idp")

    def events(tx):
        for number in range(count):
            tx.audit(AuditEvent(**{"event_type": "logout", "service": "idp", "detail": str(number), **fields}))

    await host.db.write(events)


async def listed(admin, query=""):
    answer = await admin.get(f"audit{query}")
    assert answer.status == 200, answer.text
    return answer.json


async def test_idp_099_idp_100_idp_101_idp_102_idp_103_idp_104_an_event_has_the_members_of_the_document(admin):
    await write(admin, 1, event_type="jwt_bearer", sub="bob@X", client_id="c1", principal="p", outcome="failure")

    (event, *_) = await listed(admin)

    assert event == {
        "id": event["id"],
        "event_type": "jwt_bearer",
        "sub": "bob@X",
        "client_id": "c1",
        "detail": "0",
        "created_at": 1_800_000_000,
    }
    assert isinstance(event["id"], int)


async def test_r11_idp_101_idp_102_what_is_empty_is_left_out_and_never_null(admin):
    await write(admin, 1, detail=None)
    await write(admin, 1, detail="", sub="")

    for event in (await listed(admin))[:2]:
        assert event.keys() == {"id", "event_type", "created_at"}


async def test_idp_181_events_come_newest_first_with_strictly_increasing_ids(admin):
    await write(admin, 10)

    found = await listed(admin)

    assert [event["detail"] for event in found[:10]] == [str(number) for number in reversed(range(10))]
    ids = [event["id"] for event in found]
    assert ids == sorted(set(ids), reverse=True)


async def test_idp_182_at_most_a_hundred_events_come_and_offset_pages(admin):
    await write(admin, 150)

    first, second = await listed(admin), await listed(admin, "?offset=100")

    assert (len(first), first[0]["detail"], first[-1]["detail"]) == (100, "149", "50")
    assert second[0]["detail"] == "49"
    assert len({event["id"] for event in first + second}) == len(first + second) > 150
    assert len(await listed(admin, "?limit=101")) == 100
    assert await listed(admin, "?limit=3&offset=1") == first[1:4]
    assert await listed(admin, "?offset=1000000") == []


async def test_r12_events_of_the_certificate_authority_are_not_in_this_list(admin):
    await write(admin, 1, service="ca", event_type="cert.issue")

    assert "cert.issue" not in {event["event_type"] for event in await listed(admin)}


async def test_the_list_can_be_cut_to_a_type_and_a_subject(admin):
    await write(admin, 2, event_type="logout", sub="bob@X")
    await write(admin, 1, event_type="login_success", sub="bob@X")
    await write(admin, 1, event_type="logout", sub="carol@X")

    assert len(await listed(admin, "?sub=bob@X")) == 3
    assert len(await listed(admin, "?event_type=logout")) == 3
    assert len(await listed(admin, "?event_type=logout&sub=bob@X")) == 2
    assert await listed(admin, "?event_type=code_replay&sub=bob@X") == []


async def test_a_type_that_nobody_writes_is_refused_with_those_that_are_near(admin):
    await write(admin, 1, event_type="of_a_plugin_that_was_removed")
    expected = {
        "login_failed": "did you mean 'login_failure'?",
        "Logout": "did you mean 'logout'?",
        "cert.issue": "expected one of backchannel_logout_out, client_created, ",
        "xyzzy": "expected one of backchannel_logout_out, client_created, ",
    }

    for name, words in expected.items():
        answer = await admin.get("audit", params={"event_type": name, "limit": "100", "offset": "0"})  # as ctl asks
        assert (answer.status, answer.json["error"]) == (400, "invalid_request")
        assert words in answer.json["error_description"]
    assert len(await listed(admin, "?event_type=of_a_plugin_that_was_removed")) == 1
    assert await listed(admin, "?event_type=of_a_plugin_that_was_removed&offset=1") == []
    assert (await admin.get("audit", params={"outcome": "failed"})).status == 400


@pytest.mark.parametrize("value", ["'", "' OR '1'='1", "1; DROP TABLE core_audit", '"', "%", "_", "\\"])
async def test_s151_filters_are_values_and_never_statements(admin, value):
    await write(admin, 1, sub=value, event_type=value)

    for name in ("sub", "event_type"):
        answer = await admin.get("audit", params={name: value})
        assert (answer.status, [event[name] for event in answer.json]) == (200, [value])
    assert (await admin.get("audit", params={"offset": value})).status == 400


async def test_s152_numbers_out_of_range_are_cut_or_refused(admin):
    await write(admin, 3)

    for query in ("?offset=-1", "?limit=-1", "?limit=0", "?offset=x", "?limit=1.5", "?offset=1&offset=2"):
        answer = await admin.get(f"audit{query}")
        assert (answer.status, answer.json["error"]) == (400, "invalid_request"), query
    assert len(await listed(admin, "?limit=1000000000")) >= 3
    for huge in (2**63 - 1, 2**63, 2**64):
        assert await listed(admin, f"?offset={huge}") == []
    assert len(await listed(admin, "?limit=&offset=")) >= 3  # RFC 6749 s3.1: without a value it is absent


async def test_an_admin_write_is_in_the_list_when_it_was_answered(admin):
    client = await admin.client()

    event = (await listed(admin, "?limit=1"))[0]

    assert (event["event_type"], event["sub"], event["client_id"]) == ("client_created", "alice@LOCALHOST", client["client_id"])


async def test_events_are_filtered_by_outcome_and_time(admin):
    await write(admin, 2, outcome="failure")
    now = 1_800_000_000

    async def details(query):
        return [event["detail"] for event in await listed(admin, f"?event_type=logout&{query}")]

    assert await details("outcome=failure") == ["1", "0"]
    assert await details("outcome=success") == []
    assert await details(f"since={now}&until={now + 1}") == ["1", "0"]
    assert await details(f"until={now}") == await details(f"since={now + 1}") == []
    assert (await admin.get("audit?since=yesterday")).status == 400
