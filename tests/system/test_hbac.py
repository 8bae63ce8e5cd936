"""Access rules over the admin API, what they decide of real requests, and ``ctl hbac test``, on both databases."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from rig import warm
from rig.provider import ADMINISTRATOR, Provider
from rig.provider import PASSWORD as ADMINS_PASSWORD
from security.idp_desk import Desk, open_desk
from security.test_idp_exchange import SERVICE, exchange

from greatseal.api.clients import Client
from greatseal.api.identity import AccessDenied
from greatseal.api.tokens import GrantCheck, GrantQuestion
from greatseal.testing.desk import Answer, told

HBAC = "/api/admin/hbac"
FILES = "HTTP/files.example.org@EXAMPLE.ORG"
LISTS = (
    "users", "user_groups", "clients", "hosts", "hostgroups", "services", "scopes", "networks", "delegation_targets",
)  # fmt: skip


@pytest.fixture
async def desk(database_url: str, tmp_path: Any) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path, "token-exchange", "hbac", database={"url": database_url}) as desk:
        yield desk


@pytest.fixture
async def strict(database_url: str, tmp_path: Any) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path, "token-exchange", "hbac", database={"url": database_url}, hbac={"enforce_grants": True}) as desk:
        yield desk


async def ask(desk: Desk, method: str, *path: str, **body: Any) -> Answer:
    more = {"json": body} if method in {"POST", "PUT"} else {}
    return await desk.ask(method, "/".join((HBAC, *path)), cookie=desk.admin, **more)


async def created(desk: Desk, **body: Any) -> Any:
    answer = await ask(desk, "POST", **body)
    assert answer.status == 201, answer.text
    return answer.json


async def test_idp_067_idp_069_idp_071_idp_109_idp_162_idp_163_r94_a_rule_that_names_nobody_is_for_everybody(desk: Desk) -> None:
    rule = await created(desk)

    assert {name: rule[name] for name in LISTS} == {name: [] for name in LISTS}
    assert {name for name, value in rule.items() if value == "all"} == {
        "user_category", "client_category", "host_category", "service_category", "scope_category",
    }  # fmt: skip
    assert (rule["delegation_target_category"], rule["delegation_target_count"], rule["enabled"]) == (False, 0, True)
    assert (await ask(desk, "GET", rule["rule_id"])).json == rule
    assert (await ask(desk, "GET", "no-such-rule")).outcome == (404, "not_found")
    (event,) = await desk.events("hbac_created")
    assert (event.sub.partition("@")[0], event.detail) == ("admin", rule["rule_id"])


async def test_r94_a_rule_that_names_some_fits_nobody_else(desk: Desk) -> None:
    rule = await created(desk, users=["ann"], networks=["192.0.2.0/24"])

    assert (rule["users"], rule["client_category"], rule["scope_category"]) == (["ann"], None, None)
    assert (await created(desk, networks=["192.0.2.0/24"], require_mfa=True))["user_category"] == "all", "conditions are no axes"


async def test_idp_161_rules_are_listed_by_id_in_pages(desk: Desk) -> None:
    ids = sorted([(await created(desk, name=str(number)))["rule_id"] for number in range(3)])

    first = await desk.ask("GET", f"{HBAC}?limit=2", cookie=desk.admin)
    assert [rule["rule_id"] for rule in first.json] == ids[:2]
    assert 'rel="next"' in first.headers["Link"]
    assert [rule["rule_id"] for rule in (await ask(desk, "GET")).json] == ids


async def test_idp_071_idp_164_idp_166_idp_167_idp_168_put_changes_what_it_names(desk: Desk) -> None:
    rule = await created(desk, name="files", users=["ann"], clients=["web"], scopes=["openid"], delegation_targets=["a/1", "a/2"])
    place = rule["rule_id"]

    added = (await ask(desk, "PUT", place, add_delegation_targets=["a/3", "a/1"], remove_delegation_targets=["a/2", "a/9"])).json
    assert (added["delegation_targets"], added["delegation_target_count"]) == (["a/1", "a/3"], 2)
    assert {**added, "delegation_targets": 0, "delegation_target_count": 0, "updated_at": 0} == {
        **rule, "delegation_targets": 0, "delegation_target_count": 0, "updated_at": 0,
    }  # fmt: skip
    both = (await ask(desk, "PUT", place, add_delegation_targets=["a/4"], remove_delegation_targets=["a/4"])).json
    assert both["delegation_targets"] == ["a/1", "a/3"], "added first, then removed"
    opened = (await ask(desk, "PUT", place, delegation_target_category=True, delegation_target_count=7)).json
    assert (opened["delegation_target_category"], opened["delegation_target_count"]) == (True, 2)
    assert (await ask(desk, "PUT", place, **opened)).json == opened | {"updated_at": (await ask(desk, "GET", place)).json["updated_at"]}
    assert (await ask(desk, "PUT", "nothing", name="x")).outcome == (404, "not_found")
    assert (await ask(desk, "PUT", place, user_category="all")).outcome == (400, "invalid_request"), "ann is listed"
    assert (await ask(desk, "PUT", place, user_category="all", users=[])).json["users"] == []
    assert len(await desk.events("hbac_updated")) == 5


async def test_idp_165_a_rule_is_deleted_once(desk: Desk) -> None:
    place = (await created(desk))["rule_id"]

    assert [(await ask(desk, "DELETE", place)).status for _ in range(2)] == [204, 404]
    assert (await ask(desk, "GET")).json == []
    assert len(await desk.events("hbac_deleted")) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"user": ["ann"]},
        {"users": "ann"},
        {"users": [1]},
        {"users": None},
        {"user_category": "some"},
        {"enabled": "yes"},
        {"delegation_targets": ["http"]},
        {"networks": ["192.0.2.1/24"]},
        {"user_category": "all", "users": ["ann"]},
        {"add_delegation_targets": ["a/b"]},
    ],
)
async def test_what_is_no_rule_is_refused_and_nothing_is_stored(desk: Desk, body: dict[str, Any]) -> None:
    assert (await ask(desk, "POST", **body)).outcome == (400, "invalid_request")
    assert (await ask(desk, "GET")).json == []


async def test_idp_344_s054_rules_are_for_those_who_have_the_permission(desk: Desk) -> None:
    place = (await created(desk))["rule_id"]
    ann = await desk.cookie("ann")

    for method, path in (("GET", ""), ("POST", ""), ("GET", f"/{place}"), ("PUT", f"/{place}"), ("DELETE", f"/{place}"), ("POST", "/test")):
        assert (await desk.ask(method, HBAC + path, cookie=ann, json={})).status == 403
        assert (await desk.ask(method, HBAC + path, json={})).status == 401


async def test_idp_068_idp_070_a_service_acts_where_a_rule_lets_it(desk: Desk) -> None:
    service = await desk.registered(**SERVICE)
    token = (await desk.tokens(await desk.cookie("ann")))["access_token"]

    async def act(target: str | None = FILES) -> tuple[int, str]:
        answer = await exchange(desk, service, token, **({} if target is None else {"target_service": target}))
        return answer.status, answer.json.get("error", "")

    denied, done = (403, "access_denied"), (200, "")
    assert (await act(), await act(None)) == (denied, done), "no rule at all"
    place = (await created(desk, clients=[service["client_id"]], users=["ann"], scopes=["openid", "profile"]))["rule_id"]
    assert (await act(), await act(None)) == (denied, done), "an empty list"
    await ask(desk, "PUT", place, add_delegation_targets=[FILES])
    assert (await act(), await act("HTTP/mail.example.org@EXAMPLE.ORG")) == (done, denied)
    await ask(desk, "PUT", place, delegation_target_category=True)
    assert await act("HTTP/mail.example.org@EXAMPLE.ORG") == done
    await ask(desk, "PUT", place, users=["ben"])
    assert (await act(), await act(None)) == (denied, done), "only who acts for somebody needs a rule"
    await ask(desk, "PUT", place, users=["ann"], enabled=False)
    assert await act() == denied
    await ask(desk, "DELETE", place)
    assert (await act(), await act(None)) == (denied, done)


async def test_r101_with_enforce_grants_rules_decide_who_gets_what(strict: Desk) -> None:
    desk, ann, ben = strict, await strict.cookie("ann"), await strict.cookie("ben")
    assert "code" in told(await desk.authorize(ann)), "no rule yet"

    rule = await created(desk, name="profile for ann", users=["ann"], clients=[desk.client["client_id"]], scopes=["openid", "profile"])
    tokens = await desk.tokens(ann, scope="openid profile email offline_access")
    assert tokens["scope"] == "openid profile"
    assert told(await desk.authorize(ben))["error"] == "access_denied"
    assert told(await desk.authorize(ann, scope="email"))["error"] == "access_denied"
    await ask(desk, "PUT", rule["rule_id"], scopes=[*rule["scopes"], "offline_access"])
    family = (await desk.tokens(ann))["refresh_token"]
    await ask(desk, "PUT", rule["rule_id"], enabled=False)
    refused = await desk.refresh(family)
    assert refused.outcome in {(403, "access_denied"), (400, "invalid_grant")}, "asked again at every step"
    own = await desk.form(
        "/token",
        {"grant_type": "client_credentials"},
        by=await desk.registered(grant_types=["client_credentials"], redirect_uris=None, scopes=["groups"]),
    )
    assert own.status == 200, "a program for itself is no person"


async def test_a_sign_in_without_an_application_needs_no_rule(strict: Desk) -> None:
    await created(strict, users=["ben"])
    (policy,) = (check for check in strict.service.host("hbac").components(GrantCheck).values() if check.name == "hbac")

    asked = GrantQuestion(phase="login", subject="ann@LOCALHOST", client=None, scopes=frozenset(), remote="192.0.2.1")
    assert await policy.check(asked) == frozenset()
    assert await strict.cookie("ann")


async def test_there_are_so_many_rules_and_no_more(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greatseal_hbac.rules.MOST_RULES", 2)

    assert [(await ask(desk, "POST")).status for _ in range(3)] == [201, 201, 409]
    assert len((await ask(desk, "GET")).json) == 2


async def test_networks_are_those_of_the_person_and_not_of_the_application(strict: Desk) -> None:
    desk, ann = strict, await strict.cookie("ann")
    rule = await created(desk, networks=["192.0.2.0/24"])

    assert told(await desk.authorize(ann))["error"] == "access_denied"
    await ask(desk, "PUT", rule["rule_id"], networks=["127.0.0.0/8"])
    code = await desk.code(ann)
    await ask(desk, "PUT", rule["rule_id"], networks=["192.0.2.0/24"])
    assert (await desk.redeem(code)).status == 200, "the server of the application is anywhere"
    await ask(desk, "PUT", rule["rule_id"], networks=[], require_mfa=True)
    assert told(await desk.authorize(ann))["error"] == "access_denied"


async def test_s062_idp_048_idp_049_a_kerberos_client_with_a_service_needs_a_rule(desk: Desk) -> None:
    (policy,) = (check for check in desk.service.host("hbac").components(GrantCheck).values() if check.name == "hbac")
    client = Client(client_id="web", token_endpoint_auth_method="kerberos_client_auth", kerberos_hbac_service="shop")
    asked = GrantQuestion(
        phase="client", subject="host/web.example.org@EXAMPLE.ORG", client=client, scopes=frozenset({"stock"}), remote="192.0.2.1"
    )

    with pytest.raises(AccessDenied):
        await policy.check(asked)
    free = msgspec.structs.replace(client, kerberos_hbac_service=None)
    assert await policy.check(msgspec.structs.replace(asked, client=free)) == {"stock"}, "no service, no rule needed"
    other = msgspec.structs.replace(client, token_endpoint_auth_method="private_key_jwt")
    assert await policy.check(msgspec.structs.replace(asked, client=other)) == {"stock"}, "its name was not proven by Kerberos"
    await created(desk, hosts=["web.example.org"], services=["mail"])
    with pytest.raises(AccessDenied):
        await policy.check(asked)
    await created(desk, hosts=["web.example.org"], services=["shop"])
    assert await policy.check(asked) == {"stock"}


async def test_the_trial_says_what_would_happen_and_why(strict: Desk) -> None:
    desk = strict
    assert (await ask(desk, "POST", "test", user="ann", client_id="web")).json["allowed"] is True
    rule = await created(desk, name="web", users=["ann"], clients=["web"], scopes=["openid"], delegation_targets=[FILES])
    far = await created(desk, name="far", users=["zoe"], clients=["other"], scopes=["phone"])

    yes = (await ask(desk, "POST", "test", user="ann", client_id="web", scopes=["openid", "email"])).json
    no = (await ask(desk, "POST", "test", user="ben", client_id="web", scopes=["openid"])).json
    acting = (await ask(desk, "POST", "test", user="ann", client_id="web", scopes=["openid"], target_service="HTTP/x@Y")).json
    program = (await ask(desk, "POST", "test", user="host/a.example.org@EXAMPLE.ORG", service="shop")).json

    named = {"rule_id": rule["rule_id"], "name": "web"}
    assert (yes["allowed"], yes["scopes"], yes["rules"], yes["kind"]) == (True, ["openid"], [named], "grant")
    assert (no["allowed"], no["nearest"][0]) == (False, {**named, "misses": ["user"]})
    assert no["nearest"][1] == {"rule_id": far["rule_id"], "name": "far", "misses": ["user", "client", "scope"]}
    assert (acting["kind"], acting["allowed"], acting["nearest"][0]["misses"]) == ("exchange", False, ["target_service"])
    assert (program["kind"], program["allowed"], program["reason"]) == ("service", False, "none of 2 rules matches")
    assert (await ask(desk, "POST", "test", user="ann", address="here")).outcome == (400, "invalid_request")
    assert (await ask(desk, "POST", "test", client_id="web")).outcome == (400, "invalid_request")


async def test_the_trial_says_before_the_switch_what_it_would_do(desk: Desk) -> None:
    assert (await ask(desk, "POST", "test", user="ann", client_id="web")).json["with_enforce_grants"]["allowed"] is True, "no rule"
    rule = await created(desk, name="web", users=["ann"], clients=["web"], scopes=["openid"])
    named = {"rule_id": rule["rule_id"], "name": "web"}

    yes = (await ask(desk, "POST", "test", user="ann", client_id="web", scopes=["openid", "email"])).json
    no = (await ask(desk, "POST", "test", user="ben", client_id="web", scopes=["openid"])).json
    acting = (await ask(desk, "POST", "test", user="ben", client_id="web", target_service=FILES)).json

    assert (yes["allowed"], yes["scopes"]) == (True, ["email", "openid"]), "what is in force"
    then = yes["with_enforce_grants"]
    assert (then["allowed"], then["scopes"], then["rules"]) == (True, ["openid"], [named])
    assert no["reason"].startswith("[hbac] enforce_grants is false")
    then = no["with_enforce_grants"]
    assert (no["allowed"], then["allowed"], then["nearest"]) == (True, False, [{**named, "misses": ["user"]}])
    assert "with_enforce_grants" not in acting, "the switch is not about services that act for people"


async def test_the_log_says_whom_no_rule_let_in_and_the_application_does_not_learn_it(strict: Desk, capsys: Any) -> None:
    ann = await strict.cookie("ann")
    await created(strict, users=["ben"])

    answer = told(await strict.authorize(ann))

    assert (answer["error"], answer["error_description"]) == ("access_denied", "no access rule allows this")
    assert f"ann@LOCALHOST at {strict.client['client_id']}: 1 rules, none matches" in " ".join(capsys.readouterr().out.split())


async def test_two_who_change_one_rule_at_once_lose_nothing(desk: Desk) -> None:
    place = (await created(desk))["rule_id"]
    targets = [f"a/{number}" for number in range(20)]

    answers = await asyncio.gather(*(ask(desk, "PUT", place, add_delegation_targets=[target]) for target in targets))

    done = [target for target, answer in zip(targets, answers, strict=True) if answer.status == 200]
    assert {answer.status for answer in answers} <= {200, 503}
    assert sorted((await ask(desk, "GET", place)).json["delegation_targets"]) == sorted(done)
    assert len(await desk.events("hbac_updated")) == len(done)


def test_ctl_writes_rules_and_says_what_they_do(tmp_path: Any) -> None:
    provider = Provider(tmp_path)
    environ = {**os.environ, "GREATSEAL_SESSION": str(tmp_path / "session.json"), "GREATSEAL_SERVER": provider.base_url}

    def ctl(*arguments: str, given: str = "") -> Any:
        return warm.run("ctl", *arguments, given=given, env=environ)

    with provider.forked():
        assert ctl("login", ADMINISTRATOR, "--password-file", "-", given=ADMINS_PASSWORD).returncode == 0
        made = ctl(
            "--json", "hbac", "create", "--name", "files", "--group", "staff", "--client", "web", "--scope", "openid", "--target", FILES
        )
        rule = json.loads(made.stdout)
        assert (rule["user_groups"], rule["delegation_targets"], rule["user_category"]) == (["staff"], [FILES], None)
        yes = ctl("hbac", "test", "ada", "--client", "web", "--scope", "openid", "--target", FILES).stdout
        assert yes.splitlines() == [
            "allowed: 1 of 1 rules match", "  ada@LOCALHOST, groups: staff", "  scopes: openid", f"  by {rule['rule_id']} files",
        ]  # fmt: skip
        no = ctl("hbac", "test", "admin", "--client", "web", "--scope", "email", "--target", "HTTP/x@Y").stdout
        assert no.splitlines()[0] == "REFUSED: none of 1 rules matches"
        assert no.splitlines()[-1] == f"  not by {rule['rule_id']} files: user, scope, target_service"
        assert json.loads(ctl("--json", "hbac", "test", "ada", "--client", "web").stdout)["kind"] == "grant"
        before = ctl("hbac", "test", "admin", "--client", "web", "--scope", "openid").stdout
        assert before.splitlines()[-2:] == [
            "with enforce_grants = true REFUSED: none of 1 rules matches", f"  not by {rule['rule_id']} files: user",
        ]  # fmt: skip
        changed = json.loads(ctl("--json", "hbac", "update", rule["rule_id"], "--any-user", "--add-target", "a/b", "--disable").stdout)
        assert (changed["user_category"], changed["user_groups"], changed["enabled"]) == ("all", [], False)
        assert changed["delegation_targets"] == [FILES, "a/b"]
        back = json.loads(ctl("--json", "hbac", "update", rule["rule_id"], "--user", "ada", "--enable").stdout)
        assert (back["users"], back["user_category"]) == (["ada"], None)
        json.loads(ctl("--json", "hbac", "create", "--name", "nobody", "--user", "ada").stdout)
        assert "files" in ctl("hbac", "list").stdout
        assert json.loads(ctl("--json", "hbac", "show", rule["rule_id"]).stdout) == back
        bad = ctl("hbac", "create", "--target", "nothing")
        assert (bad.returncode, "delegation_targets: expected" in bad.stderr) == (1, True)
        assert ctl("hbac", "delete", rule["rule_id"], "--yes").returncode == 0
        assert ctl("hbac", "show", rule["rule_id"]).returncode == 1
    told = warm.run("doctor", "-c", str(provider.configuration), given="", env=environ).stdout
    assert "1 of 1 access rules can never match" in told
    assert "(nobody): nothing fits its client and scope" in told
