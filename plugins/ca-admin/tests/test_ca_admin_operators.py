"""Who may be an operator, what ends their sessions, and the last administrator."""

import asyncio

import pytest
import structlog

from greatseal.api.problems import StartProblem
from greatseal.testing.operator_desk import Person, admin_section
from greatseal.testing.service import Kernel, document
from greatseal_ca_admin import tables as t

PATH = "/admin/operators"


async def test_ca_194_ca_208_an_operator_from_making_to_deleting(office_of, people):
    office = office_of
    ann = Person.of(people, "ann")
    made = await office.post(PATH, token=office.token, json={"name": "ann", "role": "ca_ra", "ca_id": "default", "certificate": ann.pem})
    one = f"{PATH}/{made.json['id']}"

    assert (made.status, made.json) == (
        201,
        {
            "id": made.json["id"], "name": "ann", "role": "ca_ra", "cert_fingerprint": ann.fingerprint, "gssapi_principal": None,
            "eab_kid": None, "ca_id": "default", "active": True, "created_at": office.clock.now() // 1_000_000, "last_seen_at": None,
            "failed_attempts": 0, "locked_until": None,
        },
    )  # fmt: skip
    assert (await office.get(one, token=office.token)).json == made.json
    token = await office.sign_in(ann)
    assert (await office.get("/admin/session", token=token)).json["ca_id"] == "default"
    changed = await office.ask("PATCH", one, token=office.token, json={"name": "anna"})
    assert (changed.status, changed.json["name"], changed.json["role"]) == (200, "anna", "ca_ra")
    assert (await office.get("/admin/session", token=token)).json["name"] == "anna"
    replaced = await office.ask("PUT", one, token=office.token, json={"name": "ann", "role": "auditor", "certificate": ann.pem})
    assert (replaced.status, replaced.json["role"], replaced.json["ca_id"]) == (200, "auditor", None)
    assert (await office.get("/admin/session", token=token)).status == 401
    assert (await office.ask("DELETE", one, token=office.token)).status == 204
    assert (await office.get(one, token=office.token)).status == 404
    assert [row.operator_id for row in await office.rows(t.attempt)] == [(await office.operator("root"))["id"]]
    kinds = ("operator.create", "operator.update", "operator.delete")
    assert [(event.principal, event.sub) for event in await office.events(*kinds)] == [
        ("bootstrap_cert_file", "root"), ("root", "ann"), ("root", "anna"), ("root", "ann"), ("root", "ann"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"role": "ca_operations"}, {"role": "ca_ra", "ca_id": "default"}, {"active": False}, {"cert_fingerprint": "ab" * 32}],
    ids=str,
)
async def test_another_role_scope_or_proof_ends_the_sessions(office, change):
    ann = await office.hire(office.token, "ann", "auditor")
    token = await office.sign_in(ann)
    one = f"{PATH}/{(await office.operator('ann'))['id']}"

    assert (await office.ask("PATCH", one, token=office.token, json={"name": "other"})).status == 200
    assert (await office.get("/admin/session", token=token)).status == 200
    assert (await office.ask("PATCH", one, token=office.token, json=change)).status == 200
    assert (await office.get("/admin/session", token=token)).status == 401


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"role": "guest"}, "role: expected one of administrator"),
        ({"name": " ann"}, "name: expected 1 to 64"),
        ({"name": ""}, "name: expected 1 to 64"),
        ({"name": "a\nb"}, "name: expected 1 to 64"),
        ({"name": "x" * 65}, "name: expected 1 to 64"),
        ({"cert_fingerprint": None}, "give one at least"),
        ({"cert_fingerprint": "xyz"}, "64 hexadecimal digits"),
        ({"certificate": "-----BEGIN"}, "certificate: expected one in PEM"),
        ({"gssapi_principal": ""}, "gssapi_principal: it has no @"),
        ({"role": "ca_ra"}, "ca_id: a ca_ra acts for one CA"),
        ({"ca_id": "default"}, "ca_id: for a ca_ra alone"),
        ({"role": "ca_ra", "ca_id": "another"}, "expected one of default"),
        ({"groups": "auditor"}, "groups"),
        ({"name": 1}, "name"),
    ],
    ids=str,
)
async def test_what_no_operator_may_be_is_refused_with_the_rule(office, members, says):
    whole = {"name": "ann", "role": "auditor", "cert_fingerprint": "ab:" * 31 + "AB", **members}
    assert (await office.post(PATH, token=office.token, json={**whole, "name": "first"})).status in {201, 400}
    one = f"{PATH}/{(await office.operator('root'))['id']}"

    made, replaced = await office.post(PATH, token=office.token, json=whole), await office.ask("PUT", one, token=office.token, json=whole)

    assert [(answer.status, says in answer.json["detail"]) for answer in (made, replaced)] == [(400, True)] * 2
    assert len(await office.rows(t.operator)) <= 2


