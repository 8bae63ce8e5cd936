"""Sign-in through another provider, from the button to the session, on both databases."""

import asyncio
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from rig.people import write_users
from rig.upstream import CLIENT, request_of
from security.idp_desk import PASSWORD, open_desk
from security.idp_federation import ACCOUNTS, BROWSER, Federation, open_federation
from security.idp_otp import app_of

from greatseal.testing.desk import CALLBACK, hidden_fields, told

LINKED = {"id", "upstream_id", "issuer", "upstream_sub", "username", "email", "disabled", "created_at", "created_by", "last_login_at"}


@pytest.fixture
async def flow(database_url: str, tmp_path: Any) -> Any:
    async with open_federation(tmp_path, database={"url": database_url}) as opened:
        yield opened


@pytest.fixture
async def plain(tmp_path: Any) -> Any:
    """Where the database makes no difference."""
    async with open_federation(tmp_path) as opened:
        yield opened


async def test_idp_008_idp_262_idp_263_a_linked_person_signs_in_by_a_configured_provider(flow: Federation) -> None:
    account = await flow.link("ann")

    started = await flow.start("/account")
    request = request_of(started.location)
    answer = await flow.arrive(code=flow.stub.code(request), state=request["state"])

    assert started.status == 303
    assert started.location.startswith(f"{flow.stub.url}/authorize?")
    assert {name: request[name] for name in ("response_type", "client_id", "redirect_uri", "scope", "code_challenge_method")} == {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": f"{flow.desk.url}/internal/callback/partner",
        "scope": "openid email profile",
        "code_challenge_method": "S256",
    }
    assert {"state", "nonce", "code_challenge"} <= request.keys()
    assert "prompt" not in request
    assert (answer.status, answer.location) == (303, "/account")
    me = await flow.me(answer)
    assert (me["sub"], me["amr"]) == ("ann@LOCALHOST", ["fed"])
    (event,) = [one for one in await flow.desk.events("login_success") if one.sub == "ann@LOCALHOST"]
    assert event.outcome == "success"
    (shown,) = (await flow.desk.get(ACCOUNTS, cookie=flow.desk.admin)).json
    assert shown == {**account, "last_login_at": flow.desk.clock.now() // 1_000_000}


async def test_idp_009_idp_249_providers_of_the_configuration_are_offered_in_their_order(tmp_path: Any) -> None:
    async with open_federation(tmp_path, {"id": "second"}) as opened:
        listed = (await opened.desk.get("/api/auth/providers?return_to=/account")).json
        page = await opened.desk.get("/ui/auth/login", headers=BROWSER)
        info = (await opened.desk.get("/api/auth/info")).json

    assert listed == [
        {
            "id": "partner",
            "display_name": "The <b>partner</b>",
            "login_url": "/auth/external/partner?return_to=%2Faccount",
            "source": "config",
        },
        {"id": "second", "display_name": "second", "login_url": "/auth/external/second?return_to=%2Faccount", "source": "config"},
    ]
    assert info["features"]["federation"] is True
    assert 'href="/auth/external/partner"' in page.text
    assert "The &lt;b&gt;partner&lt;/b&gt;" in page.text  # S071


async def test_idp_105_idp_142_idp_143_idp_144_links_are_made_listed_and_deleted(flow: Federation) -> None:
    desk = flow.desk

    made = await flow.link("ann")
    again = await desk.post(ACCOUNTS, cookie=desk.admin, json={"upstream_id": "partner", "upstream_sub": "ada-1", "username": "ben"})
    listed = await desk.get(ACCOUNTS, cookie=desk.admin)
    one = await desk.get(f"{ACCOUNTS}/{made['id']}", cookie=desk.admin)
    signed_in = await flow.sign_in()
    deleted = await desk.ask("DELETE", f"{ACCOUNTS}/{made['id']}", cookie=desk.admin)

    assert made.keys() == LINKED
    assert (made["upstream_id"], made["upstream_sub"], made["username"]) == ("partner", "ada-1", "ann@LOCALHOST")
    assert (made["issuer"], made["created_by"], made["last_login_at"]) == (flow.stub.url, "admin@LOCALHOST", None)
    assert again.outcome == (409, "conflict")
    assert (listed.json, one.json) == ([made], made)
    assert deleted.status == 204
    assert (await desk.get("/api/auth/me", cookie=signed_in.cookie)).status == 401
    assert (await desk.get(ACCOUNTS, cookie=desk.admin)).json == []
    assert (await desk.ask("DELETE", f"{ACCOUNTS}/{made['id']}", cookie=desk.admin)).outcome == (404, "not_found")
    linked, unlinked = await desk.events("federated_account_linked", "federated_account_unlinked")
    assert (linked.event_type, linked.sub, linked.principal) == ("federated_account_linked", "ann@LOCALHOST", "admin@LOCALHOST")
    assert (unlinked.event_type, unlinked.sub, unlinked.principal) == ("federated_account_unlinked", "ann@LOCALHOST", "admin@LOCALHOST")
    assert "upstream=partner upstream_sub=ada-1" in unlinked.detail


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"upstream_id": "nobody"}, "upstream_id"),
        ({"username": "nobody"}, "username"),
        ({"upstream_sub": ""}, "upstream_sub"),
        ({"upstream_sub": " x"}, "upstream_sub"),
        ({"upstream_sub": "x" * 257}, "upstream_sub"),
        ({"issuer": "a\nb"}, "issuer"),
    ],
)
async def test_idp_143_a_link_with_a_wrong_member_is_refused_with_its_name(plain: Federation, change: dict[str, str], word: str) -> None:
    body = {"upstream_id": "partner", "upstream_sub": "x", "username": "ann", **change}

    answer = await plain.desk.post(ACCOUNTS, cookie=plain.desk.admin, json=body)

    assert answer.outcome == (400, "invalid_request")
    assert answer.json["error_description"].startswith(word)


