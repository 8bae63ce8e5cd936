"""Rows S105 to S118, S134, S151 and S152 of the security checks, as far as they concern ACME."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from urllib.parse import quote
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from rig.acme import Key, Site, acme_site, b64url, compact, csr_for, eventually
from sqlalchemy import func, select
from system.acme_validators import installed
from system.test_acme_validation import answered

from greatseal.clock import FakeClock
from greatseal_acme.tables import ACCOUNT, challenge
from greatseal_ca.tables import certificate


@pytest.fixture
async def site(start_service) -> AsyncIterator[Site]:
    async with acme_site(start_service) as site:
        yield site


@pytest.fixture
async def both(start_service, database_url) -> AsyncIterator[Site]:
    """On SQLite, then on PostgreSQL."""
    async with acme_site(start_service, database=database_url) as site:
        yield site


@pytest.fixture
async def lab(start_service, tmp_path) -> AsyncIterator[Site]:
    with installed(tmp_path / "installed") as feature:
        async with acme_site(start_service, feature, clock=FakeClock(int(time.time()) * 1_000_000)) as site:
            yield site


def outcomes(answers):
    return {(one.status, one.error) for one in answers}


async def test_s105_a_nonce_is_used_once_however_many_try(site):
    client = await site.client()
    url = client.directory["newOrder"]
    body = compact(client.signed(await client.header(url), {"identifiers": [{"type": "dns", "value": "a.localhost"}]}))

    answers = await asyncio.gather(*(client.send(url, body) for _ in range(50)))

    refused = [one for one in answers if one.status != 201]
    assert len(refused) == 49
    assert outcomes(refused) == {(400, "badNonce")}
    assert len({one.headers["Replay-Nonce"] for one in answers}) == 50


async def test_s108_what_is_anothers_looks_like_what_does_not_exist(both):
    mine, other = await both.client(), await both.client()
    pending, ready = await mine.order("a.localhost"), await mine.ready(both.responder, "b.localhost")
    done = await mine.finalize((await mine.ready(both.responder, "c.localhost")).json, csr_for("c.localhost"))
    challenge = await mine.challenge(pending.json["authorizations"][0])
    requests = [
        (pending.location, None),
        (pending.json["authorizations"][0], None),
        (pending.json["authorizations"][0], {"status": "deactivated"}),
        (challenge["url"], None),
        (challenge["url"], {}),
        (ready.json["finalize"], {"csr": b64url(csr_for("b.localhost"))}),
        (done.json["certificate"], None),
        (mine.kid, None),
        (mine.kid, {"status": "deactivated"}),
    ]

    foreign = [await other.post(url, payload) for url, payload in requests]
    unknown = [await other.post(_unknown(url), payload) for url, payload in requests]

    assert outcomes(foreign) == outcomes(unknown) == {(401, "unauthorized")}
    assert [one.body for one in foreign] == [one.body for one in unknown]
    assert (await mine.post(pending.location)).json == pending.json
    assert (await mine.post(challenge["url"])).json == challenge
    assert (await mine.post(ready.location)).json["status"] == "ready"
    assert (await mine.post(mine.kid)).json["status"] == "valid"


def _unknown(url: str) -> str:
    """The same kind of URL with an id that nobody has."""
    parts = url.split("/")
    parts[5] = "00000000-0000-8000-8000-000000000000"
    return "/".join(parts)


async def test_s109_deactivating_races_with_finalizing(both):
    key = Key()
    for round in range(10):
        client = await both.client(key := Key())
        name = f"race{round}.localhost"
        ready = await client.ready(both.responder, name)
        twin = await both.client(key)

        finalized, deactivated = await asyncio.gather(
            client.finalize(ready.json, csr_for(name)), twin.post(twin.kid, {"status": "deactivated"})
        )

        assert deactivated.status == 200
        assert (finalized.status, finalized.error) in {(200, ""), (401, "unauthorized"), (403, "orderNotReady")}
        assert (await client.post(ready.location)).error == "unauthorized"
        assert (await client.finalize(ready.json, csr_for(name))).error == "unauthorized"


async def test_s113_fifty_finalizations_with_different_requests_give_one_certificate(both):
    client = await both.client()
    ready = await client.ready(both.responder, "a.localhost")
    requests = [csr_for("a.localhost") for _ in range(50)]

    answers = await asyncio.gather(*(client.finalize(ready.json, csr) for csr in requests))

    won = [one for one in answers if one.status == 200]
    assert len(won) == 1
    assert outcomes(one for one in answers if one is not won[0]) == {(403, "orderNotReady")}
    leaf = x509.load_pem_x509_certificates((await client.get(won[0].json["certificate"])).body)[0]
    keys = [x509.load_der_x509_csr(csr).public_key() for csr in requests]
    assert keys.index(leaf.public_key()) == answers.index(won[0])
    assert await _count(both, certificate.c.order_id.is_not(None)) == 1


async def test_s116_a_challenge_is_validated_once(both):
    client = await both.client()
    made = await client.order("a.localhost")
    (url,) = made.json["authorizations"]
    challenge = await client.challenge(url)
    token = challenge["token"]
    both.responder[token] = f"{token}.{client.key.thumbprint}"

    answers = await asyncio.gather(*(client.post(challenge["url"], {}) for _ in range(20)))
    await client.until(url, "pending")
    late = await client.post(challenge["url"], {})

    assert {one.status for one in answers} == {200}
    assert {one.json["status"] for one in answers} <= {"processing", "valid"}
    assert late.json["status"] == "valid"
    assert both.responder.asked == {token: 1}


async def test_s116_a_failed_challenge_is_not_revived(site):
    client = await site.client()
    made = await client.order("a.localhost")
    (url,) = made.json["authorizations"]
    challenge = await client.challenge(url)
    await client.post(challenge["url"], {})
    await client.until(url, "pending")

    site.responder[challenge["token"]] = f"{challenge['token']}.{client.key.thumbprint}"
    again = await client.post(challenge["url"], {})

    assert again.json["status"] == "invalid"
    assert site.responder.asked == {challenge["token"]: 1}
    assert (await client.post(made.location)).json["status"] == "invalid"


async def test_s116_the_token_of_one_authorization_serves_no_other(site):
    client = await site.client()
    first, second = (await client.order("a.localhost", "b.localhost")).json["authorizations"]
    mine, other = await client.challenge(first), await client.challenge(second)
    site.responder[other["token"]] = f"{mine['token']}.{client.key.thumbprint}"

    await client.post(other["url"], {})

    assert mine["token"] != other["token"]
    assert (await client.until(second, "pending"))["status"] == "invalid"


class NeutralKey(Key):
    """The neutral point of Ed25519: one signature is right for every message, and everybody knows it."""

    alg = "EdDSA"
    point, forged = bytes((1, *bytes(31))), bytes((1, *bytes(63)))

    def __init__(self) -> None:
        self.jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64url(self.point)}

    def sign(self, message: bytes) -> bytes:
        return self.forged


async def test_s118_a_key_that_anybody_can_sign_for_gets_no_account(site):
    refused = await (await site.client(NeutralKey(), register=False)).register()

    assert (refused.status, refused.error) == (400, "badPublicKey")
    assert "small order" in refused.json["detail"]


async def test_s118_an_account_of_before_whose_key_anybody_can_sign_for_can_do_nothing(site):
    """It was made when such keys were accepted."""
    id, db = str(UUID(int=1)), site.service.host("acme").db
    view = {"status": "valid", "thumbprint": "x", "contact": "[]", "terms_agreed": 1, "created_at": 0}
    await db.write(lambda tx: tx.put(ACCOUNT, id, jwk=json.dumps(NeutralKey().jwk), **view))
    client = await site.client(NeutralKey(), register=False)
    client.kid = f"{site.url}/acme/account/{id}"

    for refused in (await client.post(client.kid), await client.order("a.localhost"), await client.register()):
        assert (refused.status, refused.error) == (400, "badPublicKey")
        assert "small order" in refused.json["detail"]


async def test_s138_a_key_that_anybody_can_sign_for_gets_no_certificate(site):
    client, own = await site.client(), ed25519.Ed25519PrivateKey.generate()
    ready = await client.ready(site.responder, "a.localhost")
    csr = csr_for("a.localhost", key=own)
    signature = x509.load_der_x509_csr(csr).signature
    csr = csr.replace(own.public_key().public_bytes_raw(), NeutralKey.point).replace(signature, NeutralKey.forged)

    refused = await client.finalize(ready.json, csr)

    assert x509.load_der_x509_csr(csr).is_signature_valid
    assert (refused.status, refused.error) == (400, "badCSR")
    assert "small order" in refused.json["detail"]
    assert (await client.post(ready.location)).json["status"] == "ready"


async def _validating(lab):
    client = await lab.client()
    made = await client.order("a.localhost")
    challenge = await client.challenge(made.json["authorizations"][0], "gate-01")
    gate = lab.service.kernel.hooks.instances["test-validators"].gated.gate
    return client, made, challenge, gate


async def test_s134_an_account_deactivated_before_the_probe(lab):
    client = await lab.client()
    gate = lab.service.kernel.hooks.instances["test-validators"].gated.gate
    await answered(client, *(f"n{number}.localhost" for number in range(100)))
    last = await answered(client, *(f"m{number}.localhost" for number in range(100)))
    await eventually(lambda: gate.waiting == 128)

    await client.post(client.kid, {"status": "deactivated"})
    gate.open.set()
    await eventually(lambda: _all_decided(lab))

    assert gate.passed == 128  # the others were not probed
    assert last
    assert await _count(lab, challenge.c.status == "invalid", challenge.c.error.contains("unauthorized")) == 72


async def _all_decided(lab) -> bool:
    return await _count(lab, challenge.c.status == "processing") == 0


async def _count(lab, *where) -> int:
    count = select(func.count().label("n")).where(*where)
    return (await lab.service.host("acme").db.read(lambda tx: tx.one(count))).n


async def test_s134_time_that_ran_out_during_the_probe(lab):
    client, made, challenge, gate = await _validating(lab)
    await client.post(challenge["url"], {})
    await eventually(lambda: gate.waiting == 1)

    lab.service.kernel.clock.advance(86_400)
    gate.open.set()
    fresh = await lab.client(client.key)
    decided = await fresh.until(challenge["url"], "processing")

    assert decided["status"] == "invalid"
    assert "expired" in decided["error"]["detail"]
    assert (await fresh.post(made.location)).json["status"] == "invalid"
    assert (await fresh.finalize(made.json, csr_for("a.localhost"))).error == "orderNotReady"


HOSTILE = [
    "' OR '1'='1", "1; DROP TABLE acme_order--", "%00", "%27%20OR%201=1--", "../../etc/passwd", str(2**63), "-1", "\u202e", "a" * 300,
]  # fmt: skip


async def test_s151_text_for_the_database_is_never_a_statement(both):
    client = await both.client()
    made = await client.order("a.localhost")
    paths = ["account/{}", "order/{}", "order/{}/finalize", "authz/{}", "chall/{}/http-01", "cert/{}"]
    for text in HOSTILE:
        urls = [f"{both.url}/acme/{path.format(_quoted(text))}" for path in paths]
        urls.append(f"{made.json['authorizations'][0].replace('authz', 'chall')}/{_quoted(text)}")
        answers = [await client.post(url, {"csr": ""} if url.endswith("finalize") else None) for url in urls]
        named = [
            await client.order(text),
            await client.order({"type": text, "value": text}),
            await client.order("a.localhost", notAfter=text),
            await client.post(client.kid, {"contact": [f"mailto:{text}@example.org"]}),
            await client.post(client.directory["newOrder"], {}, kid=f"{client.kid[:-36]}{text}"),
        ]
        profile = await client.order("a.localhost", profile=text)

        assert profile.error == "invalidProfile" or "profile" not in profile.json
        assert {one.status for one in named} <= {200, 400, 401, 404}, text
        assert {one.status for one in answers} <= {401, 404}, text
        assert (await client.post(made.location)).json == made.json


def _quoted(text: str) -> str:
    return text if text.startswith("%") else quote(text, safe="")