async def test_a_patch_to_what_cannot_be_is_unprocessable(office):
    await office.hire(office.token, "ann", "auditor")
    one = f"{PATH}/{(await office.operator('ann'))['id']}"

    refused = await office.ask("PATCH", one, token=office.token, json={"role": "ca_ra"})

    assert (refused.status, "name it" in refused.json["detail"]) == (422, True)
    assert (await office.ask("PATCH", f"{PATH}/x", token=office.token, json={})).status == 404


async def test_changes_of_one_operator_at_the_same_time_undo_nothing_of_each_other(office_of):
    office = office_of
    await office.hire(office.token, "ann", "ca_operations")
    one = f"{PATH}/{(await office.operator('ann'))['id']}"

    for round in range(5):
        changes = ({"active": round % 2 == 1}, {"name": f"ann{round}"}, {"role": ("auditor", "ca_operations")[round % 2]})
        answers = await asyncio.gather(*(office.ask("PATCH", one, token=office.token, json=change) for change in changes))
        stored = (await office.get(one, token=office.token)).json

        assert [answer.status for answer in answers] == [200] * 3
        assert {name: stored[name] for change in changes for name in change} == {**changes[0], **changes[1], **changes[2]}


async def test_a_fingerprint_and_a_certificate_that_differ_are_refused(office, people):
    ann = Person.of(people, "ann")
    members = {"name": "ann", "role": "auditor", "certificate": ann.pem, "cert_fingerprint": "ab" * 32}

    assert (await office.post(PATH, token=office.token, json=members)).status == 400
    assert (await office.post(PATH, token=office.token, json={**members, "cert_fingerprint": ann.fingerprint.upper()})).status == 201


async def test_ca_208_two_operators_share_nothing(office_of):
    office = office_of
    members = {"name": "ann", "role": "auditor", "cert_fingerprint": "ab" * 32, "gssapi_principal": "ann@X"}
    answers = await asyncio.gather(*(office.post(PATH, token=office.token, json=members) for _ in range(5)))
    others = [{**members, "name": "b"}, {**members, "name": "b", "cert_fingerprint": "cd" * 32}, {**members, "gssapi_principal": "b@X"}]

    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409, 409]
    assert [(await office.post(PATH, token=office.token, json=one)).status for one in others] == [409, 409, 409]


async def test_an_operator_is_not_changed_into_another(office):
    await office.hire(office.token, "ann", "auditor")
    one = f"{PATH}/{(await office.operator('ann'))['id']}"
    root = await office.operator("root")

    for members in ({"name": "root"}, {"cert_fingerprint": root["cert_fingerprint"]}):
        assert (await office.ask("PATCH", one, token=office.token, json=members)).status == 409


async def test_the_last_active_administrator_stays(office_of):
    office = office_of
    bob = await office.hire(office.token, "bob", "administrator")
    token = await office.sign_in(bob)
    root, other = [(await office.operator(name))["id"] for name in ("root", "bob")]

    answers = await asyncio.gather(
        office.ask("DELETE", f"{PATH}/{root}", token=token),
        office.ask("PATCH", f"{PATH}/{other}", token=office.token, json={"active": False}),
    )
    left = token if (await office.get("/admin/session", token=token)).status == 200 else office.token
    mine = other if left == token else root

    assert sorted(answer.status for answer in answers) in ([200, 409], [204, 409], [200, 401], [204, 401], [200, 200])
    assert (await office.ask("DELETE", f"{PATH}/{mine}", token=left)).status == 409
    assert (await office.ask("PATCH", f"{PATH}/{mine}", token=left, json={"role": "auditor"})).status == 409
    assert (await office.ask("PATCH", f"{PATH}/{mine}", token=left, json={"active": False})).status == 409
    assert "last active administrator" in (await office.ask("DELETE", f"{PATH}/{mine}", token=left)).json["detail"]


