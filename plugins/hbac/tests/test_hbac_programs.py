"""Whose groups count for a Kerberos client."""

from types import SimpleNamespace
from typing import Any

import pytest

from greatseal.api.clients import Client
from greatseal.api.directory import User
from greatseal.api.identity import AccessDenied
from greatseal.api.tokens import GrantQuestion
from greatseal_hbac.evaluation import Content, Rule, RuleSet
from greatseal_hbac.policy import KERBEROS, Hbac

REALM = "CHANCERY.TEST"
CLIENT = Client(client_id="robots", token_endpoint_auth_method=KERBEROS, kerberos_hbac_service="web")


class Loose:
    """A directory that compares names as LDAP does."""

    async def user(self, name: str) -> User | None:
        return User(username="alice", realm=REALM, source="loose", groups=("devs",)) if name.lower() == f"alice@{REALM}".lower() else None

    async def hostgroups_of(self, _hostname: str) -> frozenset[str]:
        return frozenset()


def policy() -> Hbac:
    directories, known = Loose(), RuleSet([Rule(rule_id="1", content=Content(user_groups=("devs",), services=("web",)))], REALM)

    async def everywhere() -> tuple[RuleSet, dict[str, str]]:
        return known, {}

    host: Any = SimpleNamespace(issuer="https://idp.example", realm=REALM, service=lambda _key: directories)
    rules: Any = SimpleNamespace(everywhere=everywhere)
    return Hbac(host, rules, enforce_grants=False)


def question(principal: str) -> GrantQuestion:
    return GrantQuestion(phase="client", subject=principal, client=CLIENT, scopes=frozenset({"read"}), remote="192.0.2.1")


async def test_the_groups_of_a_principal_are_its_own() -> None:
    assert await policy().check(question(f"alice@{REALM}")) == {"read"}


@pytest.mark.parametrize("principal", [f"Alice@{REALM}", f"alice@{REALM.lower()}"])
async def test_s086_a_name_that_the_directory_alone_takes_for_anothers_has_none_of_their_groups(principal: str) -> None:
    with pytest.raises(AccessDenied):
        await policy().check(question(principal))
