"""The admin API of the inventory, where an identity provider in the same service knows who may, and its commands of ``greatseal ctl``."""

import asyncio
from datetime import UTC, datetime

import pytest
from rig import warm
from rig.acme import csr_for

from greatseal.api.acme import Identifier
from greatseal.api.issuance import IssuanceRequest
from greatseal.api.services import ISSUANCE
from greatseal.testing.plugin import StartService

ROLES = {"role": [{"name": "operators", "permissions": ["certificates:read", "certificates:write"], "users": ["alice"]}]}
PATH = "/api/admin/certificates"


@pytest.fixture
async def desk(open_people):
    return await open_people("idp", "ca", rbac=ROLES)


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
    assert shown.json.keys() == {"id", "ca_id", "status", "profile", "serial", "not_before", "not_after"}


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


async def test_the_commands_are_those_of_the_plugin():
    told = warm.run("ctl", "certificates", "--help")

    assert told.returncode == 0, told.stderr
    assert all(word in told.stdout for word in ("list", "show", "revoke"))
