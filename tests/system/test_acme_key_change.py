"""Key change over HTTP (RFC 8555 s7.3.5), on both databases, and account keys of every kind."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from rig.acme import Key, PostQuantumKey, Site, acme_site, b64url, csr_for
from sqlalchemy import select

from greatseal.api.acme import Unauthorized
from greatseal.db.core_tables import audit
from greatseal.db.tables import param
from greatseal.jose.acceptance import spki_sha256
from greatseal.jose.algorithms import ALGORITHMS
from greatseal_acme.key_change import Replacement

DETAILS = select(audit.c.detail).where(audit.c.event_type == param("type"), audit.c.sub == param("sub")).order_by(audit.c.id)


@pytest.fixture
async def site(start_service, database_url) -> AsyncIterator[Site]:
    async with acme_site(start_service, database=database_url) as site:
        yield site


async def changes(site, account_url):
    """What the audit log says about the keys of the account."""
    read = site.service.host("acme").db.read
    rows = await read(lambda tx: tx.all(DETAILS, type="account.key-change", sub=account_url.rpartition("/")[2]))
    return [row.detail for row in rows]


async def test_an_account_goes_on_under_its_new_key(site):
    client, old, new = await site.client(), Key(), Key()
    first, twin = client.key, await site.client(old, register=False)
    twin.kid, twin.key = client.kid, first
    pending, ready = await client.order("a.localhost"), await client.ready(site.responder, "b.localhost")

    changed = await client.change_key(new)

    assert changed.status == 200
    assert changed.location == client.kid
    assert changed.json == (await client.post(client.kid)).json
    refused = await twin.post(client.kid)
    assert (refused.status, refused.error) == (400, "malformed")
    assert await client.prove(pending.json["authorizations"][0], site.responder) == "valid"
    assert (await client.finalize(ready.json, csr_for("b.localhost"))).json["status"] == "valid"
    assert (await client.register(onlyReturnExisting=True)).location == client.kid
    assert await changes(site, client.kid) == [f"key {first.thumbprint} to {new.thumbprint}"]


async def test_the_old_key_is_free_for_another_account(site):
    client = await site.client()
    first, url = client.key, client.kid
    await client.change_key(Key())

    other = await site.client(first)

    assert other.kid != url


async def test_a_challenge_is_proven_with_the_key_that_the_account_has_when_it_is_asked(site):
    client = await site.client()
    authorization = (await client.order("a.localhost")).json["authorizations"][0]
    challenge = await client.challenge(authorization)
    site.responder[challenge["token"]] = f"{challenge['token']}.{client.key.thumbprint}"
    await client.change_key(Key())

    await client.post(challenge["url"], {})

    assert (await client.until(authorization, "pending"))["status"] == "invalid"


async def test_s110_a_new_key_that_an_account_has_is_a_conflict_that_names_it(site):
    client, other = await site.client(), await site.client()

    taken, own = await client.change_key(other.key), await client.change_key(client.key)

    assert [(one.status, one.error) for one in (taken, own)] == [(409, "malformed")] * 2
    assert (taken.location, own.location) == (other.kid, client.kid)
    assert (await client.post(client.kid)).status == (await other.post(other.kid)).status == 200
    assert await changes(site, client.kid) == []


WRONG = {
    "the url of another resource": {"inner": {"url": "http://localhost/acme/new-account"}},
    "no url": {"inner": {"url": None}},
    "a nonce": {"inner": {"nonce": "abcd"}},
    "no key": {"inner": {"jwk": None}},
    "a kid beside the key": {"inner": {"kid": "http://localhost/acme/account/1"}},
    "another account": {"account": "http://localhost/acme/account/00000000-0000-8000-8000-000000000000"},
    "no account": {"account": None},
    "an account that is no text": {"account": 7},
    "another old key": {"oldKey": Key().jwk},
    "no old key": {"oldKey": None},
    "an old key that is none": {"oldKey": {"kty": ["EC"]}},
    "a signature of another key": {"inner": {"jwk": Key().jwk}},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_s110_what_the_inner_signature_does_not_say_rightly_changes_nothing(start_service, wrong):
    async with acme_site(start_service) as site:
        client = await site.client()

        refused = await client.change_key(Key(), **wrong)

        assert (refused.status, refused.error) == (400, "malformed")
        assert (await client.post(client.kid)).status == 200
        assert await changes(site, client.kid) == []


async def test_s110_a_payload_that_is_no_jws_is_malformed(site):
    client = await site.client()
    url = client.directory["keyChange"]
    signed = client.signed({"alg": "ES256", "jwk": client.key.jwk, "url": url}, {})

    answers = [await client.post(url, payload) for payload in (None, {}, b"x", {**signed, "header": {}}, {**signed, "payload": 7})]
    unsigned = await client.post(url, client.signed({"alg": "none", "jwk": client.key.jwk, "url": url}, {}))
    keyed = await client.post(url, client.signed({"alg": "HS256", "jwk": client.key.jwk, "url": url}, {}))

    assert {(one.status, one.error) for one in answers} == {(400, "malformed")}
    assert {(one.status, one.error) for one in (unsigned, keyed)} == {(400, "badSignatureAlgorithm")}
    assert unsigned.json["algorithms"] == list(ALGORITHMS)


async def test_s110_a_new_key_is_as_good_as_that_of_a_new_account(site):
    client, weak, blocked = await site.client(), Key(), Key()
    weak.jwk = {"kty": "RSA", "n": b64url((2**1023 + 1).to_bytes(128)), "e": "AQAB"}
    host = site.service.host("acme")
    name = spki_sha256(blocked.private.public_key())
    await host.db.write(lambda tx: host.blocked_keys.block(tx, name, reason="keyCompromise", by="alice"))

    answers = [await client.change_key(weak), await client.change_key(blocked)]

    assert {(one.status, one.error) for one in answers} == {(400, "badPublicKey")}
    assert "keyCompromise" in answers[1].json["detail"]


async def test_s110_a_key_that_is_blocked_meanwhile_is_seen_by_the_transaction(site, monkeypatch):
    client, blocked = await site.client(), Key()
    host = site.service.host("acme")
    name = spki_sha256(blocked.private.public_key())
    await host.db.write(lambda tx: host.blocked_keys.block(tx, name, reason="keyCompromise", by="alice"))

    async def find(_spki_sha256):
        return None

    monkeypatch.setattr(site.service.kernel.blocked_keys, "find", find)

    assert (await client.change_key(blocked)).error == "badPublicKey"


async def test_s110_of_fifty_changes_at_once_one_counts(site):
    clients = [await site.client(key := Key())]
    clients += [await site.client(key) for _ in range(49)]
    keys = [Key() for _ in clients]

    answers = await asyncio.gather(*(client.change_key(new) for client, new in zip(clients, keys, strict=True)))

    assert sorted(one.status for one in answers) == [200] + [400] * 49
    assert {one.error for one in answers} == {"", "malformed"}
    holder = clients[[one.status for one in answers].index(200)]
    assert (await holder.post(holder.kid)).status == 200
    assert await changes(site, holder.kid) == [f"key {key.thumbprint} to {holder.key.thumbprint}"]


async def test_s110_fifty_accounts_that_want_one_key_at_once_do_not_share_it(site):
    clients, wanted = [await site.client() for _ in range(50)], Key()

    answers = await asyncio.gather(*(client.change_key(wanted) for client in clients))

    assert sorted(one.status for one in answers) == [200] + [409] * 49
    holder = clients[[one.status for one in answers].index(200)].kid
    assert {one.location for one in answers} == {holder}


async def test_s109_a_key_change_races_with_a_deactivation(site):
    for _ in range(10):
        client = await site.client(key := Key())
        twin = await site.client(key)

        changed, gone = await asyncio.gather(client.change_key(Key()), twin.post(twin.kid, {"status": "deactivated"}))

        # The key may have changed before the deactivation was looked at: then its signature is that of a stranger.
        assert (changed.status, gone.status) in {(200, 200), (200, 400), (401, 200)}


async def test_s109_an_account_that_ended_meanwhile_keeps_its_key(site):
    client, new = await site.client(), Key()
    host, id = site.service.host("acme"), client.kid.rpartition("/")[2]
    changes = site.service.kernel.hooks.instances["acme"].acme(host).key_changes
    key = new.private.public_key()
    replacement = Replacement(
        account_id=id, old_thumbprint=client.key.thumbprint, jwk=new.jwk, thumbprint=new.thumbprint, spki_sha256=spki_sha256(key)
    )
    await client.post(client.kid, {"status": "deactivated"})

    with pytest.raises(Unauthorized):
        await host.db.write(changes._replace, replacement)


@pytest.mark.parametrize("alg", ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"])
async def test_an_account_key_of_ml_dsa(site, alg):
    client = await site.client(PostQuantumKey(alg))

    chain = await client.issue(site.responder, "a.localhost")
    changed = await client.change_key(PostQuantumKey(alg))
    again = await client.change_key(Key())

    assert len(chain) == 2
    assert (changed.status, again.status) == (200, 200)
    assert (await client.post(client.kid)).status == 200


async def test_an_account_key_of_ml_dsa_must_be_of_the_alg_that_signs(site):
    client = await site.client(PostQuantumKey("ML-DSA-44"), register=False)
    client.key.alg = "ML-DSA-65"

    refused = await client.register()

    assert (refused.status, refused.error) == (400, "badPublicKey")
