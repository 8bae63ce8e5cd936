"""Profiles that operators made: kept in the database, in force in this process from the commit on."""

from collections.abc import Mapping
from typing import Any, cast

import orjson
from cryptography import x509
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.declarations import Job
from greatseal.api.issuance import Issuer
from greatseal.api.problems import BadRequest, Conflict, Forbidden, NotFound
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal_ca import profiles as rules
from greatseal_ca.authorities import Authorities
from greatseal_ca.chains import constraint_problems
from greatseal_ca.pointers import Pointers
from greatseal_ca.profiles import X509, Profiles
from greatseal_ca.root import ROOT
from greatseal_ca.settings import CaSettings, IssueAs, ProfileSettings, ProfilesSettings
from greatseal_ca.tables import PROFILE, profile

MANY = 1000
"""Profiles that operators may make."""
IN_FILE = ("auth_hook", "auth_hook_timeout_secs")
"""What the configuration file alone says: which programs run here is for who administers the machine."""
Settings = Mapping[str, Any]

ALL = select(profile).order_by(profile.c.id)


class StoredProfiles:
    """Beside those of the configuration file, which nothing here changes."""

    def __init__(self, host: Host, cas: Mapping[str, CaSettings], profiles: Profiles, authorities: Authorities, pointers: Pointers) -> None:
        self._host = host
        self._cas = cas
        self._profiles = profiles
        self._authorities = authorities
        self._pointers = pointers
        self._tables = host.tables("profiles")
        self.in_force: dict[str, Settings] = {}
        """Their settings, by id."""

    def jobs(self) -> list[Job]:
        """What another process changed is read from time to time."""
        every = float(self._host.settings(ProfilesSettings).refresh_interval_secs)
        return [Job(name="ca-profiles", every=every, jitter=every, run=self.read)]

    async def read(self) -> None:
        """Put in force what the database has. A profile that does not fit this service any more is told in the log and not offered."""
        found = await self._host.db.read(_load)
        for id in self.in_force.keys() - found.keys():
            self._take_away(id)
        for id, settings in found.items():
            if settings != self.in_force.get(id):
                try:
                    self._put(id, settings)
                except ValueError as error:
                    self._take_away(id)
                    self._host.log.warning("a profile that an operator made is not offered", profile=id, reason=str(error))
        self._read_again()

    async def create(self, id: str, settings: Settings, *, by: str) -> None:
        """Raises BadRequest that names what is wrong, Conflict when there is one of that id."""
        self._check(id, settings)
        await self._host.db.write(self._create, id, settings, by)

    async def replace(self, id: str, settings: Settings, *, by: str) -> None:
        """Raises BadRequest that names what is wrong, NotFound, and Forbidden for one of the configuration file."""
        self._refuse_configured(id)
        self._check(id, settings)
        await self._host.db.write(self._replace, id, settings, by)

    async def delete(self, id: str, *, by: str) -> None:
        """Orders that named it cannot be finalized any more. Raises NotFound, and Forbidden for one of the configuration file."""
        self._refuse_configured(id)
        await self._host.db.write(self._delete, id, by)

    # ---- Transactions

    def _create(self, tx: Tx, id: str, settings: Settings, by: str) -> None:
        known = _load(tx)
        if id in known or id in self._tables.configured:
            raise Refuse(Conflict("there is a profile of that id"))
        if len(known) >= MANY:
            raise Refuse(Conflict(f"there are {MANY} profiles that operators made; delete one first"))
        tx.put(PROFILE, id, settings=orjson.dumps(settings).decode(), created_at=tx.now, updated_at=tx.now)
        self._told(tx, "profile.create", id, settings, by)

    def _replace(self, tx: Tx, id: str, settings: Settings, by: str) -> None:
        if id not in _load(tx):
            raise Refuse(NotFound("there is no such profile"))
        tx.put(PROFILE, id, settings=orjson.dumps(settings).decode(), updated_at=tx.now)
        self._told(tx, "profile.update", id, settings, by)

    def _delete(self, tx: Tx, id: str, by: str) -> None:
        if not tx.remove(PROFILE, id):
            raise Refuse(NotFound("there is no such profile"))
        self._told(tx, "profile.delete", id, None, by)

    def _told(self, tx: Tx, event_type: str, id: str, settings: Settings | None, by: str) -> None:
        tx.audit(AuditEvent(event_type=event_type, service="ca", principal=by, detail=f"profile {id}"))
        tx.changed("acme", "")
        tx.after_commit(lambda: self._change(id, settings))

    # ---- In this process

    def _change(self, id: str, settings: Settings | None) -> None:
        if settings is None:
            self._take_away(id)
        else:
            self._put(id, settings)
        self._read_again()

    def _put(self, id: str, settings: Settings) -> None:
        self._tables.put(id, settings)
        self.in_force[id] = settings

    def _take_away(self, id: str) -> None:
        if self.in_force.pop(id, None) is not None:
            self._tables.remove(id)

    def _read_again(self) -> None:
        self._profiles.read_again()
        self._pointers.read_again()

    # ---- What may be stored

    def _refuse_configured(self, id: str) -> None:
        if id in self._tables.configured:
            raise Forbidden("the profile stands in the configuration file; change it there")

    def _check(self, id: str, settings: Settings) -> None:
        if given := [key for key in IN_FILE if key in settings]:
            raise BadRequest(f"{given[0]}: the configuration file alone says this")
        try:
            made = self._tables.read(id, settings)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        own, issue_as = cast("ProfileSettings", made[ProfileSettings]), cast("IssueAs", made[IssueAs])
        if wrong := self._misfits(id, own, issue_as):
            raise BadRequest("; ".join(wrong))

    def _misfits(self, id: str, own: ProfileSettings, issue_as: IssueAs) -> list[str]:
        """What is wrong between a profile and the CAs, as a start would tell it."""
        if wrong := rules.problems(self._cas, {id: own}, whole=False):
            return wrong
        if left := [ca_id for ca_id in self._cas if own.ca_ids and ca_id not in own.ca_ids and self._profiles.of(ca_id).keys() <= {id}]:
            return [f"[profiles.{id}] ca_ids: CA {left[0]!r} has no other profile; name it too"]
        if issue_as.issue_as == ROOT or issue_as.issue_as not in self._host.components(Issuer):
            return [f"[profiles.{id}] issue_as: no enabled plugin issues this"]
        alone = Profiles(self._cas, {id: own}, {id: issue_as})
        pointers = Pointers(self._host.base_url, self._authorities.default_id, self._cas, alone.settings)
        wrong = [*pointers.problems(alone), *alone.too_long(self._authorities.look(self._host)[1], self._host.clock.now())]
        for ca_id in self._cas:
            if not (signed := alone.signed(ca_id)):
                continue
            if issuing := self._authorities.issuing.get(ca_id):
                wrong += constraint_problems([x509.load_der_x509_certificate(der) for der in issuing.chain], signed)
            else:
                wrong.append(f"[profiles.{id}] issue_as: CA {ca_id!r} signs no {X509} certificates")
        return wrong


def _load(tx: Tx) -> dict[str, Settings]:
    return {row.id: orjson.loads(row.settings) for row in tx.all(ALL)}
