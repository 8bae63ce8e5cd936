"""Second factors in FreeIPA's schema, by programs that we did not write: oathtool counts, Chromium has passkeys, ldapsearch looks."""

import os
import subprocess
from base64 import b32encode, b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from rig.browser import CHROMIUM, Page
from rig.passkeys import attach
from rig.slapd import REALM, SERVICE, SERVICE_PASSWORD, SUFFIX, WHERE, Slapd

from greatseal.clock import SystemClock
from greatseal.testing import FakeClock
from greatseal.testing.service import Service, document, serve

pytestmark = pytest.mark.asyncio(loop_scope="module")

Program = Callable[[str, str], Path]
SECRET = b32encode(b"12345678901234567890").decode()
"""Of bob's token in the seed."""


@pytest.fixture
def own(make_slapd: Callable[..., object]) -> Iterator[Slapd]:
    with make_slapd() as running:  # type: ignore[attr-defined]
        yield running


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(SystemClock().now())


@pytest_asyncio.fixture(loop_scope="module")
async def service(tmp_path: Path, own: Slapd, clock: FakeClock) -> AsyncIterator[Service]:
    directory = {"ldap_uri": own.uri, "base_dn": SUFFIX, "start_tls": False, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD}
    server = {"realm": REALM, "auth_rate_limit": 0}
    config = document(tmp_path, ["idp", "ipa", "otp", "passkey"], server=server, ipa={**directory, "passkey_rp_id": "localhost"})
    async with serve(config, clock=clock) as service:
        yield service


def seen(own: Slapd, uid: str, *attributes: str) -> str:
    """What OpenLDAP's client shows of a person."""
    command = (
        "ldapsearch",
        "-x",
        "-LLL",
        "-o",
        "ldif-wrap=no",
        "-H",
        f"ldap://127.0.0.1:{own.port}",
        "-D",
        SERVICE,
        "-w",
        SERVICE_PASSWORD,
    )
    whole = (*command, "-b", f"uid={uid},cn=users,cn=accounts,{SUFFIX}", *attributes)
    return subprocess.run(whole, env={"PATH": WHERE}, check=True, capture_output=True, text=True, timeout=60).stdout


def counted(oathtool: Path, clock: FakeClock) -> str:
    """The code that oathtool shows now."""
    command = [str(oathtool), "--base32", "--totp", f"--now=@{clock.now() // 1_000_000}", "-"]
    return subprocess.run(command, input=SECRET, check=True, capture_output=True, text=True).stdout.strip()


async def test_s102_a_code_of_oathtool_for_a_token_of_freeipa_is_good_once(program: Program, service: Service, clock: FakeClock) -> None:
    body = {"username": "bob", "password": "bobpw", "otp_code": counted(program("oathtool", "oathtool"), clock)}

    async with aiohttp.ClientSession() as http:
        statuses = []
        for _ in range(2):
            async with http.post(f"{service.url}/api/auth/otp", json=body) as answer:
                statuses.append(answer.status)

    assert statuses == [200, 401]


@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="the package chromium is not installed")
async def test_idp_236_a_browser_registers_a_passkey_in_the_directory_and_signs_in_with_it(
    service: Service, page: Page, own: Slapd
) -> None:
    device = await attach(page)
    await page.goto(f"{service.url}/ui/auth/login")
    await page.fill("#username", "erin")
    await page.fill("#password", "erinpw")
    await page.click("#sign-in", to=f"{service.url}/account")
    await page.goto(f"{service.url}/account/passkeys")
    await page.click("#add-passkey button", to=f"{service.url}/account/passkeys")
    await device.answers(False)

    (made,) = await device.credentials()
    values = [line.split(": ", 1)[1] for line in seen(own, "erin", "ipapasskey").splitlines() if line.startswith("ipapasskey: ")]
    assert len(values) == 3
    assert any(b64decode(value.removeprefix("passkey:").split(",")[0]) == b64decode(made["credentialId"]) for value in values)

    await page.goto(f"{service.url}/account")
    await page.click("#sign-out", to=f"{service.url}/logout")
    await page.goto(f"{service.url}/ui/auth/login?return_to=/account/passkeys")
    await page.appeared("#with-passkey")
    await device.answers(True)
    await page.click("#use-passkey", to=f"{service.url}/account/passkeys")
    assert "last used" in await page.text()
