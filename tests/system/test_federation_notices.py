"""People are told of accounts elsewhere that sign them in."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rig.carrier import CARRIER, carrier_of
from security.idp_federation import ACCOUNTS, open_federation

from greatseal.testing.distributions import install

USERS = 'email = "ann@example.org"'


async def told(desk: Any) -> list[tuple[str, str, dict[str, str]]]:
    while tasks := [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "deliver"]:
        await asyncio.gather(*tasks)
    found = [letter.notice for letter in carrier_of(desk).letters if letter.notice.kind.startswith("account_")]
    return [(one.kind, one.subject, {name: str(fact) for name, fact in one.facts.items()}) for one in found]


async def test_a_link_and_its_end_are_told_and_a_new_person_has_nothing_to_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    carrier = install(folder, "greatseal-carrier", CARRIER)
    table = {"display_name": "Partner", "link_email_domains": ["example.org"]}
    maker = {"id": "maker", "realm": "MAKER.EXAMPLE", "username_claim": "name"}
    sections = {"database": {"url": database_url}}
    async with open_federation(tmp_path, maker, features=("notices", carrier), table=table, **sections) as opened:
        users = tmp_path / "users.toml"
        users.write_text(users.read_text().replace('username = "ann"', f'username = "ann"\n{USERS}'))
        opened.stub.claims = {"email": "ann@example.org", "email_verified": True, "name": "ada"}

        assert (await opened.sign_in()).status == 303
        (link,) = (await opened.desk.get(ACCOUNTS, cookie=opened.desk.admin)).json
        assert (await opened.desk.ask("DELETE", f"{ACCOUNTS}/{link['id']}", cookie=opened.desk.admin)).status == 204
        opened.stub.claims = {"name": "ada"}
        assert (await opened.sign_in(upstream="maker")).status == 303

        facts = {"Provider": "Partner", "Account": "ann@example.org"}
        assert await told(opened.desk) == [
            ("account_linked", "ann@LOCALHOST", facts),
            ("account_unlinked", "ann@LOCALHOST", {**facts, "By": "an administrator"}),
        ]
