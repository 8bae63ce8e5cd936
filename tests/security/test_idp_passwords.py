"""What a new password ends, with the command that sets it: S064."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from security.idp_desk import PASSWORD, Desk, open_desk

from greatseal.testing.desk import Answer
from greatseal_users_file.command import users

NEW = "battery staple horse"
DEAD = (400, "invalid_grant")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as desk:
        desk.clock.step(-2)  # or both could happen within the second that an access token names
        yield desk


def run_users(desk: Desk, command: str, name: str, password: str) -> None:
    """``greatseal users``, while the server runs. Its clock stood still since the start, so what follows is earlier."""
    config = desk.folder / "users-command.toml"
    config.write_text(f'[users]\nfile = "{desk.folder / "users.toml"}"\n')
    result = CliRunner().invoke(users, [command, "-c", str(config), name], input=f"{password}\n")
    assert result.exit_code == 0, result.output


async def sign_in(desk: Desk, name: str, password: str) -> Answer:
    return await desk.ask("POST", "/api/auth/login", json={"username": name, "password": password})


def session_of(answer: Answer) -> str:
    return next(one.partition(";")[0] for one in answer.cookies if "session" in one)


async def is_live(desk: Desk, cookie: str) -> bool:
    answer = await desk.ask("GET", "/api/auth/me", cookie=cookie)
    assert answer.status == 200 or answer.outcome == (401, "unauthenticated")
    return answer.status == 200


async def test_s064_a_new_password_ends_the_sessions_and_refresh_tokens_of_before(desk: Desk) -> None:
    ann, elsewhere, ben = [await desk.cookie(name) for name in ("ann", "ann", "ben")]
    tokens, code, tokens_of_ben = await desk.tokens(ann), await desk.code(ann), await desk.tokens(ben)
    assert await is_live(desk, ann)

    run_users(desk, "passwd", "ann", NEW)

    assert [await is_live(desk, one) for one in (ann, elsewhere, ben)] == [False, False, True]
    assert (await desk.authorize(ann)).location.startswith("/ui/auth/login")
    assert (await desk.refresh(tokens["refresh_token"])).outcome == DEAD
    assert (await desk.redeem(code)).outcome == DEAD
    assert (await desk.userinfo(tokens["access_token"])).status == 401
    assert (await desk.refresh(tokens_of_ben["refresh_token"])).status == 200
    assert (await desk.userinfo(tokens_of_ben["access_token"])).status == 200

    assert (await sign_in(desk, "ann", PASSWORD)).status == 401
    new = session_of(await sign_in(desk, "ann", NEW))
    fresh = await desk.tokens(new)
    assert await is_live(desk, new)
    assert (await desk.refresh(fresh["refresh_token"])).status == 200
    assert (await desk.userinfo(fresh["access_token"])).status == 200
    assert not await is_live(desk, ann)
    assert (await desk.refresh(tokens["refresh_token"])).outcome == DEAD


async def test_s064_somebody_else_under_an_old_name_gets_nothing_of_the_one_before(desk: Desk) -> None:
    old = await desk.cookie("ann")
    tokens = await desk.tokens(old)
    file = desk.folder / "users.toml"
    everybody = file.read_text()
    start = everybody.index('[[user]]\nusername = "ann"')
    file.write_text(everybody[:start] + everybody[everybody.index("[[user]]", start + 1) :])

    run_users(desk, "add", "ann", NEW)

    assert not await is_live(desk, old)
    assert (await desk.refresh(tokens["refresh_token"])).outcome == DEAD
    assert await is_live(desk, session_of(await sign_in(desk, "ann", NEW)))
