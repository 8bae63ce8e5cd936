"""PostgreSQL has no NUL in a text: a request with one is refused, never a fault."""

from typing import Any

import pytest

from greatseal.api.problems import BadRequest


@pytest.mark.parametrize("name", ["nonce", "state", "login_hint", "claims", "scope", "id_token_hint", "redirect_uri", "client_id"])
async def test_a_nul_is_no_fault(open_idp: Any, register_app: Any, database_url: str, name: str) -> None:
    desk = await open_idp(database={"url": database_url})
    app = await register_app(desk, consent="implicit")
    cookie = await desk.cookie("alice")

    for value in ("a\0b", "\0"):
        answers = [await app.ask(cookie, **{name: value}), await app.push(**{name: value})]

        assert all(answer.status < 500 and "server_error" not in answer.headers.get("Location", "") for answer in answers)


async def test_a_nul_in_the_description_of_a_scope_is_refused(open_idp: Any, database_url: str) -> None:
    desk = await open_idp(database={"url": database_url})

    with pytest.raises(BadRequest):
        await desk.provider.scopes.put("payroll", "a\0b", (), by="test")
