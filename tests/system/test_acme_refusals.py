"""Orders that are refused when they are made, and validators that break their contract: nothing fails open, nobody waits for ever."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from rig.acme import acme_site
from system.acme_validators import installed

from greatseal.clock import FakeClock


@pytest.fixture
async def lab(start_service, tmp_path):
    """With the challenge types of the tests."""
    with installed(tmp_path / "installed") as feature:
        async with acme_site(start_service, feature) as site:
            yield site


def rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_what_a_validator_returned_instead_of_a_verdict_is_in_the_log(lab, capfd):
    client = await lab.client()
    made = await client.order("false.localhost")
    challenge = await client.challenge(made.json["authorizations"][0], "fail-01")
    await client.post(challenge["url"], {})
    failed = await client.until(challenge["url"], "processing")
    logged = next(line for line in "".join(capfd.readouterr()).splitlines() if "returned no verdict" in line)

    assert "validator=fail-01" in logged
    assert "returned=bool" in logged
    assert failed["error"]["detail"].rpartition(" ")[2] in logged


async def test_a_validator_does_not_say_what_the_service_says(lab):
    client = await lab.client()
    made = await client.order("problem.localhost")
    listed = (await client.post(made.json["authorizations"][0])).json["challenges"]
    shown = next(one for one in listed if one["type"] == "fail-01")

    assert shown.keys() == {"type", "url", "status", "token"}
    assert shown["url"].startswith(lab.url)
    assert shown["status"] == "pending"


async def test_an_onion_name_that_nothing_here_can_prove_is_refused(start_service):
    name = f"{'a' * 51}m2dqd.onion"

    async with acme_site(start_service) as site:
        client = await site.client()
        refused = await client.order(f"www.{name}")

    assert (refused.status, refused.error) == (400, "rejectedIdentifier")
    assert "no challenge type that is enabled here" in refused.json["detail"]


async def test_times_that_the_ca_cannot_grant_are_refused_with_the_order(start_service):
    clock = FakeClock(int(time.time()) * 1_000_000)
    ca, profiles = {"ca_validity_years": 1}, {"default": {}, "long": {"validity_days": 365}}
    async with acme_site(start_service, clock=clock, ca=ca, profiles=profiles) as site:
        clock.advance(100 * 86_400)
        client, now = await site.client(), datetime.fromtimestamp(clock.now() / 1_000_000, UTC)
        beyond = await client.order("a.localhost", profile="long", notAfter=rfc3339(now + timedelta(days=300)))
        within = await client.order("a.localhost", profile="long", notAfter=rfc3339(now + timedelta(days=200)))
        late = await client.order("a.localhost", notBefore=rfc3339(now + timedelta(days=91)))

    assert (beyond.status, beyond.error) == (late.status, late.error) == (400, "malformed")
    assert "issuer" in beyond.json["detail"]
    assert "90 days from now" in late.json["detail"]
    assert within.status == 201


async def test_a_ca_that_ended_takes_no_orders_and_blames_nobody(start_service, capfd):
    clock = FakeClock(int(time.time()) * 1_000_000)
    async with acme_site(start_service, clock=clock, ca={"ca_validity_years": 1}) as site:
        client = await site.client()
        clock.advance(366 * 86_400)
        again = await site.client(client.key)
        refused = await again.order("a.localhost")

    assert (refused.status, refused.error) == (503, "serverInternal")
    assert int(refused.headers["Retry-After"]) >= 60
    assert "a certificate of the CA's chain ended on" in "".join(capfd.readouterr())
    assert "ended on" not in refused.json["detail"]
