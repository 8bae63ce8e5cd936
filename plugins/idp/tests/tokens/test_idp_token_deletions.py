"""Deletions that thousands of rows have to follow: over at once, followed in bites, and nobody waits for all of them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from sqlalchemy import update

from greatseal import faults
from greatseal.api.lists import Page
from greatseal.api.services import FAMILIES
from greatseal.api.tokens import Authentication, Granted
from greatseal_idp import tables as t
from greatseal_idp.admin.families import _live
from greatseal_idp.extensions import NO_DETAILS
from greatseal_idp.token.codes import CodeOrder
from greatseal_idp.token.endings import BITE, Ending, Endings
from greatseal_idp.token.refresh_tokens import RefreshToken

MANY = 20 * BITE
STATEMENTS = 6 * BITE
"""Of one transaction: each row of a bite is read, changed, and told to the audit, the revoked set and the memory."""
ALICE = "alice@LOCALHOST"


class Counted:
    """A transaction that counts its statements and the rows that it reads."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx
        self.number = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.tx, name)
        if not callable(found):
            return found

        def call(*given: Any, **values: Any) -> Any:
            result = found(*given, **values)
            self.number += max(1, len(result) if name == "all" else 1)
            return result

        return call


def transactions(desk: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long each is from now on, in statements and rows."""
    counts: list[int] = []
    store = desk.host.db
    write = store.write

    async def counted(fn: Any, *given: Any, **values: Any) -> Any:
        @wraps(fn)
        def run(tx: Any, *given: Any, **values: Any) -> Any:
            counting = Counted(tx)
            try:
                return fn(counting, *given, **values)
            finally:
                counts.append(counting.number)

        return await write(run, *given, **values)

    monkeypatch.setattr(store, "write", counted)
    return counts


async def open_families(desk: Any, client_id: str, number: int = MANY, **of: Any) -> None:
    """Families as sign-ins leave them."""
    granted = Granted(subject=ALICE, client_id=client_id, scopes=("openid", "offline_access"), **of)

    def some(tx: Any) -> None:
        for _ in range(min(500, number)):
            desk.provider.families.open(tx, granted)

    for _ in range(-(-number // 500)):
        await desk.host.db.write(some)


async def followed(desk: Any) -> None:
    """All that is over says so."""
    await desk.provider.endings.carry_on()
    assert not desk.provider.endings.pending
    assert not await desk.host.db.read(lambda tx: tx.all(t.ending.select()))


async def live(desk: Any) -> int:
    return sum(row.revoked_at is None for row in await desk.families())


async def listed(desk: Any, client: Any) -> int:
    """Families that the admin API shows."""
    return len(await desk.host.db.read(_live, Page(100, ""), {"client_id": client.client_id}))


@contextmanager
def unfollowed() -> Iterator[None]:
    """Nobody follows an ending."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Endings, "carry_on", lambda _: asyncio.sleep(0))
        yield


async def test_a_deleted_client_is_over_at_once_and_no_transaction_is_long(both_desks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = both_desks
    client, server = await desk.client(), await desk.client(scopes=("introspect",))
    tokens = await desk.tokens(client)
    await open_families(desk, client.client_id)
    counts = transactions(desk, monkeypatch)

    await desk.provider.clients.delete(client.client_id, by="root")

    assert not await desk.is_live(server, tokens["access_token"])
    assert await listed(desk, client) == 0
    await followed(desk)
    assert await live(desk) == 0
    assert len(await desk.events("refresh_family_revoked")) == MANY + 1
    assert len(await desk.events("client_deleted")) == 1
    assert max(counts) < STATEMENTS


async def test_an_ending_is_followed_from_where_a_crash_left_it(both_desks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = both_desks
    client = await desk.client()
    await open_families(desk, client.client_id, 1000)
    bites = count()

    def crash(point: str) -> None:
        if point == "idp.ending.followed" and next(bites) == 2:
            raise ConnectionError("the process ends here")

    monkeypatch.setattr(faults, "point", crash)
    with unfollowed():
        await desk.provider.clients.delete(client.client_id, by="root")
    assert await live(desk) == 1000 - BITE
    with pytest.raises(ConnectionError):
        await desk.provider.endings.carry_on()
    assert await live(desk) == 1000 - 4 * BITE

    await followed(desk)

    assert await live(desk) == 0
    assert len(await desk.events("refresh_family_revoked")) == 1000


async def test_what_is_over_stays_so_after_a_restart_and_for_a_client_of_the_same_id(
    start_desk: Any, fresh_database: Any, tmp_path: Any
) -> None:
    kept = {"database": {"url": fresh_database()}, "cluster": {"key_file": str(tmp_path / "kept.key")}}
    desk = await start_desk(**kept)
    client = await desk.client()
    (row,) = await desk.host.db.read(lambda tx: tx.all(t.client.select()))
    columns = {column.name: getattr(row, column.name) for column in t.client.columns if column.name != "client_id"}
    await open_families(desk, client.client_id, 500)
    tokens, code = await desk.tokens(client), await desk.code(client)
    with unfollowed():
        await desk.provider.clients.delete(client.client_id, by="root")

        await desk.service.stop()
        again = await start_desk(**kept)
        again._secrets = desk._secrets
        await again.host.db.write(lambda tx: tx.put(t.CLIENT, client.client_id, **columns))

        assert await live(again) > 0
        await everything_is_refused(again, client, tokens, code)
    await followed(again)
    assert await live(again) == 0
    await everything_is_refused(again, client, tokens, code)


async def everything_is_refused(desk: Any, client: Any, tokens: Any, code: str) -> None:
    for refused in (await desk.refresh(client, tokens["refresh_token"]), await desk.redeem(client, code)):
        assert (refused.status, refused.error) == (400, "invalid_grant")
    assert not await desk.is_live(client, tokens["access_token"])
    assert not await desk.is_live(client, tokens["refresh_token"])


@pytest.mark.parametrize("ends", ["person", "session", "origin", "consent"])
async def test_no_transaction_is_long_whatever_ends(both_desks: Any, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    desk = both_desks
    client = await desk.client()
    authentication = Authentication(auth_time=0, amr=("pwd",), acr=None, session_id="s-1")
    await desk.session("s-1")
    await open_families(desk, client.client_id, 5 * BITE, origin=b"code", authentication=authentication)
    families = desk.service.kernel.service(FAMILIES)
    # One for each way, with the scope of a family that does not outlive its session.
    scopes = '["openid"]' if ends == "session" else '["openid","offline_access"]'
    await desk.host.db.write(lambda tx: tx.run(update(t.family).values(scopes=scopes)))
    counts = transactions(desk, monkeypatch)

    match ends:
        case "person":
            await desk.host.db.write(lambda tx: families.revoke_of(tx, subject=ALICE))
        case "session":
            await desk.host.db.write(lambda tx: desk.provider.sessions.end(tx, "s-1", event_type="logout"))
        case "origin":
            await desk.host.db.write(lambda tx: desk.provider.tokens.revoke_origin(tx, b"code"))
        case "consent":
            consents = desk.provider.consents
            order = await desk.host.db.read(lambda tx: tx.one(t.family.select()))
            await desk.host.db.write(lambda tx: remember(consents, tx, order))
            await consents.withdraw(ALICE, client.client_id)

    assert await listed(desk, client) == 0
    await followed(desk)
    assert await live(desk) == 0
    assert max(counts) < STATEMENTS


async def test_a_refresh_that_began_before_the_end_of_its_family_gets_nothing(both_desks: Any, client: Any) -> None:
    desk, families = both_desks, both_desks.provider.families
    await open_families(desk, client.client_id, 2 * BITE)
    order = (t.family.c.expires_at.desc(), t.family.c.id.desc())
    last = (await desk.host.db.read(lambda tx: tx.one(t.family.select().order_by(*order)))).id
    token, family = RefreshToken(node=desk.host.node_id, family=last, generation=1), await families.granted(last)

    with unfollowed():
        await desk.host.db.write(lambda tx: families.revoke_of(tx, subject=ALICE))
        refreshed = await desk.host.db.write(lambda tx: families.rotate(tx, token, family))

    assert refreshed is None


def remember(consents: Any, tx: Any, family: Any) -> None:
    order = CodeOrder(
        client_id=family.client_id, redirect_uri="", subject=family.subject, scopes=tuple(msgspec.json.decode(family.scopes)), auth_time=0
    )
    consents._remember(tx, order, NO_DETAILS, None)


@pytest.mark.parametrize("ends", ["client", "consent"])
async def test_a_code_that_ends_while_it_is_redeemed_gives_nothing(both_desks: Any, ends: str) -> None:
    desk = both_desks
    client = await desk.client()
    code = await desk.code(client)
    consents = desk.provider.consents
    order = SimpleNamespace(client_id=client.client_id, subject=ALICE, scopes='["openid","offline_access"]')
    await desk.host.db.write(lambda tx: remember(consents, tx, order))

    async def end() -> None:
        if ends == "client":
            await desk.provider.clients.delete(client.client_id, by="root")
        else:
            await consents.withdraw(ALICE, client.client_id)

    desk.people.meanwhile = end
    with unfollowed():
        answer = await desk.redeem(client, code)

    assert (answer.status, answer.error) == (400, "invalid_grant")
    await followed(desk)
    assert not await desk.families()


async def test_a_session_leaves_what_may_outlive_it(desk: Any, client: Any) -> None:
    await desk.session("s-1")
    await open_families(desk, client.client_id, 500, authentication=Authentication(auth_time=0, amr=("pwd",), acr=None, session_id="s-1"))

    await desk.host.db.write(lambda tx: desk.provider.sessions.end(tx, "s-1", event_type="logout"))

    assert await listed(desk, client) == 101  # a page, and whether there is a next one
    await followed(desk)
    assert await live(desk) == 500


async def test_what_is_granted_after_the_end_of_all_before_is_good(desk: Any, client: Any) -> None:
    await open_families(desk, client.client_id, 500)
    before = await desk.tokens(client)
    families = desk.service.kernel.service(FAMILIES)

    with unfollowed():
        await desk.host.db.write(lambda tx: families.revoke_of(tx, subject=ALICE))
        desk.clock.advance(1)
        after = await desk.tokens(client)
        assert not await desk.is_live(client, before["access_token"])
        assert await desk.is_live(client, after["access_token"])

    await followed(desk)
    assert not await desk.is_live(client, before["access_token"])
    assert (await desk.refresh(client, after["refresh_token"])).status == 200
    assert (await desk.refresh(client, before["refresh_token"])).status == 400


NAMED = {"client_id": "app", "subject": ALICE, "session_id": "s1", "origin": b"code"}


@pytest.mark.parametrize("name", NAMED)
def test_an_ending_is_of_what_it_names_and_of_nothing_later(name: str) -> None:
    family = SimpleNamespace(**NAMED, is_offline=True, created_at=5)
    ending = Ending(id="1", kind="families", up_to=5, **{name: NAMED[name]})

    assert ending.covers_family(family)
    assert not msgspec.structs.replace(ending, **{name: NAMED[name][:-1]}).covers_family(family)
    assert not msgspec.structs.replace(ending, up_to=4).covers_family(family)


def test_the_end_of_a_session_is_none_of_what_may_outlive_it() -> None:
    family = SimpleNamespace(**NAMED, is_offline=True, created_at=5)
    ending = Ending(id="1", kind="session", up_to=5, session_id="s1")

    assert not ending.covers_family(family)
    family.is_offline = False
    assert ending.covers_family(family)


async def test_what_is_over_is_not_live_while_its_rows_are_there(desk: Any, client: Any) -> None:
    tokens = await desk.tokens(client)
    over = Ending(id="1", kind="consent", up_to=2**62, client_id=client.client_id, subject=ALICE)
    desk.provider.endings.pending[over.id] = over

    assert not await desk.is_live(client, tokens["access_token"])
    assert await desk.provider.tokens.subject(tokens["id_token"], "urn:ietf:params:oauth:token-type:id_token") is None
    assert (await desk.refresh(client, tokens["refresh_token"])).error == "invalid_grant"


async def test_a_family_ends_once_and_outlives_its_session_for_offline_access_alone(desk: Any) -> None:
    granted = Granted(subject=ALICE, client_id="app", scopes=("openid",))
    families = desk.provider.families
    opened = [
        await desk.host.db.write(families.open, one) for one in (granted, msgspec.structs.replace(granted, scopes=("offline_access",)))
    ]

    assert [(await families.granted(one.id)).is_offline for one in opened] == [False, True]
    for ended in (True, False):
        assert await desk.host.db.write(families.revoke, opened[0].id, event_type="token_revoked") is ended
    assert len(await desk.events("token_revoked")) == 1
