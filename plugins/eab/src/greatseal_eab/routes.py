"""/admin/eab: the keys that operators give out. The secret of a key is never shown again."""

from typing import Any

import msgspec

from greatseal.api.acme import grants_of
from greatseal.api.http import OPERATIONS, OPERATOR_ROLES, AuthScheme, Call, Operator, Reply, Route, operator_route
from greatseal.api.lists import LARGEST, number_of
from greatseal.api.moments import seconds
from greatseal.api.problems import BadRequest, NotFound
from greatseal.host import Host
from greatseal_eab.keys import EabKey, EabKeys, NewKey, OldKey
from greatseal_eab.settings import canonical_key, kid_problem

PATH = "/admin/eab"
ONE = f"{PATH}/{{kid}}"
USUAL, MOST = 200, 1000
_USED = {None: None, "true": True, "false": False}


class KeyBody(msgspec.Struct, frozen=True):
    """A new key."""

    kid: str
    hmac_key_b64u: str
    profile_grants: tuple[str, ...] | None = None


class EabAdmin:
    """The routes of keys."""

    def __init__(self, host: Host, keys: EabKeys) -> None:
        self._host = host
        self._keys = keys

    def routes(self) -> list[Route]:
        """None where nobody could say who an operator is."""
        if Operator.__name__ not in self._host.components(AuthScheme):
            return []
        return [  # no ca_ra writes, who is of one CA: a key is good at every CA of the server
            operator_route("POST", PATH, self.create, OPERATIONS, "Store an EAB key"),
            operator_route("GET", PATH, self.listed, OPERATOR_ROLES, "EAB keys, oldest first"),
            operator_route("GET", ONE, self.show, OPERATOR_ROLES, "One EAB key"),
            operator_route("DELETE", ONE, self.delete, OPERATIONS, "Delete an EAB key, a used one too"),
        ]

    async def create(self, call: Call) -> Reply:
        body = await call.body(KeyBody)
        if (problem := kid_problem(body.kid)) is not None:
            raise BadRequest(f"kid: {problem}")
        grants = grants_of(body.profile_grants)
        try:
            key = canonical_key(body.hmac_key_b64u)
        except ValueError as error:
            raise BadRequest(f"hmac_key_b64u: {error}") from None
        new = NewKey(kid=body.kid, hmac_key_b64u=key, by=call.caller.subject, profile_grants=grants)
        made = await self._host.db.write(self._keys.create, new)
        return Reply.json({"kid": made.kid, "created": seconds(made.created_at)}, status=201)

    async def listed(self, call: Call) -> Reply:
        used = call.query.get("used")
        if used not in _USED:
            raise BadRequest("used: expected true or false")
        # CA-130 names limit and offset, so this list has no pages by key.
        limit = number_of(call, "limit", least=0, default=USUAL, most=MOST)
        offset = number_of(call, "offset", least=0, default=0, most=LARGEST)
        found = await self._host.db.read(self._keys.listed, _USED[used], limit, offset)
        return Reply.json({"eab_keys": [_shown(one) for one in found]})

    async def show(self, call: Call) -> Reply:
        found = await self._host.db.read(self._keys.find, call.path["kid"])
        if found is None:
            raise NotFound("there is no key of this kid")
        return Reply.json(_shown(found))

    async def delete(self, call: Call) -> Reply:
        await self._host.db.write(self._keys.delete, OldKey(kid=call.path["kid"], by=call.caller.subject))
        return Reply.empty()


def _shown(one: EabKey) -> dict[str, Any]:
    return {
        "kid": one.kid,
        "created": seconds(one.created_at),
        "used_at": None if one.used_at is None else seconds(one.used_at),
        "profile_grants": one.profile_grants,
    }