async def test_idp_142_idp_143_idp_144_permissions_of_links(plain: Federation) -> None:
    ann = await plain.desk.cookie("ann")
    for method, path in (("GET", ACCOUNTS), ("POST", ACCOUNTS), ("PUT", f"{ACCOUNTS}/x"), ("DELETE", f"{ACCOUNTS}/x")):
        body = {} if method in {"POST", "PUT"} else None
        assert (await plain.desk.ask(method, path, json=body)).outcome == (401, "unauthenticated")
        refused = await plain.desk.ask(method, path, cookie=ann, json=body)
        needed = "federation:read" if method == "GET" else "federation:write"
        assert (refused.status, refused.json["required_permission"]) == (403, needed)


async def test_a_link_that_is_switched_off_signs_nobody_in_and_ends_its_sessions(flow: Federation) -> None:
    made = await flow.link("ann")
    path = f"{ACCOUNTS}/{made['id']}"
    signed_in = await flow.sign_in()

    off = await flow.desk.ask("PUT", path, cookie=flow.desk.admin, json={"disabled": True})

    assert (off.status, off.json["disabled"]) == (200, True)
    assert (await flow.desk.get("/api/auth/me", cookie=signed_in.cookie)).status == 401
    refused = await flow.sign_in()
    assert (refused.status, "switched off" in refused.text) == (403, True)
    await flow.desk.ask("PUT", path, cookie=flow.desk.admin, json={"disabled": False})
    assert (await flow.sign_in()).status == 303
    assert (await flow.desk.ask("PUT", f"{ACCOUNTS}/x", cookie=flow.desk.admin, json={"disabled": True})).status == 404


async def test_idp_145_idp_147_idp_149_permissions_of_providers_of_the_directory(plain: Federation) -> None:
    ann, path = await plain.desk.cookie("ann"), "/api/admin/federation/ipa-idps"
    for method, place in (("GET", path), ("GET", f"{path}/ipa-x"), ("PUT", f"{path}/ipa-x")):
        body = {"default_acr": None, "default_amr": []} if method == "PUT" else None
        assert (await plain.desk.ask(method, place, json=body)).outcome == (401, "unauthenticated")
        refused = await plain.desk.ask(method, place, cookie=ann, json=body)
        needed = "federation:read" if method == "GET" else "federation:write"
        assert (refused.status, refused.json["required_permission"]) == (403, needed)


async def test_idp_251_the_hint_is_the_provider_of_a_linked_account(plain: Federation) -> None:
    desk = plain.desk
    await plain.link("ann")

    assert (await desk.get("/api/auth/federated-hint?username=ann")).json == {"upstream_id": "partner"}
    assert (await desk.get("/api/auth/federated-hint?username=ann@LOCALHOST")).json == {"upstream_id": "partner"}
    for name in ("ben", "nobody", "ada-1"):
        assert (await desk.get(f"/api/auth/federated-hint?username={name}")).json == {"upstream_id": None}


async def test_s080_nobody_is_linked_by_an_address_unless_the_provider_may_vouch_for_it(plain: Federation) -> None:
    write_users(plain.desk.folder / "users.toml", PASSWORD, {"ann": {"email": "ann@example.org"}, "admin": {}})
    plain.stub.claims = {"email": "ann@example.org", "email_verified": True}

    refused = await plain.sign_in()

    assert refused.status == 403
    assert "nobody here is linked" in refused.text.lower()
    (failed,) = [one for one in await plain.desk.events("login_failure") if "upstream partner" in (one.detail or "")]
    assert "ada-1" in failed.detail


