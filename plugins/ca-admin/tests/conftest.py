import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from greatseal.testing import FakeClock
from greatseal.testing.desk import forgetful
from greatseal.testing.operator_desk import OperatorDesk, Person, admin_section
from greatseal.testing.plugin import StartService


class Office(OperatorDesk):
    """The admin listener, and the first administrator with a session."""

    root: Person
    token: str
    clock: FakeClock

    async def operator(self, name: str) -> dict[str, Any]:
        """What the administrator sees of an operator."""
        found = (await self.get("/admin/operators", token=self.token)).json
        return next(one for one in found if one["name"] == name)

    async def sign_in_again(self) -> str:
        """A session of the first administrator after time went by."""
        self.token = await self.sign_in(self.root)
        return self.token

    async def session_of(self, role: str, ca_id: str | None = None) -> str:
        """A new operator's."""
        return await self.sign_in(await self.hire(self.token, f"{role}-{ca_id}", role, ca_id))


@pytest.fixture
def people(tmp_path: Path) -> Path:
    folder = tmp_path / "people"
    folder.mkdir()
    return folder


@pytest.fixture
async def open_office(start_service: StartService, people: Path) -> AsyncIterator[Any]:
    """``await open_office("more", "features", admin={...}, ca=..., database=...)``."""
    root = Person.of(people, "root", days=(-1, 400))
    async with forgetful() as http:

        async def start(*features: str, admin: Any = None, **sections: Any) -> Office:
            clock = FakeClock(time.time_ns() // 1000)
            service = await start_service(
                "ca-admin", *features, clock=clock, admin=admin_section(people, root, **(admin or {})), **sections
            )
            office = Office(service, http, people)
            office.root, office.clock = root, clock
            office.token = await office.sign_in(root)
            return office

        yield start


@pytest.fixture
async def office(open_office: Any) -> Office:
    """On SQLite, with ca-admin alone."""
    return await open_office()


@pytest.fixture
async def office_of(open_office: Any, database_url: str) -> Office:
    """On both databases."""
    return await open_office(database={"url": database_url})
