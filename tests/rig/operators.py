"""A CA with operators of every role, each with a session."""

import time
from pathlib import Path
from typing import Any

import aiohttp
from rig.acme import csr_for

from greatseal.api.acme import Identifier
from greatseal.api.http import OPERATOR_ROLES
from greatseal.api.issuance import Certificate, IssuanceRequest
from greatseal.api.services import ISSUANCE
from greatseal.testing import FakeClock
from greatseal.testing.operator_desk import OperatorDesk, Person, admin_section
from greatseal.testing.plugin import StartService
from greatseal_bundle_ca import features

ADMIN, OPS, RA, AUDIT = OPERATOR_ROLES
TWO = [{"id": "default", "is_default": True, "common_name": "One"}, {"id": "other", "common_name": "Two"}]


class Office(OperatorDesk):
    """Two CAs, and a session of each role."""

    root: Person
    clock: FakeClock
    tokens: dict[str, str]

    async def certify(self, name: str, ca_id: str | None = None, *, profile: str | None = None, **more: Any) -> Certificate:
        """A certificate for a DNS name."""
        issuance: Any = self.service.kernel.service(ISSUANCE)
        db = self.service.kernel.store
        chosen = issuance.profile(profile, ca_id)
        names, csr = (Identifier("dns", name),), issuance.read_csr(csr_for(name))
        request = IssuanceRequest(profile=chosen, ca_id=chosen.ca_id, identifiers=names, csr=csr, **{"account": None, **more})
        prepared = await db.write(issuance.reserve, await issuance.compose(request))
        made: Certificate = await db.write(issuance.record, prepared, await issuance.issue(prepared))
        return made


async def open_office(start: StartService, http: aiohttp.ClientSession, folder: Path, *enabled: str, **sections: Any) -> Office:
    """Start it with those features, all of the bundle by default."""
    root = Person.of(folder, "root", days=(-1, 400))
    admin = admin_section(folder, root, audit_alarm_action="halt")
    sections = {"ca": TWO, "admin": admin, "clock": FakeClock(time.time_ns() // 1000), **sections}
    office = Office(await start(*(enabled or features), **sections), http, folder)
    office.root, office.clock = root, sections["clock"]
    office.tokens = {ADMIN: await office.sign_in(root)}
    for role in OPERATOR_ROLES[1:]:
        office.tokens[role] = await office.sign_in(await office.hire(office.tokens[ADMIN], role, role, "default" if role == RA else None))
    return office