async def _addresses(tmp_path: Any, claims: dict[str, Any], **people: dict[str, str]) -> tuple[int, Any]:
    async with open_federation(tmp_path, table={"link_email_domains": ["example.org"]}) as opened:
        write_users(opened.desk.folder / "users.toml", PASSWORD, {**people, "admin": {}})
        opened.stub.claims = claims
        answer = await opened.sign_in()
        links = (await opened.desk.get(ACCOUNTS, cookie=opened.desk.admin)).json
        return answer.status, [(one["username"], one["email"], one["created_by"]) for one in links]


async def test_s080_a_verified_address_links_the_one_person_who_has_it(tmp_path: Any) -> None:
    claims = {"email": "Ann@Example.ORG", "email_verified": True}

    assert await _addresses(tmp_path, claims, ann={"email": "ann@example.org"}) == (
        303,
        [("ann@LOCALHOST", "Ann@Example.ORG", "ann@LOCALHOST")],
    )


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "ann@example.org"},
        {"email": "ann@example.org", "email_verified": False},
        {"email": "ann@example.org", "email_verified": "true"},
        {"email": "ann@example.org", "email_verified": "false"},
        {"email": "ann@example.org", "email_verified": 1},
        {"email": "ann@example.com", "email_verified": True},
        {"email": "ann@sub.example.org", "email_verified": True},
        {"email": "ann@x@example.org", "email_verified": True},
        {"email": "ånn@example.org", "email_verified": True},
        {"email": "other@example.org", "email_verified": True},
        {"email": ["ann@example.org"], "email_verified": True},
    ],
    ids=["unsaid", "no", "a-text", "no-as-a-text", "a-number", "domain", "subdomain", "two-ats", "not-ascii", "nobody", "list"],
)
async def test_s080_no_other_address_links_anybody(tmp_path: Any, claims: dict[str, Any]) -> None:
    assert await _addresses(tmp_path, claims, ann={"email": "ann@example.org"}) == (403, [])


async def test_s080_an_address_that_two_people_have_links_none(tmp_path: Any) -> None:
    claims = {"email": "ann@example.org", "email_verified": True}

    assert await _addresses(tmp_path, claims, ann={"email": "ann@example.org"}, ben={"email": "ANN@example.org"}) == (403, [])


async def test_s080_an_address_that_was_given_to_somebody_else_does_not_get_what_was_linked(tmp_path: Any) -> None:
    async with open_federation(tmp_path, table={"link_email_domains": ["example.org"]}) as opened:
        write_users(opened.desk.folder / "users.toml", PASSWORD, {"ann": {"email": "ann@example.org"}, "admin": {}})
        opened.stub.claims = {"email": "ann@example.org", "email_verified": True}
        assert (await opened.sign_in()).status == 303

        opened.stub.claims["sub"] = "successor-2"
        assert (await opened.sign_in()).status == 403


async def test_s080_the_word_that_an_address_is_verified_is_of_that_address_alone(tmp_path: Any) -> None:
    """The ID token and userinfo of a provider may hold different ones."""
    async with open_federation(tmp_path, table={"link_email_domains": ["example.org"], "realm": "PARTNER.EXAMPLE"}) as opened:
        write_users(opened.desk.folder / "users.toml", PASSWORD, {"ann": {"email": "ann@example.org"}, "admin": {}})
        for sub, claims, userinfo in (
            ("one", {"email": "ann@example.org"}, {"email": "eve@example.org", "email_verified": True}),
            ("two", {"email_verified": True}, {"email": "ann@example.org"}),
        ):
            opened.stub.claims, opened.stub.userinfo = {**claims, "sub": sub}, userinfo
            me = await opened.me(await opened.sign_in())
            assert me["sub"].endswith("@PARTNER.EXAMPLE"), sub


async def test_s080_the_same_sub_of_another_issuer_is_somebody_else(tmp_path: Any) -> None:
    async with open_federation(tmp_path, {"id": "second"}) as opened:
        await opened.link("ann")

        assert (await opened.sign_in()).status == 303
        assert (await opened.sign_in(upstream="second")).status == 403


MAKES = {"realm": "PARTNER.EXAMPLE", "groups": {"their-staff": "staff"}}


