"""refresh_token: rotation, replay, grace, and what may not grow."""

import asyncio
import base64
from typing import Any

import pytest
from sqlalchemy import delete, update

from greatseal.api.directory import AccountState
from greatseal.api.services import FAMILIES
from greatseal_idp import tables as t


def refused(answer: Any, error: str = "invalid_grant", status: int = 400) -> bool:
    return (answer.status, answer.error) == (status, error)


async def test_b10_every_use_makes_the_next_token(desk: Any, client: Any) -> None:
    first = await desk.tokens(client)

    second = await desk.refresh(client, first["refresh_token"])
    third = await desk.refresh(client, second.json["refresh_token"])

    assert (second.status, third.status) == (200, 200)
    assert len({first["refresh_token"], second.json["refresh_token"], third.json["refresh_token"]}) == 3
    (family,) = await desk.families()
    assert family.generation == 3
    assert third.json["scope"] == "openid offline_access email"


async def test_core_12_2_the_id_token_of_a_refresh(desk: Any, client: Any) -> None:
    await desk.session("s1")
    tokens = await desk.tokens(client, nonce="n", session_id="s1", acr="gold")
    first = desk.read(tokens["id_token"]).claims
    desk.clock.advance(100)

    later = desk.read((await desk.refresh(client, tokens["refresh_token"])).json["id_token"]).claims

    assert {name: later[name] for name in ("iss", "sub", "aud", "auth_time", "acr", "amr", "sid")} == {
        name: first[name] for name in ("iss", "sub", "aud", "auth_time", "acr", "amr", "sid")
    }
    assert later["iat"] == first["iat"] + 100
    assert "nonce" not in later


@pytest.mark.parametrize("method", ["client_secret_basic", "none"])
async def test_s027_b10_a_replay_ends_the_family(desk: Any, method: str) -> None:
    client = await desk.client(method=method)
    first = await desk.tokens(client)
    second = (await desk.refresh(client, first["refresh_token"])).json

    assert refused(await desk.refresh(client, first["refresh_token"]))

    assert refused(await desk.refresh(client, second["refresh_token"]))
    for tokens in (first, second):
        assert (await desk.userinfo(tokens["access_token"])).status == 401
    (event,) = await desk.events("refresh_replay")
    assert (event.sub, event.client_id, event.outcome) == ("alice@LOCALHOST", client.client_id, "failure")


async def test_s027_fifty_at_once_have_one_success_at_most(both_desks: Any) -> None:
    desk = both_desks
    client = await desk.client(method="none")
    tokens = await desk.tokens(client)

    answers = await asyncio.gather(*(desk.refresh(client, tokens["refresh_token"]) for _ in range(50)))

    (won,) = [answer for answer in answers if answer.status == 200]
    assert all(refused(answer) for answer in answers if answer is not won)
    assert refused(await desk.refresh(client, won.json["refresh_token"]))
    assert (await desk.userinfo(won.json["access_token"])).status == 401
    (family,) = await desk.families()
    assert (family.generation, family.revoked_at is None) == (2, False)
    assert len(await desk.events("refresh_replay")) == 1


async def test_r50_within_the_grace_a_retry_gets_the_very_same_successor(start_desk: Any) -> None:
    desk = await start_desk(tokens={"refresh_grace_seconds": 5})
    client, other = await desk.client(), await desk.client()
    first = (await desk.tokens(client))["refresh_token"]

    answers = await asyncio.gather(*(desk.refresh(client, first) for _ in range(20)))

    assert {answer.status for answer in answers} == {200}
    (second,) = {answer.json["refresh_token"] for answer in answers}
    (family,) = await desk.families()
    assert family.generation == 2
    assert refused(await desk.refresh(other, first))
    third = (await desk.refresh(client, second)).json["refresh_token"]
    assert refused(await desk.refresh(client, first))  # two behind: no retry
    assert refused(await desk.refresh(client, third))


async def test_r50_a_retry_that_asks_for_too_much_is_no_replay(start_desk: Any) -> None:
    desk = await start_desk(tokens={"refresh_grace_seconds": 5})
    client = await desk.client()
    first = (await desk.tokens(client))["refresh_token"]
    second = (await desk.refresh(client, first)).json["refresh_token"]

    assert refused(await desk.refresh(client, first, scope="openid api"), "invalid_scope")
    assert (await desk.refresh(client, second)).status == 200


