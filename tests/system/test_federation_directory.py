"""Providers that the directory names: people of the type idp sign in there, and administrators say what that counts for."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.slapd import REALM, SERVICE, SERVICE_PASSWORD, SUFFIX, Slapd
from rig.upstream import SECRET, request_of
from security.idp_federation import BROWSER, Federation, open_federation

IDPS = "/api/admin/federation/ipa-idps"
KEYCLOAK = f"cn=keycloak,cn=idp,{SUFFIX}"
GITHUB = f"cn=GitHub Corp,cn=idp,{SUFFIX}"


def provider(slapd: Slapd, dn: str, **attributes: str) -> None:
    changes = "-\n".join(f"replace: {name}\n{name}: {value}\n" for name, value in attributes.items())
    slapd.modify(f"dn: {dn}\nchangetype: modify\n{changes}")


async def read_again(opened: Federation) -> None:
    ipa: Any = opened.desk.service.kernel.hooks.instances["ipa"]
    await ipa._assembly.upstreams.refresh()


@asynccontextmanager
async def beside(slapd: Slapd, folder: Path, *, gssapi: bool = True, **sections: Any) -> AsyncIterator[Federation]:
    """A service beside a directory whose provider ``keycloak`` is the stub."""
    ipa = {
        "ldap_uri": slapd.uri,
        "base_dn": SUFFIX,
        "bind_dn": SERVICE,
        "bind_password": SERVICE_PASSWORD,
        "start_tls": False,
        "cache_secs": 0,
        "gssapi": gssapi,
    }
    federation = {"allow_private_hosts": True}
    whole = {"ipa": ipa, "server": {"realm": REALM}, **sections}
    async with open_federation(folder, features=("ipa",), path="", private=federation, **whole) as opened:
        provider(slapd, KEYCLOAK, ipaIdpIssuerURL=opened.stub.url, ipaIdpClientId="greatseal", ipaIdpClientSecret=SECRET)
        await read_again(opened)
        yield opened


@pytest.fixture
async def opened(make_slapd: Any, tmp_path: Path, database_url: str) -> Any:
    with make_slapd() as slapd:
        async with beside(slapd, tmp_path, database={"url": database_url}) as found:
            found.slapd = slapd
            yield found


async def test_idp_010_idp_060_idp_252_a_person_signs_in_at_the_provider_that_the_directory_names(opened: Any) -> None:
    desk = opened.desk
    opened.stub.claims = {"email": "dave@upstream.example", "email_verified": True, "amr": ["otp"]}

    listed = (await desk.get("/api/auth/providers")).json
    hint = (await desk.get("/api/auth/federated-hint?username=dave")).json
    me = await opened.me(await opened.sign_in(upstream="ipa-keycloak"))

    assert [(one["id"], one["source"]) for one in listed] == [("partner", "config"), ("ipa-github-corp", "ipa"), ("ipa-keycloak", "ipa")]
    assert hint == {"upstream_id": "ipa-keycloak"}
    assert (me["sub"], me["amr"]) == (f"dave@{REALM}", ["fed", "otp"])
    # Nobody else, by whatever the provider says.
    for email in ("DAVE@upstream.example", "alice@upstream.example", "*", "dave*", None, ["dave@upstream.example"]):
        opened.stub.claims["email"] = email
        assert (await opened.sign_in(upstream="ipa-keycloak")).status == 403, email
    for said in (False, "false", "no", "", 0, 1, ["true"], {}):
        opened.stub.claims = {"email": "dave@upstream.example", "email_verified": said}
        assert (await opened.sign_in(upstream="ipa-keycloak")).status == 403, said
    opened.stub.claims = {"email": "dave@upstream.example", "email_verified": "true"}
    assert (await opened.sign_in(upstream="ipa-keycloak")).status == 303, "some providers write it as a text"
    # Not by another provider, and not after the directory took the link or the type away.
    opened.stub.claims = {"email": "dave@upstream.example", "email_verified": True}
    assert (await opened.sign_in()).status == 403
    opened.slapd.replace("dave", "ipaUserAuthType", "password")
    assert (await opened.sign_in(upstream="ipa-keycloak")).status == 403
    opened.slapd.replace("dave", "ipaUserAuthType", "idp")
    assert (await opened.sign_in(upstream="ipa-keycloak")).status == 303
    opened.slapd.modify(
        f"dn: uid=alice,cn=users,cn=accounts,{SUFFIX}\nchangetype: modify\nadd: objectClass\nobjectClass: ipaIdpUser\n-\n"
        f"add: ipaIdpConfigLink\nipaIdpConfigLink: {KEYCLOAK}\n-\nadd: ipaIdpSub\nipaIdpSub: dave@upstream.example\n"
    )
    assert (await opened.sign_in(upstream="ipa-keycloak")).status == 403, "two people are nobody"


async def test_idp_251_idp_252_a_linked_account_comes_before_what_the_directory_says(opened: Any) -> None:
    await opened.link("dave")
    opened.slapd.replace("dave", "ipaUserAuthType", "password")
    refused = await opened.sign_in()
    assert (refused.status, "does not allow a sign-in through another provider" in refused.text) == (403, True)

    assert (await opened.desk.get("/api/auth/federated-hint?username=dave")).json == {"upstream_id": "partner"}
    for name in ("alice", "nobody", "*"):
        assert (await opened.desk.get(f"/api/auth/federated-hint?username={name}")).json == {"upstream_id": None}


async def test_idp_015_idp_096_idp_098_idp_145_idp_147_idp_148_idp_149_idp_150_idp_151_idp_354_overrides(opened: Any) -> None:
    desk = opened.desk

    listed = (await desk.get(IDPS, cookie=desk.admin)).json
    one = await desk.get(f"{IDPS}/ipa-keycloak", cookie=desk.admin)

    assert [each["id"] for each in listed] == ["ipa-github-corp", "ipa-keycloak"]
    assert (
        one.json
        == listed[1]
        == {
            "id": "ipa-keycloak",
            "display_name": "keycloak",
            "issuer": opened.stub.url,
            "client_id": "greatseal",
            "scopes": ["openid", "email"],
            "callback_path": "/internal/callback/ipa-keycloak",
            "default_acr": None,
            "default_amr": [],
            "source": "ipa",
        }
    )
    change = {"default_acr": "urn:two", "default_amr": ["otp", "mfa"]}
    changed = await desk.ask("PUT", f"{IDPS}/ipa-keycloak", cookie=desk.admin, json=change)
    assert (changed.status, changed.json) == (200, {**one.json, **change})
    assert (await desk.get(f"{IDPS}/ipa-keycloak", cookie=desk.admin)).json == changed.json
    opened.stub.claims = {"email": "dave@upstream.example"}
    me = await opened.me(await opened.sign_in(upstream="ipa-keycloak"))
    assert (me["acr"], me["amr"]) == ("urn:two", ["fed", "otp", "mfa"])
    (event,) = await desk.events("ipa_idp_acr_updated")
    assert (event.sub, event.client_id, json.loads(event.detail)["idp_id"]) == (f"admin@{REALM}", None, "ipa-keycloak")
    for name in ("id", "display_name", "issuer", "client_id", "scopes", "callback_path", "source"):
        await desk.ask("PUT", f"{IDPS}/ipa-keycloak", cookie=desk.admin, json={**change, name: ["other"] if name == "scopes" else "other"})
    assert (await desk.get(f"{IDPS}/ipa-keycloak", cookie=desk.admin)).json == changed.json, "the directory alone says them"
    cleared = {"default_acr": None, "default_amr": []}
    assert (await desk.ask("PUT", f"{IDPS}/ipa-keycloak", cookie=desk.admin, json=cleared)).json == one.json
    me = await opened.me(await opened.sign_in(upstream="ipa-keycloak"))
    assert (me["acr"], me["amr"]) == ("urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified", ["fed"])
    blank, line, number = ("a b", []), (None, ["\n"]), (7, [])
    for wrong in ({}, *({"default_acr": acr, "default_amr": amr} for acr, amr in (blank, line, number))):
        assert (await desk.ask("PUT", f"{IDPS}/ipa-keycloak", cookie=desk.admin, json=wrong)).status == 400
    for path in (f"{IDPS}/partner", f"{IDPS}/ipa-nobody"):
        assert (await desk.get(path, cookie=desk.admin)).outcome == (404, "not_found")
        assert (await desk.ask("PUT", path, cookie=desk.admin, json=change)).outcome == (404, "not_found")
    await desk.ask("PUT", f"{IDPS}/ipa-keycloak", cookie=desk.admin, json=change)
    opened.slapd.modify(f"dn: {KEYCLOAK}\nchangetype: delete\n")
    await read_again(opened)
    assert (await desk.get(f"{IDPS}/ipa-keycloak", cookie=desk.admin)).status == 404
    assert (await desk.get("/auth/external/ipa-keycloak")).status == 404


async def test_a_provider_without_an_issuer_says_who_somebody_is_by_userinfo(opened: Any) -> None:
    url = opened.stub.url
    endpoints = {"Auth": "authorize", "Token": "token", "UserInfo": "userinfo"}
    provider(opened.slapd, GITHUB, **{f"ipaIdp{name}Endpoint": f"{url}/{path}" for name, path in endpoints.items()})
    provider(opened.slapd, GITHUB, ipaIdpClientId="greatseal", ipaIdpClientSecret=SECRET)
    opened.slapd.replace("dave", "ipaIdpConfigLink", GITHUB)
    opened.slapd.replace("dave", "ipaIdpSub", "dave-codes")
    await read_again(opened)
    opened.stub.userinfo = {"login": "dave-codes"}

    assert (await opened.me(await opened.sign_in(upstream="ipa-github-corp")))["sub"] == f"dave@{REALM}"


async def test_the_configuration_says_of_which_provider_of_the_directory_no_moment_is_needed(make_slapd: Any, tmp_path: Path) -> None:
    with make_slapd() as slapd:
        async with open_federation(
            tmp_path,
            features=("ipa",),
            private={"allow_private_hosts": True, "assume_auth_time": ["ipa-keycloak"]},
            ipa={
                "ldap_uri": slapd.uri,
                "base_dn": SUFFIX,
                "bind_dn": SERVICE,
                "bind_password": SERVICE_PASSWORD,
                "start_tls": False,
                "gssapi": True,
            },
            server={"realm": REALM},
        ) as opened:
            provider(slapd, KEYCLOAK, ipaIdpIssuerURL=opened.stub.url, ipaIdpClientId="greatseal", ipaIdpClientSecret=SECRET)
            await read_again(opened)
            opened.stub.claims = {"email": "dave@upstream.example", "email_verified": True, "auth_time": None}
            waiting = request_of((await opened.desk.authorize(prompt="login")).location)["return_to"]

            assert (await opened.sign_in(waiting, upstream="ipa-keycloak")).location == waiting


async def test_idp_146_without_the_switch_the_directory_names_none(make_slapd: Any, tmp_path: Path) -> None:
    with make_slapd() as slapd:
        async with open_federation(
            tmp_path,
            features=("ipa",),
            ipa={"ldap_uri": slapd.uri, "base_dn": SUFFIX, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD, "start_tls": False},
            server={"realm": REALM},
        ) as opened:
            assert (await opened.desk.get(IDPS, cookie=opened.desk.admin)).json == []
            assert (await opened.desk.get("/api/auth/federated-hint?username=dave")).json == {"upstream_id": None}
            assert (await opened.start(upstream="ipa-keycloak")).status == 404


async def test_an_address_of_the_directory_links_where_that_is_allowed(make_slapd: Any, tmp_path: Path) -> None:
    with make_slapd() as slapd:
        slapd.replace("dave", "mail", "Dave@Example.org")
        async with beside(slapd, tmp_path, table={"link_email_domains": ["example.org"]}) as opened:
            opened.stub.claims = {"email": "dave@example.org", "email_verified": True}
            answer = await opened.sign_in()
            page = await opened.desk.get("/account/connections", cookie=answer.cookie, headers=BROWSER)

        assert "dave@example.org" in page.text