async def test_a_ca_ra_that_lost_its_ca_may_do_nothing(office):
    ann = await office.hire(office.token, "ann", "ca_ra", "default")
    token = await office.sign_in(ann)
    id = (await office.operator("ann"))["id"]
    assert (await office.get("/admin/stats", token=token)).status == 200

    await office.service.kernel.store.write(lambda tx: tx.put(t.OPERATOR, id, ca_id=None))

    assert (await office.get("/admin/stats", token=token)).status == 403
    assert (await office.get("/admin/session", token=token)).status == 200


async def test_a_list_has_pages(office):
    for name in ("zoe", "ann"):
        await office.hire(office.token, name, "auditor")

    first = await office.get(f"{PATH}?limit=2", token=office.token)
    rest = await office.get(f"{PATH}?limit=2&after=root", token=office.token)

    assert [one["name"] for one in first.json + rest.json] == ["ann", "root", "zoe"]
    assert (f'{PATH}?limit=2&after=root>; rel="next"' in first.headers["Link"], "Link" in rest.headers) == (True, False)
    assert (await office.get(f"{PATH}?limit=0", token=office.token)).status == 400


# ---- The first administrator


def test_a_bootstrap_file_that_is_not_there_or_is_none_stops_the_start(tmp_path):
    root = Person.of(tmp_path, "root")
    section = admin_section(tmp_path, root)
    for content, says in ((None, "cannot be read"), (b"x", "expected one certificate"), (root.cert_file.read_bytes() * 2, "expected one")):
        root.cert_file.unlink() if content is None else root.cert_file.write_bytes(content)
        with pytest.raises(StartProblem) as refused:
            Kernel(document(tmp_path, ["ca-admin"], admin=section))
        (message,) = refused.value.messages
        assert message.startswith("[admin] bootstrap_cert_file: ")
        assert says in message
    Kernel(document(tmp_path, ["ca-admin"]))


async def test_the_first_administrator_is_made_once(start_service, tmp_path, database_url):
    first, second = Person.of(tmp_path, "first"), Person.of(tmp_path, "second")
    database, cluster = {"url": database_url}, {"key_file": str(tmp_path / "kept.key")}
    for person in (first, second):
        service = await start_service("ca-admin", admin=admin_section(tmp_path, person), database=database, cluster=cluster)
        rows = await service.kernel.store.read(lambda tx: tx.all(t.operator.select()))
        await service.stop()

        assert [(row.name, row.role, row.cert_fingerprint) for row in rows] == [("first", "administrator", first.fingerprint)]


async def test_without_the_section_there_is_nothing(start_service):
    service = await start_service("ca-admin")

    assert not [route for route in service.kernel.routes if route.path.startswith("/admin")]
    assert await service.kernel.store.read(lambda tx: tx.all(t.operator.select())) == []


async def test_a_listener_without_operators_says_what_to_set(start_service):
    with structlog.testing.capture_logs() as lines:
        service = await start_service("ca-admin", admin={"listen": "127.0.0.1:0"})

    assert await service.kernel.store.read(lambda tx: tx.all(t.operator.select())) == []
    assert any("set [admin] bootstrap_cert_file" in line["event"] for line in lines)


def test_settings_that_contradict_each_other_are_told(tmp_path):
    root = Person.of(tmp_path, "root")
    section = admin_section(tmp_path, root, session_lock_secs=900, session_ttl_secs=600, max_failed_auth=0)

    with pytest.raises(StartProblem) as refused:
        Kernel(document(tmp_path, ["ca-admin"], admin=section))

    assert any("max_failed_auth" in message for message in refused.value.messages)
    with pytest.raises(StartProblem) as refused:
        Kernel(document(tmp_path, ["ca-admin"], admin={**section, "max_failed_auth": 5}))
    assert any("longer than session_ttl_secs" in message for message in refused.value.messages)
