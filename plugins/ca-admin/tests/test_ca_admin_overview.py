"""The audit log in the shape of the CA, totals, the configuration without secrets, the alarm."""

import pytest
import structlog
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from greatseal.api.audit import AuditEvent
from greatseal.api.problems import Unavailable
from greatseal.testing.distributions import install
from greatseal.testing.schema import at_revision, schema_matches
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.alarm import NothingIsHalted


async def violate(office, times=1, service="ca"):
    for number in range(times):
        await office.service.host("ca-admin").audit_log(
            AuditEvent(event_type="security.violation", service=service, outcome="failure", sub=f"kid-{number}")
        )


def test_the_migrations_make_the_tables(database_url):
    assert schema_matches(t.SCHEMA, database_url) == []


def test_operators_of_the_first_revision_are_kept_and_sign_in_anew(database_url):
    row = {"id": "1", "name": "ann", "role": "auditor", "cert_fingerprint": "ab" * 32, "certificate": b"der", "active": 1, "created_at": 5}
    session = {"digest": "d", "operator_id": "1", "created_at": 5, "used_at": 5, "locked": 0}
    with at_revision(t.SCHEMA, database_url, "0001") as connection:
        connection.execute(insert(t.operator).values(row))
        connection.execute(insert(t.session).values(session))
    with at_revision(t.SCHEMA, database_url, t.SCHEMA.head) as connection:
        (kept,) = connection.execute(select(t.operator)).mappings().all()
        left = connection.execute(select(t.session)).all()
        connection.execute(insert(t.operator).values({**row, "id": "2", "name": "bob", "cert_fingerprint": None, "eab_kid": "key"}))

    assert {name: kept[name] for name in row} == row
    assert (kept["eab_kid"], kept["eab_made_at"], left) == (None, None, [])
    with pytest.raises(IntegrityError), at_revision(t.SCHEMA, database_url, t.SCHEMA.head) as connection:
        connection.execute(insert(t.operator).values({**row, "id": "3", "name": "eve", "cert_fingerprint": None, "eab_kid": "key"}))


async def test_the_audit_log_is_filtered_and_has_pages(office_of):
    office = office_of
    await violate(office, 3)
    await violate(office, 1, service="idp")
    now = office.clock.now() // 1_000_000

    async def asked(query):
        return (await office.get(f"/admin/audit?{query}", token=office.token)).json

    whole = await asked("")
    (login,) = (await asked("type=admin.login"))["events"]

    assert [event["subject"] for event in whole["events"]] == ["kid-2", "kid-1", "kid-0", "root", "root"]
    assert (whole["limit"], whole["offset"]) == (100, 0)
    assert login == {
        "id": login["id"], "occurred_at": now, "event_type": "admin.login", "subject": "root", "principal": None, "outcome": "success",
        "detail": f"as administrator, by certificate {office.root.fingerprint}",
    }  # fmt: skip
    assert len((await asked("outcome=failure"))["events"]) == 3
    assert len((await asked("subject=kid-1"))["events"]) == 1
    assert [event["subject"] for event in (await asked("limit=1&offset=1"))["events"]] == ["kid-1"]
    assert (await asked("limit=5000"))["limit"] == 1000
    assert (await asked(f"from={now + 1}"))["events"] == (await asked("until=1970-01-02T00:00:00Z"))["events"] == []
    assert len((await asked(f"from={now}&until={now + 1}"))["events"]) == 5


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limit=0", "limit: expected"),
        ("limit=x", "limit: expected"),
        ("offset=-1", "offset: expected"),
        ("outcome=maybe", "outcome: expected success or failure"),
        ("from=yesterday", "from: expected a Unix timestamp"),
        ("until=2026-11-22T09:30:00", "until: expected"),
        ("type=admin.logn", "did you mean 'admin.login'?"),
        ("subject=a%00b", "control characters"),
    ],
)
async def test_an_audit_query_that_makes_no_sense_is_refused(office, query, says):
    answer = await office.get(f"/admin/audit?{query}", token=office.token)

    assert (answer.status, says in answer.json["detail"]) == (400, True)


COUNTING = """\
from greatseal import hookimpl
from greatseal.api.declarations import Statistic


class Plugin:
    asked = 0

    @hookimpl
    def statistics(self, host):
        async def count():
            Plugin.asked += 1
            return {"total": 3, "asked": Plugin.asked}

        return [Statistic(name="things", count=count)]
"""