async def test_somebody_new_becomes_a_person_of_the_provider_s_realm(database_url: str, tmp_path: Any) -> None:
    async with open_federation(tmp_path, table=MAKES, database={"url": database_url}) as opened:
        opened.stub.claims = {
            "preferred_username": "Ada.Lovelace@partner.example",
            "name": "Ada Lovelace",
            "groups": ["their-staff", "administrators", 7],
        }
        opened.stub.userinfo = {"email": "ada@partner.example", "email_verified": True}

        first = await opened.me(await opened.sign_in())
        opened.stub.claims |= {"name": "Countess", "groups": []}
        second = await opened.sign_in()

        assert (first["sub"], first["groups"]) == ("ada.lovelace@PARTNER.EXAMPLE", ["staff"])
        profile = (await opened.desk.get("/api/auth/profile", cookie=second.cookie)).json
        assert (profile["username"], profile["display_name"], profile["groups"]) == ("ada.lovelace", "Countess", [])
        assert (profile["email"], profile["email_verified"]) == ("ada@partner.example", True)
        tokens = (await opened.desk.redeem(await opened.desk.code(second.cookie))).json
        claims = (await opened.desk.userinfo(tokens["access_token"])).json
        assert (claims["sub"], claims["name"]) == ("ada.lovelace@PARTNER.EXAMPLE", "Countess")


async def test_two_of_one_name_get_two_and_a_name_is_given_to_nobody_else(database_url: str, tmp_path: Any) -> None:
    async with open_federation(tmp_path, table=MAKES, database={"url": database_url}) as opened:
        names = {}
        for sub in ("a", "b", "c"):
            opened.stub.claims = {"sub": sub, "preferred_username": "ada"}
            names[sub] = (await opened.me(await opened.sign_in()))["username"]
        for one in (await opened.desk.get(ACCOUNTS, cookie=opened.desk.admin)).json:
            await opened.desk.ask("DELETE", f"{ACCOUNTS}/{one['id']}", cookie=opened.desk.admin)
        for sub in ("d", "b"):
            opened.stub.claims = {"sub": sub, "preferred_username": "ada"}
            names[f"{sub} again"] = (await opened.me(await opened.sign_in()))["username"]

        assert names == {"a": "ada", "b": "ada-2", "c": "ada-3", "d again": "ada-4", "b again": "ada-2"}


async def test_fifty_first_sign_ins_of_one_person_make_one(tmp_path: Any) -> None:
    async with open_federation(tmp_path, table=MAKES) as opened:
        await opened.start()
        begun = [await opened.begin() for _ in range(50)]

        answers = await asyncio.gather(*(opened.arrive(code=opened.stub.code(one), state=one["state"]) for one in begun))

        assert {answer.status for answer in answers} == {303}
        assert len((await opened.desk.get(ACCOUNTS, cookie=opened.desk.admin)).json) == 1


async def test_s104_methods_that_a_provider_names_reach_no_class_here(tmp_path: Any) -> None:
    """Whose word counts is said by acr_values; what is proven here afterwards counts in any case."""
    ladder = [{"value": "urn:one", "level": 1, "satisfied_by": ["pwd"]}, {"value": "urn:two", "level": 2, "satisfied_by": ["mfa"]}]
    table = {"default_amr": ["pwd"]}
    async with open_federation(tmp_path, features=("otp",), table=table, acr=ladder) as opened:
        desk = opened.desk
        await opened.link("ann")
        app = await app_of(desk)
        assert (await opened.me(await opened.sign_in()))["acr"] == "urn:one"
        opened.stub.claims = {"amr": ["pwd", "otp", "mfa"]}
        answer = await opened.sign_in()
        assert (await opened.me(answer))["acr"] == "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"

        asked = await desk.authorize(answer.cookie, acr_values="urn:two")
        page = await desk.get(asked.location, cookie=answer.cookie, headers=BROWSER)
        form = {**hidden_fields(page, "login-form"), "code": app.code()}
        stepped = await desk.post("/login/step-up", data=form, cookie=answer.cookie, headers=BROWSER)

        me = (await desk.get("/api/auth/me", cookie=stepped.cookie)).json
        assert (me["acr"], me["amr"]) == ("urn:two", ["fed", "pwd", "otp", "mfa"])


async def test_what_a_person_may_do_is_that_of_their_directory(plain: Federation) -> None:
    await plain.link("ann")
    write_users(plain.desk.folder / "users.toml", PASSWORD, {"ann": {"enabled": False}, "admin": {}})  # type: ignore[dict-item]

    refused = await plain.sign_in()

    assert (refused.status, "disabled" in refused.text) == (403, True)


