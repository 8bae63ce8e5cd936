"""Operators who sign in with a Kerberos ticket. With a KDC: tests/peers/test_peers_operators_kerberos.py."""

import sys

import pytest
from rig.tickets import install_tickets, negotiate

from greatseal.api.kerberos import NotConfigured, Ready, Unusable
from greatseal.api.problems import StartProblem
from greatseal_ca_admin import tables as t
from greatseal_ca_admin.settings import AdminSettings, principal_problem

SESSION = "/admin/session"
ANN, BEN, CAT = "ann@EXAMPLE.ORG", "ben@EXAMPLE.ORG", "cat@EXAMPLE.ORG"


@pytest.fixture
def tickets(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "installed")
    return install_tickets(tmp_path / "installed", ANN, BEN, legs=(CAT,))


@pytest.fixture
async def desk(open_office, tickets, database_url):
    return await open_office(tickets, database={"url": database_url})


async def hired(desk, name="ann", role="auditor", **members):
    body = {"name": name, "role": role, "gssapi_principal": f"{name}@EXAMPLE.ORG", **members}
    made = await desk.post("/admin/operators", token=desk.token, json=body)
    assert made.status == 201, made.text
    return made.json


async def test_ca_192_an_operator_signs_in_with_a_ticket(desk):
    await hired(desk)

    answer = await desk.post(SESSION, headers=negotiate(ANN))

    assert (answer.status, answer.json["role"], answer.headers.getall("WWW-Authenticate")) == (200, "auditor", ["Negotiate done"])
    token = answer.json["session_token"]
    assert (await desk.get(SESSION, token=token)).json["name"] == "ann"
    assert (await desk.get("/admin/stats", token=token)).status == 200
    assert (await desk.events("admin.login"))[-1].detail == f"as auditor, by Kerberos principal {ANN}"
    assert {row.gssapi_principal for row in await desk.rows(t.session)} == {None, ANN}


@pytest.mark.parametrize("change", [{"gssapi_principal": "other@EXAMPLE.ORG"}, {"active": False}, {"role": "ca_operations"}])
async def test_another_principal_role_or_state_ends_the_session(desk, change):
    one = await hired(desk, eab_kid=None)
    token = (await desk.post(SESSION, headers=negotiate(ANN))).json["session_token"]

    assert (await desk.ask("PATCH", f"/admin/operators/{one['id']}", token=desk.token, json=change)).status == 200

    assert (await desk.get(SESSION, token=token)).status == 401


async def test_s081_s086_what_is_wrong_with_a_ticket_is_one_refusal_and_is_told_to_the_log(desk):
    one = await hired(desk)
    refused = [await desk.post(SESSION, headers=negotiate(who)) for who in (BEN, "TlRMTVNTUAAB", "Ann@EXAMPLE.ORG", "")]
    await desk.ask("PATCH", f"/admin/operators/{one['id']}", token=desk.token, json={"active": False})
    refused.append(await desk.post(SESSION, headers=negotiate(ANN)))

    assert {(one.status, one.json["detail"]) for one in refused} == {
        (401, "no active operator has this Kerberos principal, or the ticket does not authenticate")
    }
    failures = [one.detail for one in await desk.events("admin.login") if one.outcome == "failure"]
    assert (len(failures), failures[0], failures[-1]) == (5, f"Kerberos principal {BEN}: no operator has it", "the operator is not active")


async def test_who_brings_nothing_is_asked_for_both_and_two_legs_are_not_for_one_request(desk):
    bare = await desk.post(SESSION)
    leg = await desk.post(SESSION, headers=negotiate(CAT))

    assert (bare.status, bare.headers["WWW-Authenticate"]) == (401, "Negotiate, Bearer")
    assert (leg.status, leg.headers["WWW-Authenticate"]) == (401, "Negotiate more")
    assert (await desk.post(SESSION, headers=negotiate("x" * 50_000))).status == 400
    assert (await desk.post(SESSION, person=desk.root)).status == 200


async def test_without_a_usable_keytab_503_for_tickets_alone(desk):
    await hired(desk)
    negotiator = sys.modules["greatseal_tickets"].NEGOTIATOR

    negotiator.state = Unusable(reason="the keytab is gone")
    assert (await desk.post(SESSION, headers=negotiate(ANN))).status == 503
    negotiator.state = NotConfigured()
    off = await desk.post(SESSION, headers=negotiate(ANN))
    assert (off.status, off.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert (await desk.post(SESSION, person=desk.root)).status == 200
    negotiator.state = Ready()
    assert (await desk.post(SESSION, headers=negotiate(ANN))).status == 200


async def test_the_tries_of_an_address_are_counted_for_tickets_too(open_office, tickets):
    desk = await open_office(tickets, admin={"auth_rate_limit": 3})

    statuses = [(await desk.post(SESSION, headers=negotiate(BEN))).status for _ in range(3)]

    assert statuses == [401, 401, 429]


# ---- the first administrator


async def test_the_first_administrator_may_have_a_principal_beside_the_certificate(open_office, tickets):
    desk = await open_office(tickets, admin={"bootstrap_principal": ANN}, gssapi={})

    answer = await desk.post(SESSION, headers=negotiate(ANN))

    assert (answer.status, answer.json["role"]) == (200, "administrator")
    assert [one["gssapi_principal"] for one in (await desk.get("/admin/operators", token=desk.token)).json] == [ANN]


async def test_a_principal_that_nobody_could_use_stops_the_start(open_office):
    with pytest.raises(StartProblem, match="nobody could sign in with a ticket"):
        await open_office(admin={"bootstrap_principal": ANN})


@pytest.mark.parametrize("text", ["ann", "ann@", "@EXAMPLE.ORG", "host/@EXAMPLE.ORG", "", "a\n@X", f"{'a' * 255}@X"])
def test_what_is_no_principal_of_an_operator(text):
    assert principal_problem(text)
    with pytest.raises(ValueError, match="bootstrap_principal: "):
        AdminSettings(bootstrap_principal=text)
