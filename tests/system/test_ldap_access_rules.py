"""Access rules of FreeIPA, from slapd: read, evaluated as FreeIPA does, shown beside our own, and refused when they cannot be read."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from rig.directory import Parts
from rig.slapd import REALM, SERVICE, SERVICE_PASSWORD, SUFFIX, Slapd
from security.idp_desk import open_desk

from greatseal.api.clients import Client
from greatseal.api.identity import AccessDenied
from greatseal.api.problems import Unavailable
from greatseal.api.tokens import GrantCheck, GrantQuestion
from greatseal.testing.access import RuleSourceContract
from greatseal_hbac.evaluation import Facts, RuleSet
from greatseal_hbac.sources import _copy
from greatseal_ipa.access import IpaRules
from greatseal_ipa.directory import IpaDirectory

RULES = f"cn=hbac,{SUFFIX}"
ALLOW_ALL = f"ipaUniqueID=00000000-0000-4000-8000-000000000901,{RULES}"
DEVS_ON_WEB = "ipa:00000000-0000-4000-8000-000000000902"
EXPECTED = [
    ("alice", "web1.chancery.test", "sshd", True),
    ("bob", "web1.chancery.test", "sshd", True),
    ("bob", "db1.chancery.test", "sshd", False),
    ("alice", "db1.chancery.test", "chancery-token", True),
    ("bob", "db1.chancery.test", "chancery-token", False),
    ("bob", "web1.chancery.test", "chancery-token", False),
    ("ALICE", "WEB1.CHANCERY.TEST", "SSHD", True),
    ("henry", "web1.chancery.test", "sshd", False),
    ("alice", "web1.chancery.test", "login", False),
    ("nobody", "web1.chancery.test", "sshd", False),
]


@pytest.fixture
def parts(slapd):
    made = Parts(slapd.uri)
    yield made
    made.close()


@pytest.fixture
def source(parts):
    return IpaRules(parts.pool, SUFFIX)


@pytest.mark.parametrize(("user", "host", "service", "allowed"), EXPECTED)
async def test_the_rules_of_the_seed_say_what_freeipa_says(parts, source, user, host, service, allowed):
    directory = IpaDirectory(parts.reader)
    copy = _copy("ipa", await source.read(), at=0.0)
    known = await directory.user(user)
    facts = Facts(
        kind="service",
        subject=f"{user}@{REALM}",
        groups=frozenset(known.groups) if known else frozenset(),
        service=service,
        servicegroups=copy.servicegroups.get(service.casefold(), frozenset()),
        here=host,
        groups_here=await directory.hostgroups_of(host) or frozenset(),
    )

    assert bool(RuleSet(copy.rules, REALM, copy.servicegroups).decide(facts).rules) is allowed


async def test_a_rule_as_it_is_read(source):
    book = await source.read()

    (rule,) = (one for one in book.rules if one.name == "devs_on_web")
    assert (rule.enabled, rule.wrong, rule.users, rule.user_groups) == (True, "", (), ("devs",))
    assert (rule.hosts, rule.hostgroups, rule.services, rule.servicegroups) == ((), ("webservers",), ("sshd",), ())
    assert book.servicegroups == {"chancery-token": {"chancery"}, "chancery-web": {"chancery"}}
    assert not next(one for one in book.rules if one.name == "allow_all").enabled


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("replace: accessRuleType\naccessRuleType: deny", "its accessRuleType is deny; only allow is understood"),
        ("delete: ipaEnabledFlag", "its ipaEnabledFlag is missing, or may not be read"),
    ],
)
async def test_a_rule_that_cannot_be_read_is_wrong_and_enabled(make_slapd, change, said):
    with make_slapd() as slapd:
        slapd.modify(f"dn: ipaUniqueID={DEVS_ON_WEB.removeprefix('ipa:')},{RULES}\nchangetype: modify\n{change}\n-\n")
        parts = Parts(slapd.uri)
        try:
            (rule,) = (one for one in (await IpaRules(parts.pool, SUFFIX).read()).rules if one.name == "devs_on_web")
        finally:
            parts.close()

    assert (rule.wrong, rule.enabled) == (said, True)


class TestIpaRules(RuleSourceContract):
    some = "devs_on_web"

    @pytest.fixture(autouse=True)
    def _parts(self, parts, make_slapd):
        with make_slapd() as gone:
            self.gone = Parts(gone.uri)
        self.parts = parts
        yield
        self.gone.close()

    def source(self):
        return IpaRules(self.parts.pool, SUFFIX)

    def broken(self):
        return IpaRules(self.gone.pool, SUFFIX)


@pytest.fixture
def own(make_slapd):
    with make_slapd() as running:
        yield running


@pytest.fixture
async def desk(own: Slapd, tmp_path: Any) -> AsyncIterator[Any]:
    directory = {"ldap_uri": own.uri, "base_dn": SUFFIX, "start_tls": False, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD}
    section = {**directory, "hbac": True, "cache_secs": 0}
    async with open_desk(tmp_path, "hbac", "ipa", ipa=section, hbac={"max_age_secs": 60}) as desk:
        yield desk


async def ask(desk: Any, method: str, path: str = "", **body: Any) -> Any:
    more = {"json": body} if method in {"POST", "PUT"} else {}
    return await desk.ask(method, f"/api/admin/hbac{path}", cookie=desk.admin, **more)


async def test_the_directorys_rules_stand_beside_our_own_and_are_changed_there(desk: Any) -> None:
    mine = await ask(desk, "POST", name="mine", users=["ann"])
    listed = {rule["name"]: rule for rule in (await ask(desk, "GET")).json}

    assert {name: rule["source"] for name, rule in listed.items()} == {
        "mine": "local", "allow_all": "ipa", "devs_on_web": "ipa", "alice_token": "ipa", "incomplete": "ipa",
    }  # fmt: skip
    shown = listed["devs_on_web"]
    assert (shown["rule_id"], shown["user_groups"], shown["created_at"]) == (DEVS_ON_WEB, ["devs"], None)
    assert (await ask(desk, "GET", f"/{DEVS_ON_WEB}")).json == shown
    for method, body in (("PUT", {"enabled": False}), ("DELETE", {})):
        refused = await ask(desk, method, f"/{DEVS_ON_WEB}", **body)
        assert refused.outcome == (409, "conflict")
        assert "kept by ipa" in refused.text
    assert (await ask(desk, "GET", "/ipa:nothing")).status == 404
    assert (await ask(desk, "DELETE", f"/{mine.json['rule_id']}")).status == 204


def policy_of(desk: Any) -> GrantCheck:
    return next(check for check in desk.service.host("hbac").components(GrantCheck).values() if check.name == "hbac")


def asked(subject: str, service: str) -> GrantQuestion:
    client = Client(client_id="web", token_endpoint_auth_method="kerberos_client_auth", kerberos_hbac_service=service)
    return GrantQuestion(phase="client", subject=subject, client=client, scopes=frozenset({"stock"}), remote="192.0.2.1")


async def test_idp_048_idp_049_rules_of_the_directory_decide_about_kerberos_clients(desk: Any, own: Slapd) -> None:
    policy = policy_of(desk)
    machine = f"host/web1.chancery.test@{REALM}"

    for subject, service in ((machine, "chancery-token"), (machine, "sshd"), (f"henry@{REALM}", "chancery-token")):
        with pytest.raises(AccessDenied):
            await policy.check(asked(subject, service))
    own.modify(f"dn: {ALLOW_ALL}\nchangetype: modify\nreplace: ipaEnabledFlag\nipaEnabledFlag: TRUE\n-\n")
    desk.clock.advance(61)
    await ask(desk, "GET")
    assert await policy.check(asked(machine, "sshd")) == {"stock"}


async def test_what_cannot_be_read_any_more_allows_nothing_and_our_own_rules_go_on(desk: Any, own: Slapd) -> None:
    policy = policy_of(desk)
    with pytest.raises(AccessDenied):
        await policy.check(asked(f"host/web1.chancery.test@{REALM}", "shop"))
    own.stop()
    desk.clock.advance(61)

    with pytest.raises(Unavailable) as problem:
        await policy.check(asked(f"host/web1.chancery.test@{REALM}", "shop"))
    assert "localhost" not in problem.value.detail
    assert "ipa: " in problem.value.cause
    assert (await ask(desk, "GET", f"/{DEVS_ON_WEB}")).json["name"] == "devs_on_web", "an administrator sees the last copy"
    tried = await ask(desk, "POST", "/test", user=f"host/web1.chancery.test@{REALM}", service="shop")
    assert tried.outcome == (503, "unavailable")