@pytest.mark.parametrize("grace", [0, 5])
@pytest.mark.parametrize("end", ["revoked_at", "idle_expires_at", "expires_at", None])
async def test_the_row_decides_whatever_memory_says(start_desk: Any, end: str | None, grace: int) -> None:
    desk = await start_desk(tokens={"refresh_grace_seconds": grace})
    client = await desk.client()
    first = (await desk.tokens(client))["refresh_token"]
    second = (await desk.refresh(client, first)).json["refresh_token"]
    await desk.host.db.write(lambda tx: tx.run(delete(t.family) if end is None else update(t.family).values({end: tx.now})))

    for token in (second, first):
        assert refused(await desk.refresh(client, token))
    assert [family.generation for family in await desk.families()] == ([] if end is None else [2])


async def test_r50_after_the_grace_it_is_a_replay(start_desk: Any) -> None:
    desk = await start_desk(tokens={"refresh_grace_seconds": 5})
    client = await desk.client()
    first = (await desk.tokens(client))["refresh_token"]
    second = (await desk.refresh(client, first)).json["refresh_token"]
    desk.clock.advance(5)

    assert refused(await desk.refresh(client, first))
    assert refused(await desk.refresh(client, second))


@pytest.mark.parametrize("grace", [0, 5])
@pytest.mark.parametrize("step", [-90, -1, 90])
async def test_s027_a_replay_is_noticed_whatever_the_clock_does(start_desk: Any, grace: int, step: int) -> None:
    desk = await start_desk(tokens={"refresh_grace_seconds": grace, "refresh_idle_ttl": 60})
    client = await desk.client()
    first = (await desk.tokens(client))["refresh_token"]
    second = (await desk.refresh(client, first)).json["refresh_token"]

    desk.clock.step(step)  # ahead, the family has ended idle

    assert refused(await desk.refresh(client, first))
    desk.clock.step(-step)
    assert refused(await desk.refresh(client, second))
    assert len(await desk.events("refresh_replay")) == 1


async def test_r50_a_retry_within_the_same_instant_gets_the_successor(start_desk: Any) -> None:
    """The clock of the desk stands: both happen at one moment."""
    desk = await start_desk(tokens={"refresh_grace_seconds": 1})
    client = await desk.client()
    first = (await desk.tokens(client))["refresh_token"]

    answers = [await desk.refresh(client, first) for _ in range(2)]

    assert len({answer.json["refresh_token"] for answer in answers}) == 1


async def test_s028_b13_another_client_changes_nothing(desk: Any, client: Any) -> None:
    first = (await desk.tokens(client))["refresh_token"]
    second = (await desk.refresh(client, first)).json["refresh_token"]

    for other in (await desk.client(), await desk.client(method="none")):
        assert refused(await desk.refresh(other, second))
        assert refused(await desk.refresh(other, first))

    assert (await desk.refresh(client, second)).status == 200


