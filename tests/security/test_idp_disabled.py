"""Who was disabled is out everywhere: each way to sign in, and whatever came of a sign-in before.

People of the users file and of PAM are out at the next request, those of a directory when its answers are too old (`[ipa] cache_secs`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
import tomlkit
from rig.pam import Stack
from rig.people import CHEAP
from rig.slapd import SERVICE, SERVICE_PASSWORD, SUFFIX
from rig.softkeys import SoftKey
from security.idp_desk import BROWSER, PASSWORD
from security.idp_federation import ACCOUNTS, Federation, open_federation
from security.idp_otp import App
from security.idp_passkeys import API, Passkeys

from greatseal.testing.desk import Answer, hidden_fields, told
from greatseal_users_file.edit import write

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILE = "LOCALHOST"
CACHE_SECS = 5
PEOPLE = ("lea", "otto", "dee", "kay", "fay", "pam")
"""Of the users file, by what they sign in with; the password of pam is at PAM."""


@dataclass
class House:
    """A service with every way to sign in."""

    opened: Federation
    slapd: Any
    keys: dict[str, SoftKey] = field(default_factory=dict)
    apps: dict[str, App] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)

    @property
    def desk(self) -> Any:
        return self.opened.desk

    def in_file(self, username: str, **fields: Any) -> None:
        """Give somebody of the users file these fields."""
        path = self.desk.folder / "users.toml"
        document = tomlkit.parse(path.read_text())
        next(user for user in document["user"] if user["username"] == username).update(fields)
        write(path, tomlkit.dumps(document))

    # ---- how people sign in

    async def by_password(self, name: str) -> Answer:
        answer: Answer = await self.desk.login(name, "erinpw" if name == "erin" else PASSWORD)
        return answer

    async def by_code(self, name: str) -> Answer:
        self.desk.clock.step(30)
        return await self.apps[name].sign_in()

    async def by_device(self, name: str) -> Answer:
        answer: Answer = await self.desk.login(name, PASSWORD, cookie=self.devices[name])
        return answer

    async def by_passkey(self, name: str) -> Answer:
        return await Passkeys(self.desk).sign_in(self.keys[name])

    async def elsewhere(self, name: str) -> Answer:
        self.opened.stub.claims = {"sub": f"{name}-1", "name": name}
        return await self.opened.sign_in("/account")

    # ---- how they are disabled

    async def disable_in_file(self, name: str) -> None:
        self.in_file(name, enabled=False)

    async def disable_in_directory(self, name: str) -> None:
        self.slapd.replace(name, "nsAccountLock", "TRUE")
        self.desk.clock.advance(CACHE_SECS)

    async def disable_account(self, name: str) -> None:
        listed = (await self.desk.get(ACCOUNTS, cookie=self.desk.admin)).json
        (id,) = [one["id"] for one in listed if one["upstream_sub"] == f"{name}-1"]
        assert (await self.desk.ask("PUT", f"{ACCOUNTS}/{id}", cookie=self.desk.admin, json={"disabled": True})).status < 300


Step = Callable[[House, str], Awaitable[Any]]
WAYS: dict[str, tuple[str, Step, Step]] = {
    "a password of the users file": ("lea", House.by_password, House.disable_in_file),
    "a one-time code": ("otto", House.by_code, House.disable_in_file),
    "a remembered device": ("dee", House.by_device, House.disable_in_file),
    "a passkey": ("kay", House.by_passkey, House.disable_in_file),
    "PAM": ("pam", House.by_password, House.disable_in_file),
    "a linked account elsewhere": ("fay", House.elsewhere, House.disable_in_file),
    "LDAP": ("erin", House.by_password, House.disable_in_directory),
    "an account elsewhere": ("ada", House.elsewhere, House.disable_account),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(make_slapd: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("disabled")
    stack = Stack(folder / "pam.d").people(pam=PASSWORD).say()
    with make_slapd() as slapd:
        ipa = {"ldap_uri": slapd.uri, "base_dn": SUFFIX, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD, "start_tls": False}
        sections: dict[str, Any] = {
            "ipa": {**ipa, "cache_secs": CACHE_SECS},
            "passkey": {"rp_id": "localhost"},
            "otp": {"remember_days": 30},
            "pam": {**stack.settings, "accounts": False},
            "server": {"realm": FILE},
        }
        table = {"realm": "PARTNER.EXAMPLE", "username_claim": "name"}
        async with open_federation(folder, features=("ipa", "pam", "passkey", "otp"), table=table, **sections) as opened:
            made = House(opened, slapd)
            await furnish(made)
            yield made


async def furnish(house: House) -> None:
    """People, and what they sign in with."""
    desk, path = house.desk, house.desk.folder / "users.toml"
    document = tomlkit.parse(path.read_text())
    for name in PEOPLE:
        document["user"].append({"username": name, **({} if name == "pam" else {"password": CHEAP.hash(PASSWORD)})})
    write(path, tomlkit.dumps(document))
    for name in ("otto", "dee"):
        app = house.apps[name] = App(desk, name, await desk.cookie(name))
        await app.scan()
        assert (await app.confirm()).status == 204
    remembered = await house.apps["dee"].sign_in(remember=True)
    (house.devices["dee"],) = [one.partition(";")[0] for one in remembered.cookies if "greatseal_device=" in one]
    house.keys["kay"] = SoftKey()
    await Passkeys(desk).register(await desk.cookie("kay"), house.keys["kay"])
    await house.opened.link("fay", "fay-1")


async def outcomes(house: House, cookie: str, tokens: Any, code: str) -> dict[str, Any]:
    """What is left of a session and its tokens."""
    desk = house.desk
    asked = await desk.authorize(cookie)
    silent = await desk.authorize(cookie, prompt="none")
    pages = {
        path: await desk.get(f"/account{path}", cookie=cookie, headers=BROWSER) for path in ("", "/codes", "/passkeys", "/connections")
    }
    return {
        "me": (await desk.get("/api/auth/me", cookie=cookie)).status,
        "profile": (await desk.get("/api/auth/profile", cookie=cookie)).status,
        "pages": {path: page.status for path, page in pages.items()},
        "passkey": (await desk.post(f"{API}/register/begin", cookie=cookie, json={})).status,
        "app": (await desk.post("/api/me/otp-tokens", cookie=cookie, json={"label": "x"})).status,
        "a code": "code" in asked.location or "code" in silent.location,
        "the code before": (await desk.redeem(code)).error,
        "refresh": (await desk.refresh(tokens["refresh_token"])).error,
        "userinfo": (await desk.userinfo(tokens["access_token"])).status,
        "introspection": [(await desk.introspect(tokens[name]))["active"] for name in ("access_token", "refresh_token")],
    }


@pytest.mark.parametrize("way", WAYS)
async def test_who_was_disabled_is_out_everywhere(house: House, way: str) -> None:
    name, sign_in, disable = WAYS[way]
    desk = house.desk
    first = await sign_in(house, name)
    cookie = first.cookie
    tokens, code = await desk.tokens(cookie), await desk.code(cookie)
    assert (await desk.get("/api/auth/me", cookie=cookie)).status == 200
    assert (await desk.introspect(tokens["access_token"]))["active"]

    await disable(house, name)

    again = await sign_in(house, name)
    found = await outcomes(house, cookie, tokens, code)
    assert (again.status in {401, 403}, [one for one in again.cookies if "greatseal_session=" in one]) == (True, []), again.text
    assert not found.pop("a code")
    assert (found.pop("userinfo"), found.pop("introspection")) == (401, [False, False])
    assert {found.pop("refresh"), found.pop("the code before")} == {"invalid_grant"}
    pages = found.pop("pages")
    # The session of an account elsewhere ends with it; every other one is good for signing out.
    ended = way == "an account elsewhere"
    assert set(found.values()) == ({401} if ended else {403}), found
    assert set(pages.values()) <= ({302, 303} if ended else {403}), pages
    assert (await desk.post("/api/auth/logout", cookie=cookie)).status == (401 if ended else 204)


async def test_who_is_disabled_signs_in_as_somebody_else_in_the_same_browser(house: House) -> None:
    """The session is in the way of nobody."""
    desk = house.desk
    house.in_file("ben", enabled=True)
    cookie = await desk.cookie("ben")
    house.in_file("ben", enabled=False)

    page = await desk.get("/ui/auth/login", cookie=cookie, headers=BROWSER)
    form = {**hidden_fields(page, "login-form"), "username": "ann", "password": PASSWORD}
    jar = "; ".join([cookie, *(one.partition(";")[0] for one in page.cookies)])
    done = await desk.post("/login", data=form, cookie=jar, headers=BROWSER)
    started = await house.opened.start("/account", cookie=cookie)
    out = await desk.get("/logout", cookie=cookie, headers=BROWSER)

    assert (done.status, (await desk.get("/api/auth/me", cookie=done.cookie)).json["sub"]) == (303, f"ann@{FILE}")
    assert (started.status, out.status) == (303, 200)


@pytest.mark.parametrize("prompt", [None, "login", "select_account"])
async def test_an_application_is_not_refused_for_who_was_disabled_at_the_browser(house: House, prompt: str | None) -> None:
    """Whoever sits there now is asked to sign in; to the application it is as if nobody were."""
    desk = house.desk
    house.in_file("ben", enabled=True)
    cookie = await desk.cookie("ben")
    house.in_file("ben", enabled=False)

    silent = await desk.authorize(cookie, prompt="none")
    asked = await desk.authorize(cookie, prompt=prompt)
    assert (told(silent)["error"], asked.location.partition("?")[0]) == ("login_required", "/ui/auth/login")
    page = await desk.get(asked.location, cookie=cookie, headers=BROWSER)
    jar = "; ".join([cookie, *(one.partition(";")[0] for one in page.cookies)])
    form = {**hidden_fields(page, "login-form"), "password": PASSWORD}
    refused = await desk.post("/login", data={**form, "username": "ben"}, cookie=jar, headers=BROWSER)
    done = await desk.post("/login", data={**form, "username": "ann"}, cookie=jar, headers=BROWSER)
    answered = await desk.get(done.location, cookie=done.cookie)

    assert (refused.status, "greatseal_session=" in "".join(refused.cookies)) == (403, False)
    tokens = (await desk.redeem(told(answered)["code"])).json
    assert (await desk.userinfo(tokens["access_token"])).json["sub"] == f"ann@{FILE}"


async def test_the_page_that_tells_of_the_disabled_account_has_the_way_out(house: House) -> None:
    desk = house.desk
    house.in_file("ben", enabled=True)
    cookie = await desk.cookie("ben")
    assert 'id="leave"' not in (await desk.get("/ui/auth/nothing", cookie=cookie, headers=BROWSER)).text
    house.in_file("ben", enabled=False)

    refused = await desk.get("/account", cookie=cookie, headers={**BROWSER, "Accept-Language": "de"})
    assert (refused.status, '<a class="button" id="leave" href="/logout">Abmelden</a>' in refused.text) == (403, True)
    page = await desk.get("/logout", cookie=cookie, headers=BROWSER)
    jar = "; ".join([cookie, *(one.partition(";")[0] for one in page.cookies)])
    out = await desk.post("/logout", data={**hidden_fields(page, "logout-form"), "confirm": "yes"}, cookie=jar, headers=BROWSER)

    assert out.status == 200
    assert (await desk.get("/api/auth/me", cookie=cookie)).status == 401
