"""Another sign-in is another sign-in, whatever the wall clock was set to meanwhile."""

from urllib.parse import unquote

import pytest

from greatseal.testing import FakeClock


@pytest.mark.parametrize("changes", [{"prompt": "login"}, {"max_age": "3600"}, {"prompt": "select_account"}])
async def test_s019_a_sign_in_from_before_the_clock_was_set_back_does_not_do(open_idp, register_app, changes):
    clock = FakeClock(1_800_000_000_000_000)
    desk = await open_idp(clock=clock)
    app = await register_app(desk, consent="implicit")
    cookie = await desk.cookie("alice")
    clock.step(-90)
    back = unquote((await app.ask(cookie, **changes)).location.partition("return_to=")[2])

    assert (await desk.get(back, cookie=cookie)).location.startswith("/ui/auth/login")
    clock.advance(100)
    if "prompt" in changes:
        assert (await desk.get(back, cookie=cookie)).location.startswith("/ui/auth/login"), "it seems to be later than the request now"

    again = (await desk.login("alice", cookie=cookie)).cookie
    assert app.told(await desk.get(back, cookie=again))["code"]


@pytest.mark.parametrize("prompt", ["login", "select_account"])
async def test_s019_a_clock_that_is_set_back_before_the_sign_in_asks_for_one_more(open_idp, register_app, prompt):
    clock = FakeClock(1_800_000_000_000_000)
    desk = await open_idp(clock=clock)
    app = await register_app(desk, consent="implicit")
    place = (await app.ask(prompt=prompt)).location
    clock.step(-3600)

    cookie = await desk.cookie("alice")
    place = (await desk.get(unquote(place.partition("return_to=")[2]), cookie=cookie)).location
    clock.advance(1)
    cookie = (await desk.login("alice", cookie=cookie)).cookie

    assert app.told(await desk.get(unquote(place.partition("return_to=")[2]), cookie=cookie))["code"]
