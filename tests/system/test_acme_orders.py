"""Orders, authorizations, challenges, finalization and certificates over HTTP, on both databases (RFC 8555 s7.4, s7.5)."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from cryptography import x509
from rig.acme import Site, acme_site, b64url, csr_for, eventually
from sqlalchemy import select, update
from system.acme_validators import installed

from greatseal.api.issuance import Issuer
from greatseal.api.problems import Conflict, Unavailable
from greatseal.api.services import ACCOUNTS, CHALLENGES
from greatseal.clock import FakeClock
from greatseal.testing.store import audit
from greatseal_acme.tables import order


@pytest.fixture
async def site(start_service, database_url) -> AsyncIterator[Site]:
    async with acme_site(start_service, database=database_url) as site:
        yield site


@pytest.fixture
async def lab(start_service, tmp_path) -> AsyncIterator[Site]:
    """With the challenge types of the tests, on a clock that the test moves."""
    with installed(tmp_path / "installed") as feature:
        clock = FakeClock(int(time.time()) * 1_000_000)
        async with acme_site(start_service, feature, clock=clock) as site:
            yield site


def rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_ca_001_ca_104_an_order_gives_a_certificate_with_its_chain(site):
    client = await site.client()

    leaf, issuing = await client.issue(site.responder, "one.localhost", "two.localhost")
    root = x509.load_pem_x509_certificate((await client.get(f"{site.url}/ca/root.pem")).body)

    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert sorted(names) == ["one.localhost", "two.localhost"]
    leaf.verify_directly_issued_by(issuing)
    issuing.verify_directly_issued_by(root)  # which relying parties have: it is not sent


async def test_ca_021_ca_022_ca_023_ca_024_ca_081_ca_082_ca_083_ca_088_ca_090_ca_105_ca_107_the_objects_on_the_way(site):
    client = await site.client()

    made = await client.order("A.localhost", "a.localhost")
    order, (authorization_url,) = made.json, made.json["authorizations"]
    authorization = (await client.post(authorization_url)).json
    (challenge,) = authorization["challenges"]
    site.responder[challenge["token"]] = f"{challenge['token']}.{client.key.thumbprint}"
    answered = await client.post(challenge["url"], {"keyAuthorization": "old clients send it"})
    valid = await client.until(authorization_url, "pending")
    ready = await client.post(made.location)
    done = await client.finalize(ready.json, csr_for("a.localhost"))

    assert made.status == 201
    assert (await client.post(made.location)).json | {"status": "pending"} == order | {
        "status": "pending",
        "certificate": done.json["certificate"],
    }
    assert order["identifiers"] == [{"type": "dns", "value": "a.localhost"}]
    assert order["finalize"] == f"{made.location}/finalize"
    assert order.keys() == {"status", "expires", "identifiers", "authorizations", "finalize"}
    assert authorization.keys() == {"identifier", "status", "expires", "challenges"}
    assert challenge.keys() == {"type", "url", "status", "token"}
    assert len(challenge["token"]) == 43
    assert challenge["url"] == f"{site.url}/acme/chall/{authorization_url.rpartition('/')[2]}/http-01"
    assert (answered.status, answered.json["status"], answered.links["up"]) == (200, "processing", authorization_url)
    assert answered.headers["Retry-After"]
    assert (valid["status"], valid["challenges"][0]["status"]) == ("valid", "valid")
    assert datetime.fromisoformat(valid["challenges"][0]["validated"]).tzinfo is not None
    assert ready.json["status"] == "ready"
    assert (done.status, done.json["status"], done.location) == (200, "valid", made.location)


async def test_ca_115_a_certificate_by_get_and_by_post(site):
    client, other = await site.client(), await site.client()
    ready = await client.ready(site.responder, "a.localhost")
    url = (await client.finalize(ready.json, csr_for("a.localhost"))).json["certificate"]

    by_get, by_post, foreign = await client.get(url), await client.post(url), await other.post(url)
    unknown = await client.get(f"{site.url}/acme/cert/{'0' * 8}-0000-8000-8000-{'0' * 12}")

    assert by_get.body == by_post.body
    assert by_get.headers["Content-Type"] == by_post.headers["Content-Type"] == "application/pem-certificate-chain"
    assert by_get.body.startswith(b"-----BEGIN CERTIFICATE-----\n")
    assert by_get.body.endswith(b"-----END CERTIFICATE-----\n")
    assert by_get.links["index"] == f"{site.url}/acme/directory"
    assert (foreign.status, foreign.error) == (401, "unauthorized")
    assert (unknown.status, unknown.error) == (404, "malformed")


async def test_ca_003_ca_022_ca_025_ca_086_ca_089_ca_091_a_failed_probe_makes_all_invalid_and_says_why(site):
    client = await site.client()
    made = await client.order("a.localhost", "b.localhost")
    authorization_url = made.json["authorizations"][0]
    challenge = await client.challenge(authorization_url)
    site.responder[challenge["token"]] = "something else"

    await client.post(challenge["url"], {})
    authorization = await client.until(authorization_url, "pending")
    order = (await client.post(made.location)).json

    assert authorization["status"] == "invalid"
    (failed,) = authorization["challenges"]
    assert (failed["status"], failed["error"]["type"]) == ("invalid", "urn:ietf:params:acme:error:incorrectResponse")
    assert "something else" in failed["error"]["detail"]
    assert order["status"] == "invalid"
    assert order["error"]["type"] == failed["error"]["type"]
    assert order["error"]["identifier"] == {"type": "dns", "value": "a.localhost"}
    assert "validated" not in failed


FAILURES = {
    "oserror": ("connection", "Connection refused"),
    "slow": ("connection", "0.05 seconds"),
    "name": ("dns", "NXDOMAIN"),
    "handshake": ("tls", "handshake failure"),
    "bug": ("serverInternal", "incident"),
    "problem": ("incorrectResponse", "found nothing"),
    "start": ("incorrectResponse", "mail"),
    "started": ("incorrectResponse", "found nothing"),
    "nothing": ("serverInternal", "incident"),
    "false": ("serverInternal", "incident"),
    "cancelled": ("serverInternal", "incident"),
}


async def test_ca_207_what_a_validator_raises_becomes_a_problem(lab, capfd):
    client = await lab.client()
    for name, (error, detail) in FAILURES.items():
        (url,) = (await client.order(f"{name}.localhost")).json["authorizations"]
        challenge = await client.challenge(url, "fail-01")
        assert challenge.keys() == {"type", "url", "status", "token"}  # a validator does not say what the service says
        assert (challenge["url"].startswith(lab.url), challenge["status"]) == (True, "pending")

        answered = await client.post(challenge["url"], {})
        (failed,) = (await client.until(url, "pending"))["challenges"]

        assert failed["error"]["type"] == f"urn:ietf:params:acme:error:{error}"
        assert detail in failed["error"]["detail"]
        assert "secret" not in failed["error"]["detail"]
        assert answered.json["status"] == ("invalid" if name == "start" else "processing")
        logged = [line for line in "".join(capfd.readouterr()).splitlines() if "returned no verdict" in line]
        assert len(logged) == (name in {"nothing", "false"})
        for line in logged:
            assert "validator=fail-01" in line
            assert f"returned={'NoneType' if name == 'nothing' else 'bool'}" in line
            assert failed["error"]["detail"].rpartition(" ")[2] in line


async def test_a_wildcard_with_a_validator_that_another_decides(lab):
    client, challenges = await lab.client(), lab.service.kernel.service(CHALLENGES)
    made = await client.order("*.a.localhost")
    (url,) = made.json["authorizations"]
    authorization = (await client.post(url)).json
    (challenge,) = authorization["challenges"]

    refused = await client.post(challenge["url"], {})
    still = (await client.post(challenge["url"])).json
    answered = await client.post(challenge["url"], {"word": "hello"})
    id = await challenge_id(lab, challenge["url"])
    db = lab.service.host("acme").db
    viewed = await db.read(challenges.view, id)
    decisions = [await db.write(challenges.decide, id, None) for _ in range(2)]

    assert authorization["wildcard"] is True
    assert authorization["identifier"] == {"type": "dns", "value": "a.localhost"}
    assert challenge | {"type": "wild-01", "said": "", "made": 1, "status": "pending"} == challenge
    assert (refused.status, refused.error) == (400, "malformed")
    assert still["status"] == "pending"
    assert (answered.json["status"], answered.json["said"], answered.json["made"]) == ("processing", "hello", 1)
    assert (viewed.wildcard, viewed.kept.said) == (True, "hello")
    assert decisions == [True, False]
    assert (await client.post(made.location)).json["status"] == "ready"
    done = await client.finalize(made.json, csr_for("*.a.localhost"))
    assert done.json["status"] == "valid"


async def challenge_id(site, url):
    from sqlalchemy import select

    from greatseal.db.tables import param
    from greatseal_acme.tables import challenge

    by_place = select(challenge.c.id).where(challenge.c.authorization_id == param("authorization"), challenge.c.type == param("type"))
    *_, authorization, type = url.split("/")
    return (await site.service.host("acme").db.read(lambda tx: tx.one(by_place, authorization=authorization, type=type))).id


async def test_deactivating_an_authorization_ends_its_orders(site):
    client = await site.client()
    pending, ready = await client.order("a.localhost"), await client.ready(site.responder, "b.localhost")
    urls = [one.json["authorizations"][0] for one in (pending, ready)]

    wrong = await client.post(urls[0], {"status": "valid"})
    gone = [await client.post(url, {"status": "deactivated"}) for url in urls]
    again = await client.post(urls[0], {"status": "deactivated"})
    orders = [(await client.post(one.location)).json for one in (pending, ready)]

    assert (wrong.status, wrong.error) == (400, "malformed")
    assert [(one.status, one.json["status"]) for one in (*gone, again)] == [(200, "deactivated")] * 3
    assert [one["status"] for one in orders] == ["invalid"] * 2
    assert all("deactivated" in one["error"]["detail"] for one in orders)
    assert (await client.finalize(ready.json, csr_for("b.localhost"))).error == "orderNotReady"


async def test_time_ends_orders_and_authorizations(lab):
    client, clock = await lab.client(), lab.service.kernel.clock
    pending, ready = await client.order("a.localhost"), await client.ready(lab.responder, "b.localhost")

    clock.advance(86_400)
    fresh = await lab.client(client.key)
    orders = [(await fresh.post(one.location)).json for one in (pending, ready)]
    authorizations = [(await fresh.post(one.json["authorizations"][0])).json for one in (pending, ready)]
    challenge = await fresh.challenge(pending.json["authorizations"][0])
    answered = await fresh.post(challenge["url"], {})
    refused = await fresh.post(pending.json["authorizations"][0], {"status": "deactivated"})

    assert [one["status"] for one in orders] == ["invalid"] * 2
    assert [one["status"] for one in authorizations] == ["expired"] * 2
    assert answered.json["status"] == "pending"
    assert refused.error == "malformed"
    assert (await fresh.finalize(ready.json, csr_for("b.localhost"))).error == "orderNotReady"


async def test_not_before_and_not_after_are_honoured(site):
    client, now = await site.client(), datetime.now(UTC).replace(microsecond=0)
    start, end = now + timedelta(days=1), now + timedelta(days=8)

    ready = await client.ready(site.responder, "a.localhost", notBefore=rfc3339(start), notAfter=rfc3339(end))
    done = await client.finalize(ready.json, csr_for("a.localhost"))
    leaf = x509.load_pem_x509_certificates((await client.get(done.json["certificate"])).body)[0]

    assert (ready.json["notBefore"], ready.json["notAfter"]) == (rfc3339(start), rfc3339(end))
    assert (leaf.not_valid_before_utc, leaf.not_valid_after_utc) == (start, end)


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


async def test_s142_grants_that_are_taken_away_while_a_hook_decides_refuse(start_service, tmp_path):
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.05; done\n")
    hook.chmod(0o755)
    async with acme_site(start_service, profiles={"special": {"require_account_grant": True, "auth_hook": str(hook)}}) as site:
        client = await site.client()
        accounts, db, id = site.service.kernel.service(ACCOUNTS), site.service.host("acme").db, client.kid.rpartition("/")[2]
        await db.write(accounts.grant, id, ("special",))
        ready = await client.ready(site.responder, "a.localhost")
        finalizing = asyncio.create_task(client.finalize(ready.json, csr_for("a.localhost")))
        await eventually((tmp_path / "asked").exists)
        await db.write(accounts.grant, id, None)
        (tmp_path / "go").touch()
        refused = await finalizing

        assert (refused.status, refused.error) == (401, "unauthorized")
        assert (await client.post(ready.location)).json["status"] == "ready"
        events = await db.read(lambda tx: tx.all(select(audit).where(audit.c.event_type == "order.deny")))
        assert [event.detail for event in events] == ["profile special, account-grant: unauthorized"]
        await db.write(accounts.grant, id, ("special",))
        assert (await client.finalize(ready.json, csr_for("a.localhost"))).status == 200


async def test_ca_047_ca_048_profiles_and_grants(start_service):
    profiles = {"short": {"validity_days": 7}, "special": {"require_account_grant": True}}
    async with acme_site(start_service, profiles=profiles) as site:
        client, accounts = await site.client(), site.service.kernel.service(ACCOUNTS)
        unasked, short = await client.order("a.localhost"), await client.order("a.localhost", profile="short")
        unknown = await client.order("a.localhost", profile="nowhere")
        ready = await client.ready(site.responder, "b.localhost", profile="special")
        refused = await client.finalize(ready.json, csr_for("b.localhost"))
        still = await client.post(ready.location)
        await site.service.host("acme").db.write(accounts.grant, client.kid.rpartition("/")[2], ("special",))
        granted = await client.finalize(ready.json, csr_for("b.localhost"))
        open_to_all = await client.ready(site.responder, "c.localhost", profile="short")
        ungranted = await client.finalize(open_to_all.json, csr_for("c.localhost"))

    assert ungranted.json["status"] == "valid"
    assert unasked.json["profile"] == "short"  # the first, where none is named default
    assert short.json["profile"] == "short"
    assert (unknown.status, unknown.error) == (400, "invalidProfile")
    assert (refused.status, refused.error) == (401, "unauthorized")
    assert "account grant" in refused.json["detail"]
    assert still.json["status"] == "ready"
    assert granted.json["status"] == "valid"


async def test_s142_without_the_grant_no_certificate_and_what_counts_is_the_moment_of_finalize(start_service):
    async with acme_site(start_service, profiles={"default": {}, "special": {"require_account_grant": True}}) as site:
        client, accounts, db = await site.client(), site.service.kernel.service(ACCOUNTS), site.service.host("acme").db
        id, refused = client.kid.rpartition("/")[2], []
        await db.write(accounts.grant, id, ("special",))
        ready = await client.ready(site.responder, "a.localhost", profile="special")
        for grants in (None, (), ("default", "special ", "SPECIAL")):  # taken away, none, others
            await db.write(accounts.grant, id, grants)
            answer = await client.finalize(ready.json, csr_for("a.localhost"))
            refused.append((answer.status, answer.error, (await client.post(ready.location)).json["status"]))
        await db.write(accounts.grant, id, ("default", "special"))
        granted = await client.finalize(ready.json, csr_for("a.localhost"))

    assert refused == [(401, "unauthorized", "ready")] * 3
    assert granted.json["status"] == "valid"


@pytest.mark.parametrize("profiles", [{}, {"default": {}, "other": {}}])
async def test_a_profile_that_was_withdrawn_certifies_no_order_of_before(start_service, profiles):
    async with acme_site(start_service, **({"profiles": profiles} if profiles else {})) as site:
        client = await site.client()
        ready = await client.ready(site.responder, "a.localhost")
        await site.service.host("acme").db.write(lambda tx: tx.run(update(order).values(profile="withdrawn")))
        refused = await client.finalize(ready.json, csr_for("a.localhost"))

    assert (refused.status, refused.error) == (400, "invalidProfile")


async def test_ca_182_patterns_hook_and_grant_must_all_pass(start_service, tmp_path):
    for name, code in (("permits", 0), ("denies", 1)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    wishes = list(product((True, False), repeat=3))
    names = ["".join("y" if one else "n" for one in wish) for wish in wishes]
    profiles = {
        name: {
            "allowed_identifier_patterns": [r"a\.localhost" if pattern else r"b\.localhost"],
            "auth_hook": str(tmp_path / ("permits" if hook else "denies")),
            "require_account_grant": True,
        }
        for name, (pattern, hook, _) in zip(names, wishes, strict=True)
    }
    async with acme_site(start_service, profiles=profiles) as site:
        client, accounts = await site.client(), site.service.kernel.service(ACCOUNTS)
        granted = tuple(name for name in names if name.endswith("y"))
        await site.service.host("acme").db.write(accounts.grant, client.kid.rpartition("/")[2], granted)
        found = {}
        for name in names:
            ready = await client.ready(site.responder, "a.localhost", profile=name)
            answer = await client.finalize(ready.json, csr_for("a.localhost"))
            found[name] = answer.json["status"] if answer.status == 200 else answer.json["detail"].partition(":")[0]

    refusals = {"n": "allowed_identifier_patterns", "yn": "auth_hook", "yyn": "account grant", "yyy": "valid"}
    assert found == {name: next(said for start, said in refusals.items() if name.startswith(start)) for name in names}


async def test_ca_108_the_order_of_the_checks_at_finalize(start_service):
    async with acme_site(start_service, profiles={"default": {}, "special": {"require_account_grant": True}}) as site:
        client = await site.client()
        pending = await client.order("a.localhost")
        granted = await client.ready(site.responder, "b.localhost")
        barred = await client.ready(site.responder, "c.localhost", profile="special")
        answers = [
            await client.post(pending.json["finalize"], {"csr": 7}),
            await client.post(pending.json["finalize"], {}),
            await client.post(pending.json["finalize"]),
            await client.post(pending.json["finalize"], {"csr": "not base64url!"}),
            await client.post(barred.json["finalize"], {"csr": "not base64url!"}),
            await client.post(granted.json["finalize"], {"csr": "not base64url!"}),
            await client.finalize(granted.json, b"not DER"),
            await client.finalize(granted.json, csr_for("c.localhost")),
            await client.finalize(granted.json, csr_for("b.localhost", "c.localhost")),
        ]
        after = await client.post(granted.location)

    assert [one.error for one in answers] == [
        *["malformed"] * 3,
        "orderNotReady",
        "unauthorized",
        *["badCSR"] * 4,
    ]
    assert [one.status for one in answers] == [400, 400, 400, 403, 401, 400, 400, 400, 400]
    assert after.json["status"] == "ready"


@pytest.mark.parametrize(("phase", "unreadable"), [("authorize", "caa"), ("csr", "badCSR"), ("policy", "badCSR")])
async def test_ca_108_a_check_of_each_phase_may_refuse(lab, phase, unreadable):
    client, name = await lab.client(), f"{phase}.localhost"
    ready = await client.ready(lab.responder, name)

    early = await client.finalize(ready.json, b"not DER")
    refused = await client.finalize(ready.json, csr_for(name))

    assert (early.error, refused.error) == (unreadable, "caa")
    assert refused.json["detail"] == f"{phase}: {'no CSR' if phase == 'authorize' else 'a CSR'}"
    assert (await client.post(ready.location)).json["status"] == "ready"
    events = await lab.service.host("acme").db.read(lambda tx: tx.all(select(audit).where(audit.c.event_type == "order.deny")))
    assert {event.detail for event in events} == {f"profile default, barring-{phase}: caa"}


async def test_what_a_plugin_shows_in_meta_stands_beside_what_the_directory_shows(lab):
    assert (await lab.get_directory()).json["meta"] == {"externalAccountRequired": False, "caaIdentities": ["ca.example"]}


async def test_a_check_sees_all_that_the_client_sent(lab):
    client = await lab.client()
    ready = await client.ready(lab.responder, "a.localhost")
    sent = {"csr": b64url(csr_for("a.localhost")), "onionCAA": {"a.localhost": {"caa": "barred"}}}

    refused = await client.post(ready.json["finalize"], sent)
    done = await client.finalize(ready.json, csr_for("a.localhost"))

    assert (refused.error, refused.json["detail"]) == ("caa", "a.localhost says barred")
    assert done.json["status"] == "valid"


async def test_a_serial_that_is_taken_every_time_leaves_the_order_ready(lab, monkeypatch):
    issuer = lab.service.host("acme").components(Issuer)["x509"]
    client = await lab.client()
    first, second = [await client.ready(lab.responder, f"{name}.localhost") for name in "ab"]
    with monkeypatch.context() as patched:
        patched.setattr(issuer, "draw_serial", lambda: (1 << 100).to_bytes(16))
        assert (await client.finalize(first.json, csr_for("a.localhost"))).status == 200
        refused = await client.finalize(second.json, csr_for("b.localhost"))

    assert refused.status == 503
    assert (await client.post(second.location)).json["status"] == "ready"
    assert (await client.finalize(second.json, csr_for("b.localhost"))).json["status"] == "valid"


async def test_those_who_settle_one_claim_at_once_make_one_certificate(lab, monkeypatch):
    finalizations = lab.service.kernel.hooks.instances["acme"].acme(lab.service.host("acme")).finalizations
    client = await lab.client()
    ready = await client.ready(lab.responder, "a.localhost")

    async def interrupted(order, prepared):
        raise Unavailable("interrupted", cause=prepared.id)

    monkeypatch.setattr(finalizations, "_issue", interrupted)
    assert (await client.finalize(ready.json, csr_for("a.localhost"))).status == 503
    id = ready.location.rpartition("/")[2]
    (claimed,) = await lab.service.host("acme").db.read(lambda tx: tx.all(select(order.c.certificate_id).where(order.c.id == id)))

    ends = await asyncio.gather(*(finalizations._decide(id, claimed.certificate_id) for _ in range(3)), return_exceptions=True)
    late = await finalizations._decide(id, claimed.certificate_id)

    assert {type(end) for end in ends} <= {type(None), Conflict}
    assert late is None
    done = (await client.post(ready.location)).json
    assert done["status"] == "valid"
    assert (await client.post(done["certificate"])).status == 200


async def test_a_hundred_names_in_one_order(site):
    client = await site.client()
    names = [f"n{number}.localhost" for number in range(100)]

    made = await client.order(*names)
    assert made.status == 201
    statuses = await asyncio.gather(*(client.prove(url, site.responder) for url in made.json["authorizations"]))
    done = await client.finalize(made.json, csr_for(*names))

    assert set(statuses) == {"valid"}
    assert done.json["status"] == "valid"
    assert [one["value"] for one in made.json["identifiers"]] == names