async def test_acr_and_amr_are_those_that_the_provider_may_say_else_the_defaults(tmp_path: Any) -> None:
    table = {"default_acr": "urn:usual", "default_amr": ["pwd"], "acr_values": ["urn:high"]}
    async with open_federation(tmp_path, table=table) as opened:
        await opened.link("ann")
        found = []
        for claims in ({}, {"acr": "urn:high", "amr": ["hwk", "mfa"]}, {"acr": "urn:forged", "amr": ["\n", 7, "x" * 65]}, {"amr": "otp"}):
            opened.stub.claims = claims
            me = await opened.me(await opened.sign_in())
            found.append((me["acr"], me["amr"]))

        assert found == [
            ("urn:usual", ["fed", "pwd"]),
            ("urn:high", ["fed", "hwk", "mfa"]),
            ("urn:usual", ["fed", "pwd"]),
            ("urn:usual", ["fed", "pwd"]),
        ]


async def test_what_an_application_asks_of_a_sign_in_is_asked_of_the_provider(tmp_path: Any) -> None:
    async with open_federation(tmp_path, table={"acr_values": ["urn:high"]}) as opened:
        await opened.link("ann")
        wish = '{"id_token":{"acr":{"essential":true,"values":["urn:high","urn:other"]}}}'
        waiting = await opened.desk.authorize(claims=wish, max_age="60", prompt="login", login_hint="ann")
        return_to = request_of(waiting.location)["return_to"]

        request = await opened.begin(return_to)

        assert {name: request.get(name) for name in ("acr_values", "max_age", "prompt", "login_hint")} == {
            "acr_values": "urn:high",
            "max_age": "60",
            "prompt": "login",
            "login_hint": "ann",
        }
        opened.stub.claims = {"acr": "urn:high"}
        back = await opened.arrive(code=opened.stub.code(request), state=request["state"])
        assert back.location == return_to
        answer = await opened.desk.get(back.location, cookie=back.cookie)
        assert told(answer)["code"]
        assert answer.location.startswith(CALLBACK)


async def test_whoever_is_signed_in_already_is_asked_again_there(plain: Federation) -> None:
    request = await plain.begin(cookie=await plain.desk.cookie("ann"))

    assert request["prompt"] == "login"


async def test_a_second_greatseal_is_a_provider(tmp_path: Any) -> None:
    (tmp_path / "up").mkdir()
    (tmp_path / "down").mkdir()
    async with open_desk(tmp_path / "up") as up:
        table = {"id": "up", "issuer": up.url, "client_id": "", "client_secret": "s" * 43, "allow_private_hosts": True}
        client = await up.registered(redirect_uris=["http://localhost/internal/callback/up"], scopes=["openid", "profile", "email"])
        table["client_id"] = client["client_id"]
        async with open_desk(tmp_path / "down", "federation", federation={"upstream_idps": [table]}) as down:
            await up.put(client, redirect_uris=[f"{down.url}/internal/callback/up"])
            opened = Federation(down, None)  # type: ignore[arg-type]
            link = {"upstream_id": "up", "upstream_sub": "ben@LOCALHOST", "username": "ann"}
            assert (await down.post(ACCOUNTS, cookie=down.admin, json=link)).status == 201

            started = await opened.start(upstream="up")
            there = await up.get(started.location.removeprefix(up.url), cookie=await up.cookie("ben"))
            assert there.location.startswith(f"{down.url}/internal/callback/up?"), there.location
            back = await down.get(there.location.removeprefix(down.url), cookie=opened.browser, headers=BROWSER)

            me = (await down.get("/api/auth/me", cookie=back.cookie)).json
            assert (me["sub"], me["amr"]) == ("ann@LOCALHOST", ["fed", "pwd"])


async def test_idp_146_without_a_directory_there_are_no_other_providers(plain: Federation) -> None:
    desk, path = plain.desk, "/api/admin/federation/ipa-idps"

    assert (await desk.get(path, cookie=desk.admin)).json == []
    assert (await desk.get(f"{path}/partner", cookie=desk.admin)).outcome == (404, "not_found")
    change = {"default_acr": None, "default_amr": []}
    assert (await desk.ask("PUT", f"{path}/partner", cookie=desk.admin, json=change)).outcome == (404, "not_found")


async def test_the_hash_of_an_access_token_is_not_looked_at_where_no_specification_says_which_it_is(plain: Federation) -> None:
    """EdDSA: the algorithm names no digest."""
    await plain.link("ann")
    own = ed25519.Ed25519PrivateKey.generate()
    plain.stub.key, plain.stub.alg = own, "EdDSA"

    assert (await plain.me(await plain.sign_in()))["sub"] == "ann@LOCALHOST"