async def test_totals_are_those_that_plugins_count_and_are_asked_seldom(open_office, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    office = await open_office(install(tmp_path, "greatseal-counting", COUNTING))
    office.clock.advance(7)

    first = (await office.get("/admin/stats", token=office.token)).json
    again = (await office.get("/admin/stats", token=office.token)).json
    office.clock.advance(10)
    later = (await office.get("/admin/stats", token=office.token)).json

    assert (first["uptime_secs"], first["things"], again["things"]) == (7, {"total": 3, "asked": 1}, {"total": 3, "asked": 1})
    assert (later["uptime_secs"], later["things"]["asked"]) == (17, 2)
    assert first["audit_events"]["total"] >= 2
    assert first["server_version"]


async def test_the_configuration_is_shown_without_secrets(open_office, people):
    secret = people / "metrics"
    secret.write_text("of-the-file")
    office = await open_office(admin={"metrics_token": {"file": str(secret)}})

    shown = await office.get("/admin/config", token=office.token)

    assert (shown.json["admin"]["metrics_token"], shown.json["admin"]["max_failed_auth"]) == ("(secret)", 5)
    assert shown.json["server"]["base_url"] == office.service.url
    assert "of-the-file" not in shown.text


# ---- The alarm


@pytest.fixture
def lines():
    with structlog.testing.capture_logs() as captured:
        yield captured


def alarm_of(office):
    return office.service.kernel.hooks.instances["ca-admin"]._parts.alarm


async def test_many_violations_in_a_short_time_raise_the_alarm_once(open_office, database_url, lines):
    office = await open_office(admin={"audit_alarm_threshold": 3}, database={"url": database_url})
    alarm = alarm_of(office)

    async def told():
        await alarm.watch()
        return sum(line["log_level"] == "critical" for line in lines)

    await violate(office, 2)
    assert await told() == 0
    office.clock.advance(290)
    await violate(office)
    assert [await told(), await told()] == [1, 1]
    office.clock.advance(301)
    assert await told() == 1
    await violate(office, 2)
    assert await told() == 1
    await violate(office)
    assert await told() == 2
    assert alarm.checks() == []
    assert not [route for route in office.service.kernel.routes if route.path == "/admin/alarm/reset"]


async def test_violations_of_another_hour_do_not_count_when_the_clock_is_set_back(open_office, lines):
    office = await open_office(admin={"audit_alarm_threshold": 2})
    office.clock.step(3600)
    await violate(office)
    office.clock.step(-3600)
    await violate(office)

    await alarm_of(office).watch()

    assert not [line for line in lines if line["log_level"] == "critical"]


async def test_the_alarm_ends_issuing_until_an_administrator_allows_it_and_survives_a_restart(open_office, database_url, lines, people):
    sections = {
        "admin": {"audit_alarm_threshold": 2, "audit_alarm_action": "halt"},
        "database": {"url": database_url},
        "cluster": {"key_file": str(people / "cluster.key")},
    }
    office = await open_office(**sections)
    (check,) = alarm_of(office).checks()
    await check.check(None)

    await violate(office, 2)
    await alarm_of(office).watch()
    with pytest.raises(Unavailable):
        await check.check(None)
    await office.service.stop()
    office = await open_office(**sections)
    (check,) = alarm_of(office).checks()
    assert isinstance(check, NothingIsHalted)
    with pytest.raises(Unavailable) as refused:
        await check.check(None)
    assert int(refused.value.headers["Retry-After"]) > 0
    answer = await office.post("/admin/alarm/reset", token=office.token)
    await alarm_of(office).watch()

    assert answer.status == 204
    await check.check(None)
    assert [event.principal for event in await office.events("issuance.halt", "issuance.resume")] == [None, "root"]
    await violate(office, 2)
    await alarm_of(office).watch()
    with pytest.raises(Unavailable):
        await check.check(None)


async def test_f30_a_full_audit_log_lets_nobody_sign_in_and_everybody_look(open_office, database_url):
    office = await open_office(admin={"audit_max_events": 1000}, database={"url": database_url})
    host, job = office.service.host("ca-admin"), next(one for one in office.service.kernel.all_jobs if one.name == "core-audit")
    event = AuditEvent(event_type="operator.update", service="ca", sub="root")
    await host.db.write(lambda tx: [tx.audit(event) for _ in range(1000)] and None)
    await job.run()
    refused = await office.post("/admin/session", person=office.root)

    assert (refused.status, refused.headers["Retry-After"], "the audit log is full" in refused.json["detail"]) == (503, "60", True)
    assert (await office.get("/admin/audit?limit=1", token=office.token)).json["events"][0]["subject"] == "root"
