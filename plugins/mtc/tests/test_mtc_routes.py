"""What the endpoints and commands say of certificates that are not in the log, or not yet, or not any more."""

from http import HTTPStatus

import aiohttp
import pytest
from sqlalchemy import delete, update

from greatseal.api.problems import NotFound
from greatseal_mtc.commands import _certificate
from greatseal_mtc.tables import entry


@pytest.fixture
async def desk(open_desk):
    return await open_desk(profiles={"default": {}, "tree": {"issue_as": "mtc"}})


async def status(desk, path):
    async with aiohttp.ClientSession() as session, session.get(f"{desk.service.url}/acme/mtc/{path}") as answer:
        return answer.status


async def test_a_certificate_without_index_or_entry_is_in_no_log(desk):
    made = await desk.certify("a.example.com", profile="tree")
    assert await status(desk, f"inclusion-proof/{made.id}") == HTTPStatus.OK

    for change in (update(entry).values(position=None), delete(entry)):
        await desk.db.write(lambda tx, change=change: tx.run(change.where(entry.c.certificate_id == made.id)))
        assert await status(desk, f"inclusion-proof/{made.id}") == HTTPStatus.NOT_FOUND


async def test_an_entry_whose_certificate_was_given_up_is_none(desk):
    prepared = await desk.prepare("a.example.com", profile="tree")
    await desk.log().append(prepared.id, prepared.tbs)
    assert (await desk.entry(prepared.id)).index is not None

    assert await status(desk, f"inclusion-proof/{prepared.id}") == HTTPStatus.NOT_FOUND


async def test_what_no_landmark_has_any_more_is_404(desk, monkeypatch):
    made = await desk.certify("a.example.com", profile="tree")
    await desk.log().landmarks.maybe_allocate()
    assert await status(desk, f"cert/{made.id}/landmark?form=relative") == HTTPStatus.OK

    async def none(*_: object) -> None:
        return

    monkeypatch.setattr(desk.log().landmarks, "relative", none)
    assert await status(desk, f"cert/{made.id}/landmark?form=relative") == HTTPStatus.NOT_FOUND


async def test_a_certificate_of_another_ca_is_not_proven(desk):
    made = await desk.certify("a.example.com", profile="tree")
    host = desk.service.host("mtc")
    assert (await _certificate(host, "default", made.id)).id == made.id

    with pytest.raises(NotFound):
        await _certificate(host, "other", made.id)