async def test_b12_every_flipped_bit_is_invalid_grant(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["refresh_token"]
    kind, node, text = token.split("_", 2)
    content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    for bit in range(len(content) * 8):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        forged = f"{kind}_{node}_{base64.urlsafe_b64encode(changed).rstrip(b'=').decode()}"
        assert refused(await desk.refresh(client, forged)), bit

    assert (await desk.refresh(client, token)).status == 200


@pytest.mark.parametrize(
    "change", [str.upper, lambda x: x[:-1], lambda x: x + "A", lambda x: x.replace("_n1_", "_n2_"), lambda _: "rt_n1_"]
)
async def test_s029_texts_that_are_no_refresh_token(desk: Any, client: Any, change: Any) -> None:
    token = (await desk.tokens(client))["refresh_token"]

    assert refused(await desk.refresh(client, change(token)))
    assert (await desk.refresh(client, token)).status == 200


async def test_s028_b11_scope_may_narrow_and_the_family_keeps_what_it_has(desk: Any, client: Any) -> None:
    tokens = await desk.tokens(client)

    narrow = (await desk.refresh(client, tokens["refresh_token"], scope="openid")).json
    wide = await desk.refresh(client, narrow["refresh_token"])

    assert narrow["scope"] == "openid"
    assert wide.json["scope"] == "openid offline_access email"


async def test_s028_scope_never_widens_and_the_refusal_uses_nothing_up(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["refresh_token"]

    for scope in ("openid api", "api", "groups", "openid directory.read"):
        assert refused(await desk.refresh(client, token, scope=scope), "invalid_scope"), scope

    assert (await desk.refresh(client, token)).status == 200


async def test_s028_scopes_that_the_client_lost_meanwhile(desk: Any, client: Any) -> None:
    tokens = await desk.tokens(client)
    await desk.provider.clients.update(client.client_id, {"scopes": ["openid", "offline_access"]}, by="test")
    narrower = (await desk.refresh(client, tokens["refresh_token"])).json
    await desk.provider.clients.update(client.client_id, {"scopes": ["openid"]}, by="test")

    assert narrower["scope"] == "openid offline_access"
    assert refused(await desk.refresh(client, narrower["refresh_token"]))


NAMED = {"userinfo": {"email": None, "groups": None}, "id_token": {"email": None}}


async def told(desk: Any, tokens: Any) -> Any:
    """The claims that tokens give beside the subject: those of /userinfo and, of NAMED, those of the ID token."""
    given = (await desk.userinfo(tokens["access_token"])).json
    return given.keys() - {"sub"}, desk.read(tokens["id_token"]).claims.keys() & {"email", "groups"}


async def test_grant_checks_are_asked_at_each_use(desk: Any, client: Any) -> None:
    token = (await desk.tokens(client))["refresh_token"]
    desk.people.withheld = frozenset({"email"})

    refreshed = (await desk.refresh(client, token)).json

    assert refreshed["scope"] == "openid offline_access"
    desk.people.withheld = frozenset()
    assert (await desk.refresh(client, refreshed["refresh_token"])).json["scope"] == "openid offline_access email"


async def test_s012_s028_claims_by_name_end_with_the_scope_of_the_client(desk: Any, client: Any) -> None:
    tokens = await desk.tokens(client, scopes=("openid", "offline_access"), implied=("email", "groups"), claims=NAMED)
    assert await told(desk, tokens) == ({"email", "groups"}, {"email"})
    await desk.provider.clients.update(client.client_id, {"scopes": ["openid", "offline_access", "groups"]}, by="test")

    less = (await desk.refresh(client, tokens["refresh_token"])).json

    assert less["scope"] == "openid offline_access"
    assert await told(desk, less) == ({"groups"}, set())
    assert "email" not in desk.read(less["access_token"]).claims["userinfo_claims"]


async def test_rfc_6749_6_a_narrower_scope_has_no_claims_of_others(desk: Any, client: Any) -> None:
    scopes = ("openid", "offline_access", "email")
    tokens = await desk.tokens(client, scopes=scopes, implied=("groups",), claims=NAMED)

    narrow = (await desk.refresh(client, tokens["refresh_token"], scope="openid")).json
    some = (await desk.refresh(client, narrow["refresh_token"], scope="openid email")).json
    whole = (await desk.refresh(client, some["refresh_token"], scope="email openid offline_access")).json

    assert await told(desk, narrow) == (set(), set())
    assert await told(desk, some) == ({"email", "email_verified"}, {"email"})
    assert await told(desk, whole) == ({"email", "email_verified", "groups"}, {"email"})


async def test_a_scope_that_was_deleted_is_in_no_later_token(desk: Any, client: Any) -> None:
    tokens = await desk.tokens(client, scopes=("openid", "offline_access", "api"))
    lone = await desk.code(client, scopes=("api",))
    await desk.provider.scopes.delete("api", by="test")

    assert (await desk.refresh(client, tokens["refresh_token"])).json["scope"] == "openid offline_access"
    assert refused(await desk.redeem(client, lone), "invalid_scope")


@pytest.mark.parametrize("state", ["disabled", "locked", "expired", "password_expired"])
async def test_s028_a_user_who_may_not_sign_in(desk: Any, client: Any, state: str) -> None:
    token = (await desk.tokens(client))["refresh_token"]
    desk.people.change("alice", state=AccountState(**{state: True}))

    assert refused(await desk.refresh(client, token))
    desk.people.change("alice", state=AccountState())
    assert (await desk.refresh(client, token)).status == 200


async def test_idp_113_a_revoked_family_ends_all_its_tokens(desk: Any, client: Any) -> None:
    tokens = await desk.tokens(client)
    (family,) = await desk.families()
    families = desk.service.kernel.service(FAMILIES)

    def revoke(tx: Any) -> Any:
        return families.revoke(tx, family.id, event_type="refresh_family_revoked", by="root@LOCALHOST")

    assert await desk.host.db.write(revoke)
    assert (await desk.userinfo(tokens["access_token"])).status == 401
    assert refused(await desk.refresh(client, tokens["refresh_token"]))
    assert not await desk.host.db.write(revoke)
    (event,) = await desk.events("refresh_family_revoked")
    assert (event.sub, event.client_id, event.principal) == ("alice@LOCALHOST", client.client_id, "root@LOCALHOST")


async def test_revoke_of_matches_every_value_given(desk: Any, client: Any) -> None:
    other = await desk.client()
    for one, who in ((client, "alice@LOCALHOST"), (client, "bob@LOCALHOST"), (other, "alice@LOCALHOST")):
        await desk.session(session := f"s-{one.client_id}-{who}")
        await desk.tokens(one, subject=who, session_id=session)
    families = desk.service.kernel.service(FAMILIES)

    async def revoked(**which: str) -> int:
        """How many more are revoked then."""
        before = sum(family.revoked_at is not None for family in await desk.families())
        await desk.host.db.write(lambda tx: families.revoke_of(tx, **which))
        return sum(family.revoked_at is not None for family in await desk.families()) - before

    assert await revoked(subject="alice@LOCALHOST", client_id=client.client_id) == 1
    assert await revoked(session_id=f"s-{client.client_id}-bob@LOCALHOST") == 1
    assert await revoked(client_id=other.client_id) == 1
    assert await revoked(subject="alice@LOCALHOST") == 0
    with pytest.raises(TypeError):
        await revoked()


async def test_a_family_ends_when_it_is_not_used(start_desk: Any) -> None:
    desk = await start_desk(tokens={"refresh_idle_ttl": 100, "refresh_absolute_ttl": 250})
    client = await desk.client()
    token = (await desk.tokens(client))["refresh_token"]
    for _ in range(2):
        desk.clock.advance(99)
        token = (await desk.refresh(client, token)).json["refresh_token"]
    desk.clock.advance(52)

    assert refused(await desk.refresh(client, token))  # the absolute end, before the idle one
    idle = (await desk.tokens(client))["refresh_token"]
    desk.clock.advance(100)
    assert not await desk.is_live(client, idle)
    assert refused(await desk.refresh(client, idle))
    assert not await desk.events("refresh_replay")


async def test_tokens_outlive_a_restart(start_desk: Any, fresh_database: Any, tmp_path: Any) -> None:
    database = {"url": fresh_database()}
    cluster = {"key_file": str(tmp_path / "kept.key")}
    desk = await start_desk(database=database, cluster=cluster)
    client = await desk.client()
    token = (await desk.tokens(client))["refresh_token"]

    await desk.service.stop()
    again = await start_desk(database=database, cluster=cluster)
    again._secrets = desk._secrets

    assert (await again.refresh(client, token)).status == 200


async def test_a_refresh_is_one_write(desk: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    token = (await desk.tokens(client))["refresh_token"]
    database = desk.service.kernel.store.opened
    write, writes = database._write, []

    def counted(*given: Any) -> Any:
        writes.append(given)
        return write(*given)

    monkeypatch.setattr(database, "_write", counted)

    assert (await desk.refresh(client, token)).status == 200
    assert len(writes) == 1


async def test_a_refresh_reads_no_row(desk: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    token = (await desk.refresh(client, (await desk.tokens(client))["refresh_token"])).json["refresh_token"]
    monkeypatch.setattr(desk.service.kernel.store.opened, "_read", None)

    assert (await desk.refresh(client, token)).status == 200


async def test_a_replay_ends_the_family_whatever_else_is_wrong(desk: Any, client: Any) -> None:
    first = (await desk.tokens(client))["refresh_token"]
    second = (await desk.refresh(client, first)).json["refresh_token"]
    desk.people.change("alice", state=AccountState(disabled=True))

    assert refused(await desk.refresh(client, first, scope="api"))

    desk.people.change("alice", state=AccountState())
    assert refused(await desk.refresh(client, second))
    assert len(await desk.events("refresh_replay")) == 1


async def test_i6_a_rotation_of_the_cluster_key_leaves_families_alone(start_desk: Any, fresh_database: Any, tmp_path: Any) -> None:
    sections = {"database": {"url": fresh_database()}, "cluster": {"key_file": str(tmp_path / "kept.key")}}
    desk = await start_desk(**sections)
    client = await desk.client()
    token = (await desk.tokens(client))["refresh_token"]

    await desk.host.keys.rotate_cluster_key()
    token = (await desk.refresh(client, token)).json["refresh_token"]
    await desk.service.stop()
    again = await start_desk(**sections)
    again._secrets = desk._secrets

    assert (await again.refresh(client, token)).status == 200
