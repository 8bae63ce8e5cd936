"""One-time codes by programs that we did not write: oathtool counts them, and a person uses the pages in Chromium."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from rig.browser import CHROMIUM, CONTRAST, Browser, Page

from greatseal.api.otp import TokenKey
from greatseal.clock import SystemClock
from greatseal.testing import FakeClock
from greatseal.testing.service import Service, document, serve
from greatseal_otp.arithmetic import matching, spelt
from greatseal_users_file.edit import add

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD = "correct horse battery"
STEP = 30
Program = Callable[[str, str], Path]


def counted(oathtool: Path, secret: str, second: int, *options: str) -> str:
    """The code that oathtool shows at that second."""
    return asked(oathtool, secret, *(options or ("--totp",)), f"--now=@{second}")


def asked(oathtool: Path, secret: str, *options: str) -> str:
    """What oathtool prints about a key that it is given where nobody else sees it."""
    result = subprocess.run([str(oathtool), "--base32", *options, "-"], input=secret, capture_output=True, text=True, check=True)
    return result.stdout.strip()


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("digits", [6, 8])
async def test_oathtool_counts_as_we_do(program: Program, algorithm: str, digits: int) -> None:
    oathtool = program("oathtool", "oathtool")
    for second in (0, 59, 1_111_111_109, 2_000_000_000, 20_000_000_000):
        secret = bytes(range(second % 7, second % 7 + 35))
        key = TokenKey(token_id="t", type="totp", key=secret, algorithm=algorithm, digits=digits)  # type: ignore[arg-type]
        code = counted(oathtool, spelt(secret), second, f"--totp={algorithm}", f"--digits={digits}")
        assert matching(key, code, second * 1_000_000) == second // STEP


async def test_oathtool_counts_events_as_we_do(program: Program) -> None:
    oathtool = program("oathtool", "oathtool")
    key = TokenKey(token_id="t", type="hotp", key=b"12345678901234567890", algorithm="sha1", digits=6, counter=100)
    for counter in range(100, 110):
        assert matching(key, asked(oathtool, spelt(key.key), "--hotp", f"--counter={counter}"), 0) == counter


# ---- The pages


browsers = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="the package chromium is not installed")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(SystemClock().now())


@pytest_asyncio.fixture(loop_scope="module")
async def service(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Service]:
    add(tmp_path / "users.toml", "ada", PASSWORD, display_name="Ada Example")
    add(tmp_path / "users.toml", "ben", PASSWORD, groups=("staff",))
    otp = {"required_groups": ["staff"], "remember_days": 30}
    config = document(tmp_path, ["idp", "users-file", "otp"], users={"file": str(tmp_path / "users.toml")}, otp=otp)
    async with serve(config, clock=clock) as service:
        yield service


class Person:
    """Ada, with a phone on which oathtool runs."""

    def __init__(self, page: Page, service: Service, clock: FakeClock, oathtool: Path) -> None:
        self.page = page
        self.url = service.url
        self.clock = clock
        self.oathtool = oathtool
        self.secret = ""

    async def password(self, to: str, username: str = "ada") -> None:
        await self.page.fill("#username", username)
        await self.page.fill("#password", PASSWORD)
        await self.page.click("#sign-in", to=f"{self.url}{to}")

    async def scan(self, label: str = "My phone") -> None:
        """Add an app by the link that the QR code has too."""
        await self.page.fill("#label", label)
        await self.page.click("#add", to=f"{self.url}/account/codes/add")
        uri = await self.page.run("document.querySelector('#open').href")
        (self.secret,) = parse_qs(urlsplit(uri).query)["secret"]

    def code(self) -> str:
        return counted(self.oathtool, self.secret, self.clock.now() // 1_000_000)

    async def enter(self, code: str, button: str, to: str) -> None:
        await self.page.fill("#code", code)
        await self.page.click(button, to=f"{self.url}{to}")


@pytest_asyncio.fixture(loop_scope="module")
async def person(program: Program, page: Page, service: Service, clock: FakeClock) -> Person:
    made = Person(page, service, clock, program("oathtool", "oathtool"))
    await page.goto(f"{service.url}/account/codes", to=f"{service.url}/ui/auth/login")
    await made.password("/account/codes")
    return made


@browsers
async def test_a_person_adds_an_app_and_signs_in_with_its_code(person: Person) -> None:
    page, url = person.page, person.url
    await person.scan()
    assert await page.run("document.querySelector('#qr svg').getBoundingClientRect().width") > 150
    assert spelt_like(await page.run("document.querySelector('#key').innerText")) == person.secret

    await person.enter("000000", "#confirm", "/account/codes/confirm")
    assert "not in use yet" in await page.text()
    assert person.secret not in await page.run("document.documentElement.outerHTML")
    await page.focused("code")
    await person.enter(person.code(), "#confirm", "/account/codes/confirm")

    recovery = (await page.run("[...document.querySelectorAll('#codes li')].map(one => one.innerText).join(' ')")).split(" ")
    assert len(recovery) == 10
    await page.click("#done", to=f"{url}/account/codes")
    assert "10 of your recovery codes are left" in await page.text()
    await page.goto(f"{url}/logout")
    await page.click("#sign-out", to=f"{url}/logout")
    person.clock.step(STEP)
    await page.goto(f"{url}/ui/auth/login")
    await person.password("/login")
    assert "Enter your code" in await page.text()
    await person.enter(person.code(), "#sign-in", "/account")
    assert "ada@LOCALHOST" in await page.text()
    assert page.complaints == []


@browsers
async def test_a_person_without_the_phone_uses_a_recovery_code_and_deletes_it(person: Person) -> None:
    page, url = person.page, person.url
    await person.scan("Lost phone")
    await person.enter(person.code(), "#confirm", "/account/codes/confirm")
    recovery = await page.run("document.querySelector('#codes li').innerText")
    await page.goto(f"{url}/ui/auth/login?return_to=/account/codes")
    await person.password("/login")
    await person.enter(recovery, "#sign-in", "/account/codes")

    assert "9 of your recovery codes are left" in await page.text()
    await page.click("#tokens button", to=f"{url}/account/codes")

    assert "None yet." in await page.text()
    await page.goto(f"{url}/ui/auth/login")
    await person.password("/account")
    assert page.complaints == []


@browsers
async def test_after_a_while_the_page_leads_to_a_new_sign_in(person: Person) -> None:
    page, url = person.page, person.url
    person.clock.step(20 * 60)

    await page.goto(f"{url}/account/codes")

    assert await page.run("document.querySelector('#add')") is None
    await page.click("#again", to=f"{url}/ui/auth/login")
    await person.password("/account/codes")
    assert await page.run("document.querySelector('#add') !== null")


@browsers
async def test_every_field_has_its_label_and_nothing_is_wider_than_the_window(person: Person) -> None:
    page = person.page
    await page.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=False)
    await person.scan("x" * 64)
    labelled = "[...document.querySelectorAll('input:not([type=hidden])')].every(field => field.labels.length === 1)"
    fits = "document.documentElement.scrollWidth <= 360"

    assert await page.run(labelled)
    assert await page.run(fits)
    await page.goto(f"{person.url}/account/codes")
    assert await page.run(labelled)
    assert await page.run(fits)


@browsers
async def test_who_must_have_a_second_factor_gets_one_at_the_sign_in_and_may_be_remembered(person: Person, browser: Browser) -> None:
    person.page = page = await browser.page(width=360, height=700)
    url = person.url
    labelled = "[...document.querySelectorAll('input:not([type=hidden])')].every(field => field.labels.length === 1)"

    async def looked_at() -> None:
        assert await page.run(labelled)
        assert await page.run("document.documentElement.scrollWidth <= 360")
        assert await page.run(CONTRAST) == []

    await page.goto(f"{url}/ui/auth/login?return_to=/account/codes")
    await person.password("/login/enrol/codes", "ben")
    await looked_at()
    await page.click("#add", to=f"{url}/login/enrol/codes/add")
    (person.secret,) = parse_qs(urlsplit(await page.run("document.querySelector('#open').href")).query)["secret"]
    await person.enter(person.code(), "#confirm", "/login/enrol/codes/confirm")
    await looked_at()
    await page.click("#done", to=f"{url}/account/codes")
    await page.goto(f"{url}/logout")
    await page.click("#sign-out", to=f"{url}/logout")
    person.clock.step(STEP)
    await page.goto(f"{url}/ui/auth/login")
    await person.password("/login", "ben")
    await looked_at()
    await page.run("document.querySelector('#remember').click()")
    await person.enter(person.code(), "#sign-in", "/account")
    await page.goto(f"{url}/logout")
    await page.click("#sign-out", to=f"{url}/logout")
    person.clock.step(STEP)

    await page.goto(f"{url}/ui/auth/login?return_to=/account/codes")
    await person.password("/account/codes", "ben")

    assert "Chrome on Linux" in await page.text()
    await page.click("#prove", to=f"{url}/ui/auth/step-up")
    await looked_at()
    await person.enter(person.code(), "#prove", "/account/codes")
    await page.click("#devices button", to=f"{url}/account/codes")
    assert await page.run("document.querySelector('#devices')") is None
    assert page.complaints == []
    await page.close()


def spelt_like(shown: str) -> str:
    return shown.replace(" ", "")
