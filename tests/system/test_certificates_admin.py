"""The admin API of the inventory, where an identity provider in the same service knows who may, and its commands of ``greatseal ctl``."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from rig.acme import csr_for

from greatseal.api.acme import Identifier
from greatseal.api.issuance import IssuanceRequest
from greatseal.api.services import ISSUANCE
from greatseal.testing.ctl import Ctl, quiet
from greatseal.testing.plugin import StartService

ROLES = {"role": [{"name": "operators", "permissions": ["certificates:read", "certificates:write"], "users": ["alice"]}]}
PATH = "/api/admin/certificates"


@pytest.fixture
async def desk(open_people):
    with quiet():
        yield await open_people("idp", "ca", rbac=ROLES)


async def certify(desk, name):
    issuance, db = desk.service.kernel.service(ISSUANCE), desk.service.kernel.store
    profile = issuance.profile(None)
    request = IssuanceRequest(
        profile=profile, ca_id=profile.ca_id, identifiers=(Identifier("dns", name),), csr=issuance.read_csr(csr_for(name)), account=None
    )
    prepared = await db.write(issuance.reserve, await issuance.compose(request))
    return await db.write(issuance.record, prepared, await issuance.issue(prepared))


async def test_certificates_are_listed_by_pages_and_shown_by_their_serial(desk):
    made = [await certify(desk, f"{name}.example") for name in "abc"]
    cookie = await desk.cookie("alice")

    first = await desk.get(f"{PATH}?limit=2&status=issued", cookie=cookie)
    rest = await desk.get(first.headers["Link"].partition(">")[0].removeprefix("<").removeprefix(desk.service.url), cookie=cookie)
    shown = await desk.get(f"{PATH}/default/{made[0].serial.hex(':')}", cookie=cookie)

    assert [one["serial"] for one in first.json + rest.json] == [
        one.serial.hex() for one in sorted(made, key=lambda one: one.id, reverse=True)
    ]
    assert shown.json in first.json + rest.json
    assert shown.json.keys() == {"id", "ca_id", "status", "profile", "serial", "names", "not_before", "not_after"}


async def test_a_certificate_is_revoked_once_by_who_may(desk):
    certificate = await certify(desk, "a.example")
    path = f"{PATH}/default/{certificate.serial.hex()}"
    alice, bob = await desk.cookie("alice"), await desk.cookie("bob")
    refused = {
        "a stranger": await desk.post(f"{path}/revocation"),
        "somebody else": await desk.post(f"{path}/revocation", cookie=bob),
        "another reason": await desk.post(f"{path}/revocation", cookie=alice, json={"reason": "certificateHold"}),
        "no serial": await desk.post(f"{PATH}/default/xyz/revocation", cookie=alice),
        "another serial": await desk.post(f"{PATH}/default/00/revocation", cookie=alice),
    }
    assert {who: answer.status for who, answer in refused.items()} == {
        "a stranger": 401,
        "somebody else": 403,
        "another reason": 400,
        "no serial": 400,
        "another serial": 404,
    }

    answers = await asyncio.gather(*(desk.post(f"{path}/revocation", cookie=alice, json={"reason": "superseded"}) for _ in range(5)))
    shown = await desk.get(path, cookie=alice)

    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409]
    assert (shown.json["status"], shown.json["reason"]) == ("revoked", "superseded")
    assert abs(shown.json["revoked_at"] - datetime.now(UTC).timestamp()) < 600
    (event,) = await desk.events("cert.revoke")
    assert event.principal == "alice@LOCALHOST"


async def test_a_ca_without_an_identity_provider_has_no_such_routes(start_service: StartService):
    service = await start_service("ca")

    assert not [route for route in service.kernel.routes if route.path.startswith("/api/")]


@pytest.fixture
async def ctl(desk, tmp_path):
    """A terminal where alice is signed in."""
    terminal = Ctl(desk.service.url, tmp_path)
    await terminal.login("alice", desk.people.passwords["alice"])
    return terminal


async def test_the_commands_list_show_and_revoke(desk, ctl):
    other, one = sorted([await certify(desk, f"{name}.example") for name in "ab"], key=lambda made: made.id, reverse=True)
    serial = one.serial.hex()

    before = await ctl.run("certificates", "list", "--ca", "default", "--status", "issued")
    shown = await ctl.run("certificates", "show", "default", one.serial.hex(":"))
    revoked = await ctl.run("certificates", "revoke", "default", serial, "--reason", "superseded", "--yes")
    left = await ctl.run("certificates", "list", "--status", "issued", "--json")
    again = await ctl.run("certificates", "revoke", "default", serial, "--yes")

    head, *lines = before.stdout.splitlines()
    assert head.split() == ["SERIAL", "CA", "ID", "STATUS", "PROFILE", "ACCOUNT", "ID", "NOT", "AFTER", "ID"]
    assert [line.split()[0] for line in lines] == [other.serial.hex(), serial]
    ends = datetime.fromtimestamp(one.not_after // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    assert ends in lines[1]
    assert f"not_after   {ends}" in shown.stdout
    assert (revoked.exit_code, revoked.stdout) == (0, f"certificate {serial} of CA default is revoked\n")
    assert [found["serial"] for found in json.loads(left.stdout)] == [other.serial.hex()]
    assert (again.exit_code, "is revoked" in again.stderr) == (1, True)


async def test_a_command_for_a_certificate_that_is_not_there_says_so(ctl):
    shown = await ctl.run("certificates", "show", "default", "00")
    listed = await ctl.run("certificates", "list")

    assert (shown.exit_code, "no certificate of this serial" in shown.stderr) == (1, True)
    assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "", "no certificates\n")
