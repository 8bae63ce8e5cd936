"""Profiles for operators, on the admin listener."""

from typing import Any

import msgspec

from greatseal.api.http import ADMINISTRATORS, OPERATOR_ROLES, AuthScheme, Call, Operator, OperatorCaller, Reply, Route, operator_route
from greatseal.api.issuance import Profile
from greatseal.api.problems import BadRequest, NotFound
from greatseal.host import Host
from greatseal_ca.profiles import Profiles
from greatseal_ca.settings import Id
from greatseal_ca.stored import StoredProfiles

AS_IN_FILE = "; send the keys of a table [profiles.<id>] as JSON"


class ProfilesOfOperators:
    """The routes."""

    def __init__(self, host: Host, profiles: Profiles, stored: StoredProfiles) -> None:
        self._host = host
        self._profiles = profiles
        self._stored = stored

    def routes(self) -> list[Route]:
        """None where no plugin knows operators."""
        if Operator.__name__ not in self._host.components(AuthScheme):
            return []
        return [
            operator_route("GET", "/admin/profiles", self.listed, OPERATOR_ROLES, "The profiles of every CA"),
            operator_route("POST", "/admin/profiles", self.create, ADMINISTRATORS, "Make a profile"),
            operator_route("GET", "/admin/profiles/{id}", self.show, OPERATOR_ROLES, "One profile"),
            operator_route("PUT", "/admin/profiles/{id}", self.replace, ADMINISTRATORS, "Replace a profile that an operator made"),
            operator_route("DELETE", "/admin/profiles/{id}", self.delete, ADMINISTRATORS, "Delete a profile that an operator made"),
        ]

    async def listed(self, call: Call) -> Reply:
        own = call.caller_as(OperatorCaller).only_ca
        offered = [self._shown(one) for ca_id in self._profiles.ca_ids if own in {None, ca_id} for one in self._profiles.of(ca_id).values()]
        return Reply.json({"profiles": offered})

    async def show(self, call: Call) -> Reply:
        return Reply.json(self._one(call.path["id"], call.caller_as(OperatorCaller).only_ca))

    async def create(self, call: Call) -> Reply:
        settings = await call.body(dict[str, Any])
        try:
            id = msgspec.convert(settings.pop("id", None), Id)
        except msgspec.ValidationError:
            raise BadRequest("id: expected 1 to 64 of a-z, 0-9, - and _, beginning with a letter or digit") from None
        await self._stored.create(id, settings, by=call.caller.subject)
        return Reply.json(self._one(id, None), status=201)

    async def replace(self, call: Call) -> Reply:
        id, settings = call.path["id"], await call.body(dict[str, Any])
        if settings.pop("id", id) != id:
            raise BadRequest("id: it is not that of the path; a profile keeps its id")
        await self._stored.replace(id, settings, by=call.caller.subject)
        return Reply.json(self._one(id, None))

    async def delete(self, call: Call) -> Reply:
        await self._stored.delete(call.path["id"], by=call.caller.subject)
        return Reply.empty()

    def _one(self, id: str, own: str | None) -> dict[str, Any]:
        found = [self._profiles.of(ca_id).get(id) for ca_id in self._profiles.ca_ids if own in {None, ca_id}]
        offered = [one for one in found if one is not None]
        if not offered:
            raise NotFound("there is no such profile")
        return {**self._shown(offered[0]), "ca_ids": [one.ca_id for one in offered]}

    def _shown(self, one: Profile) -> dict[str, Any]:
        settings = self._stored.in_force.get(one.id)
        return {
            "id": one.id,
            "ca_id": one.ca_id,
            "description": one.description,
            "issue_as": one.issue_as,
            "validity_days": one.validity_days,
            "eku": list(one.eku),
            "source": "configuration" if settings is None else "operator",
            "settings": settings,
        }
