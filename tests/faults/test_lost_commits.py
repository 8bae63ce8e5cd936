"""The database goes away after it committed, before it said so: the client gets 503, and what was done is not left lying."""

import asyncio

import pytest
from rig.acme import acme_site, csr_for, eventually

from greatseal.api.problems import Unavailable, Uncertain

SOON = 10.0
"""Far below the age at which the sweeps take up what is left."""


@pytest.fixture
async def lab(start_service, database_url):
    async with acme_site(start_service, database=database_url) as site:
        yield site


@pytest.fixture
def lose(lab, monkeypatch):
    """``lose("name")``: the first commit of that function is not acknowledged, nor are the next two reads answered."""
    database = lab.service.kernel.store.opened
    write, read = database._write, database._read
    lost, cut = [], []

    def losing(name):
        async def written(fn, args, kwargs):
            result = await write(fn, args, kwargs)
            if fn.__name__ == name and not lost:
                lost.append(name)
                cut.extend([1, 1])
                raise Uncertain("the database cannot be used now")
            return result

        async def answered(fn, args, kwargs):
            if cut:
                cut.pop()
                raise Unavailable("the database cannot be used now")
            return await read(fn, args, kwargs)

        monkeypatch.setattr(database, "_write", written)
        monkeypatch.setattr(database, "_read", answered)
        return lost

    return losing


@pytest.mark.parametrize("step", ["_reserve", "_record"], ids=["claim", "record"])
async def test_f09_a_finalization_whose_commit_was_not_acknowledged_is_ended_soon(lab, lose, step):
    client = await lab.client()
    ready = await client.ready(lab.responder, "a.localhost")
    lost = lose(step)

    refused = await client.finalize(ready.json, csr_for("a.localhost"))
    async with asyncio.timeout(SOON):
        await eventually(lambda: ended(client, ready.location))

    assert lost == [step]
    assert (refused.status, refused.error) == (503, "serverInternal")
    order = (await client.post(ready.location)).json
    assert order["status"] == "valid"
    assert (await client.post(order["certificate"])).status == 200


async def test_f09_a_challenge_whose_answer_was_not_acknowledged_is_validated_soon(lab, lose):
    client = await lab.client()
    made = await client.order("a.localhost")
    challenge = await client.challenge(made.json["authorizations"][0])
    lab.responder[challenge["token"]] = f"{challenge['token']}.{client.key.thumbprint}"
    lost = lose("_accept")

    refused = await client.post(challenge["url"], {})
    async with asyncio.timeout(SOON):
        await eventually(lambda: ended(client, made.location))

    assert lost == ["_accept"]
    assert refused.status == 503
    assert (await client.post(made.location)).json["status"] == "ready"


async def ended(client, location):
    answer = await client.post(location)
    return answer.status == 200 and answer.json["status"] not in {"pending", "processing"}
