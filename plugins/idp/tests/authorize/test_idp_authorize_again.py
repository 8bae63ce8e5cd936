"""What a request may have is decided again whenever it goes on, the last time with the code: its client may have changed meanwhile."""

from urllib.parse import unquote

import pytest

from greatseal.testing.desk import hidden_fields
from greatseal_idp import tables as t
from greatseal_idp.token.endings import Ending

LOST = {
    "the grant": ({"grant_types": ["client_credentials"]}, "unauthorized_client"),
    "the right to ask without /par": ({"require_pushed_authorization_requests": True}, "invalid_request"),
    "its secret, and the request has no challenge": ({"token_endpoint_auth_method": "none", "client_secret": None}, "invalid_request"),
    "every scope of the request": ({"scopes": ["phone"]}, "invalid_scope"),
}
"""What a client may lose while its request waits, and what it is told then."""
BARE = {"code_challenge": None, "code_challenge_method": None}


def return_to_of(asked):
    """Where a request goes on after the sign-in that it leads to."""
    return unquote(asked.location.partition("return_to=")[2])


@pytest.fixture
async def bare_app(open_idp, register_app):
    """A client that may ask without PKCE."""
    desk = await open_idp(oauth={"require_pkce": "public"})
    return await register_app(desk)


@pytest.mark.parametrize(("change", "error"), LOST.values(), ids=LOST)
async def test_what_a_client_lost_while_the_page_was_open_gives_no_code(bare_app, change, error):
    cookie = await bare_app.desk.cookie("alice")
    _, fields = await bare_app.consent_of(cookie, **BARE)
    await bare_app.desk.provider.clients.update(bare_app.client_id, change, by="test")

    assert bare_app.told(await bare_app.decide(cookie, fields))["error"] == error

    assert await bare_app.desk.rows(t.code) == []
    assert await bare_app.desk.rows(t.consent) == []


@pytest.mark.parametrize(("change", "error"), LOST.values(), ids=LOST)
async def test_what_a_client_lost_while_somebody_signed_in_gives_no_code(bare_app, change, error):
    resumed = return_to_of(await bare_app.ask(**BARE))
    await bare_app.desk.provider.clients.update(bare_app.client_id, {**change, "consent": "implicit"}, by="test")

    answer = await bare_app.desk.get(resumed, cookie=await bare_app.desk.cookie("alice"))

    assert bare_app.told(answer)["error"] == error
    assert await bare_app.desk.rows(t.code) == []


async def test_what_a_client_lost_after_it_pushed_a_request_gives_no_code(desk, app, cookie):
    pushed = (await app.push()).json["request_uri"]
    await desk.provider.clients.update(app.client_id, {"grant_types": ["client_credentials"], "consent": "implicit"}, by="test")

    answer = await desk.get(f"/authorize?client_id={app.client_id}&request_uri={pushed}", cookie=cookie)

    assert app.told(answer)["error"] == "unauthorized_client"
    assert await desk.rows(t.code) == []


async def test_a_request_that_was_pushed_may_be_resumed_when_the_client_must_push(desk, app):
    pushed = (await app.push()).json["request_uri"]
    resumed = return_to_of(await desk.get(f"/authorize?client_id={app.client_id}&request_uri={pushed}"))
    await desk.provider.clients.update(app.client_id, {"require_pushed_authorization_requests": True, "consent": "implicit"}, by="test")

    assert app.told(await desk.get(resumed, cookie=await desk.cookie("alice")))["code"]


class Passing:
    """Lets a change commit after the request was decided, before its transaction begins."""

    def __init__(self, database, change):
        self._write = database._write
        self._change = change

    async def __call__(self, fn, args, kwargs):
        change, self._change = self._change, None
        if change is not None and getattr(fn, "__name__", "") == "_issue":
            await change()
        elif change is not None:
            self._change = change
        return await self._write(fn, args, kwargs)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        *((change, (303, error)) for change, error in LOST.values()),
        ({"redirect_uris": ["https://app.example/other"]}, (400, None)),
        (None, (400, None)),
    ],
    ids=[*LOST, "its redirect URI", "its registration"],
)
async def test_what_a_client_loses_at_the_last_moment_is_seen_by_the_transaction(bare_app, monkeypatch, change, outcome):
    desk, clients = bare_app.desk, bare_app.desk.provider.clients
    cookie = await desk.cookie("alice")
    _, fields = await bare_app.consent_of(cookie, **BARE)

    async def lose():
        await (clients.update(bare_app.client_id, change, by="test") if change else clients.delete(bare_app.client_id, by="test"))

    database = desk.service.kernel.store.opened
    monkeypatch.setattr(database, "_write", Passing(database, lose))

    answer = await bare_app.decide(cookie, fields)

    assert (answer.status, bare_app.told(answer)["error"] if answer.status == 303 else None) == outcome
    assert await desk.rows(t.code) == []
    assert await desk.events("consent_granted") == []


async def test_a_consent_that_is_over_allows_nothing_while_its_row_is_there(desk, app, cookie):
    await app.allowed(cookie)
    over = Ending(id="1", kind="client", up_to=2**62, client_id=app.client_id)
    desk.provider.endings.pending[over.id] = over

    assert app.told(await app.ask(cookie, prompt="none"))["error"] == "consent_required"


async def test_a_session_that_ends_at_the_last_moment_gives_no_code(desk, app, cookie, monkeypatch):
    _, fields = await app.consent_of(cookie)

    async def leave():
        assert (await desk.post("/api/auth/logout", cookie=cookie)).status == 204

    monkeypatch.setattr(desk.service.kernel.store.opened, "_write", Passing(desk.service.kernel.store.opened, leave))

    assert app.told(await app.decide(cookie, fields))["error"] == "login_required"
    assert await desk.rows(t.code) == []


async def test_a_consent_that_is_withdrawn_at_the_last_moment_gives_no_code(desk, app, cookie, monkeypatch):
    await app.allowed(cookie)
    account = await desk.get("/account", cookie=cookie)
    form = {**hidden_fields(account, "logout-form"), "client_id": app.client_id}

    async def withdraw():
        assert (await desk.post("/account/withdraw", cookie=cookie, data=form)).status == 303

    database = desk.service.kernel.store.opened
    monkeypatch.setattr(database, "_write", Passing(database, withdraw))

    assert app.told(await app.ask(cookie, prompt="none"))["error"] == "consent_required"
    assert len(await desk.rows(t.code)) == 1, "that of the consent, which is used up"
