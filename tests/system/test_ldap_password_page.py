"""An expired password from the sign-in page to the session, as a browser without scripts goes: a service over slapd with its policy."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest
from rig.forms import forms_of
from rig.slapd import OPENLDAP, REALM, SERVICE, SERVICE_PASSWORD, SUFFIX, Slapd

from greatseal.testing.desk import Answer, Desk, forgetful
from greatseal.testing.plugin import StartService

PEOPLE, POLICY = f"ou=people,{SUFFIX}", f"cn=policy,cn=etc,{SUFFIX}"
PAGE, CHANGE = "/ui/auth/login", "/login/change-password"
NEW = "carol's new one"


@pytest.fixture(scope="module")
def openldap(make_slapd: Any) -> Iterator[Slapd]:
    with make_slapd(**OPENLDAP) as slapd:
        yield slapd


@pytest.fixture
async def desk(start_service: StartService, openldap: Slapd) -> AsyncIterator[Desk]:
    """Its client keeps cookies, and nothing else."""
    directory = {"ldap_uri": openldap.uri, "base_dn": SUFFIX, "start_tls": False, "schema": "openldap", "cache_secs": 0}
    directory |= {"bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD}
    service = await start_service("idp", "ipa", server={"realm": REALM, "auth_rate_limit": 0}, ipa=directory)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        yield Desk(service, browser)


def change(openldap: Slapd, dn: str, **values: str) -> None:
    for name, value in values.items():
        line = f"{name}: {value}\n" if value else ""
        openldap.modify(f"dn: {dn}\nchangetype: modify\nreplace: {name}\n{line}-\n")


async def signed_in(desk: Desk, password: str) -> Answer:
    """Carol fills in the sign-in page."""
    form = forms_of((await desk.get(f"{PAGE}?return_to=%2Faccount%3Fx%3D1")).text)["login-form"]
    return await desk.post(form.action, data={**form.fields, "username": "carol", "password": password})


async def changed(desk: Desk, page: Answer, old: str, new: str) -> Answer:
    form = forms_of(page.text)["change-password-form"]
    fields = {"old_password": old, "new_password": new, "new_password_again": new}
    return await desk.post(form.action, data={**form.fields, **fields})


async def programs(desk: Desk, password: str) -> int:
    """What the JSON form of the sign-in says."""
    async with forgetful() as http:
        return (await Desk(desk.service, http).login("carol", password)).status


async def changes_it(desk: Desk) -> None:
    expired = await signed_in(desk, "carolpw")
    assert (expired.status, expired.location.partition("?")[0]) == (303, CHANGE), expired.text
    assert "greatseal_session" not in str(expired.cookies)
    page = await desk.get(expired.location)
    assert page.status == 200
    assert "Your password has expired, <strong>carol</strong>" in page.text

    wrong = await changed(desk, page, "not carol's", NEW)
    assert (wrong.status, "The old password is wrong." in wrong.text) == (401, True)
    refused = await changed(desk, wrong, "carolpw", "abc")
    assert refused.status == 400
    assert "The directory refused the new password: Password fails quality checking policy" in refused.text
    assert "greatseal_session" not in f"{wrong.cookies}{refused.cookies}"

    done = await changed(desk, refused, "carolpw", NEW)

    assert (done.status, done.location) == (303, "/account?x=1"), done.text
    me = (await desk.get("/api/auth/me")).json
    assert (me["sub"], me["amr"]) == (f"carol@{REALM}", ["pwd"])
    assert [event.sub for event in await desk.events("password_changed")] == [f"carol@{REALM}"]


async def test_r114_a_password_that_an_administrator_reset_is_changed_on_the_page(desk: Desk, openldap: Slapd) -> None:
    change(openldap, f"uid=carol,{PEOPLE}", userPassword="carolpw", pwdReset="TRUE")

    await changes_it(desk)

    assert [await programs(desk, password) for password in (NEW, "carolpw")] == [200, 401]
    gone = await desk.get(CHANGE)
    assert (gone.status, gone.location) == (303, PAGE)


async def test_r114_a_password_that_is_too_old_is_changed_by_a_grace_login(desk: Desk, openldap: Slapd) -> None:
    change(openldap, f"uid=carol,{PEOPLE}", userPassword="carolpw", pwdReset="")
    change(openldap, POLICY, pwdMaxAge="1", pwdGraceAuthNLimit="20")
    try:
        while await programs(desk, "carolpw") == 200:
            pass
        await changes_it(desk)
    finally:
        change(openldap, POLICY, pwdMaxAge="0", pwdGraceAuthNLimit="")
    assert [await programs(desk, password) for password in (NEW, "carolpw")] == [200, 401]


async def test_who_is_signed_in_changes_it_at_any_time(desk: Desk, openldap: Slapd) -> None:
    change(openldap, f"uid=carol,{PEOPLE}", userPassword="carolpw", pwdReset="")
    assert (await signed_in(desk, "carolpw")).status == 303
    page = await desk.get("/account/password")
    form = forms_of(page.text)["own-password-form"]
    typed = {"new_password": NEW, "new_password_again": NEW}

    wrong = await desk.post(form.action, data={**form.fields, **typed, "old_password": "not carol's"})
    done = await desk.post(form.action, data={**form.fields, **typed, "old_password": "carolpw"})

    assert (wrong.status, done.status, done.location) == (401, 303, "/account"), done.text
    assert (await desk.get("/api/auth/me")).json["sub"] == f"carol@{REALM}"
    assert [await programs(desk, password) for password in (NEW, "carolpw")] == [200, 401]
