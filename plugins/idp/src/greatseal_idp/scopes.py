"""Scopes (RFC 6749 s3.3) and the claims that they release (OpenID Connect Core s5.4): a snapshot, and its administration."""

import re
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

import msgspec
import orjson
from sqlalchemy import select

from greatseal.api.audit import AuditEvent
from greatseal.api.declarations import ScopeDefinition
from greatseal.api.identity import AccessDenied
from greatseal.api.messages import Message, marked
from greatseal.api.problems import BadRequest, Forbidden
from greatseal.api.store import Refuse, Tx
from greatseal.db.tables import param
from greatseal.host import Host
from greatseal_idp import tables as t

MAX_NAME = 128
MAX_DESCRIPTION = 1024
MAX_CLAIMS = 100

INTROSPECT = "introspect"
"""A client with this scope may ask about every token: a resource server without an audience of its own.

It has no definition: it stands in registrations and in no token.
"""

_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_CLAIM = re.compile(r"[\x21-\x7e]{1,128}")

_ALL = select(t.scope).order_by(t.scope.c.name)
_BY_NAME = select(t.scope).where(t.scope.c.name == param("name"))

PROFILE_CLAIMS = (
    "name", "family_name", "given_name", "middle_name", "nickname", "preferred_username", "profile", "picture", "website", "gender",
    "birthdate", "zoneinfo", "locale", "updated_at",
)  # fmt: skip

SYSTEM_SCOPES = (
    ScopeDefinition("openid", marked("Sign you in"), ("sub",)),
    ScopeDefinition("offline_access", marked("Keep access while you are away")),
    ScopeDefinition("profile", marked("See your name and profile"), PROFILE_CLAIMS),
    ScopeDefinition("email", marked("See your e-mail address"), ("email", "email_verified")),
    ScopeDefinition("phone", marked("See your phone number"), ("phone_number", "phone_number_verified")),
    ScopeDefinition("address", marked("See your postal address"), ("address",)),
    ScopeDefinition("groups", marked("See the groups that you are in"), ("groups",)),
    ScopeDefinition("directory.read", "Look up users and groups of the directory"),
)
"""The built-in scopes. directory.read releases no claims: it is a permission at the identity API."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """A scope definition as it is stored."""

    name: str
    description: str
    claims: tuple[str, ...]
    is_system: bool

    @property
    def definition(self) -> ScopeDefinition:
        """As plugins know it."""
        return ScopeDefinition(self.name, self.description, self.claims)


class Asked(msgspec.Struct, frozen=True):
    """What a client wants to be allowed: ``scopes`` by their names, and ``implied``.

    Those release claims that it asks for by name (OpenID Connect Core s5.5). They are allowed like the others, and no token has them.
    """

    scopes: tuple[str, ...]
    implied: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Both."""
        return (*self.scopes, *self.implied)

    def within(self, allowed: Container[str]) -> "Asked":
        """Those that are allowed."""
        scopes = tuple([name for name in self.scopes if name in allowed])
        return Asked(scopes, self.implied and tuple([name for name in self.implied if name in allowed]))

    def permitted(self, allowed: Container[str]) -> "Asked":
        """Those that the grant checks left. Raises AccessDenied when there are ``scopes`` and none is left."""
        left = self.within(allowed)
        if self.scopes and not left.scopes:
            raise AccessDenied(Message("nothing of what was asked for may be granted"))
        return left


class SystemScope(Forbidden):
    """A built-in scope can be neither changed nor deleted."""


def is_scope_token(text: str) -> bool:
    """Whether ``text`` is a scope-token (RFC 6749 s3.3)."""
    return _TOKEN.fullmatch(text) is not None


class Scopes:
    """Every scope definition. Reads are from memory."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._snapshot = host.changes.snapshot([t.SCOPE.name], _load_all)

    async def all(self) -> Mapping[str, Scope]:
        """Every definition, by name."""
        return await self._snapshot.get()

    async def open(self) -> None:
        """At the start: make the system scopes that are not there yet."""
        wanted = list(self._host.components(ScopeDefinition).values())
        known = await self.all()
        missing = [one for one in wanted if one.name not in known or not known[one.name].is_system]
        if missing:
            await self._host.db.write(_make_system, missing)

    async def put(self, name: str, description: str, claims: Sequence[str], *, by: str) -> tuple[Scope, bool]:
        """Create or replace a custom scope; the flag tells whether it is new.

        Raises :class:`SystemScope`, and BadRequest for a name that is no scope-token, or bad claims.
        """
        scope = Scope(name=name, description=description, claims=tuple(dict.fromkeys(claims)), is_system=False)
        _check(scope)
        return scope, await self._host.db.write(_put, scope, by)

    async def delete(self, name: str, *, by: str) -> bool:
        """Delete a custom scope; False when there is none. Raises :class:`SystemScope`."""
        return await self._host.db.write(_delete, name, by)


def _check(scope: Scope) -> None:
    if not is_scope_token(scope.name) or len(scope.name) > MAX_NAME:
        raise BadRequest(f"a scope's name is 1 to {MAX_NAME} printable ASCII characters without space, quote and backslash")
    if len(scope.description) > MAX_DESCRIPTION:
        raise BadRequest(f"description: at most {MAX_DESCRIPTION} characters")
    if "\0" in scope.description:
        raise BadRequest("description: a NUL cannot be kept")
    if len(scope.claims) > MAX_CLAIMS or not all(_CLAIM.fullmatch(claim) for claim in scope.claims):
        raise BadRequest(f"claims: at most {MAX_CLAIMS} names of 1 to 128 printable ASCII characters")


def _load_all(tx: Tx) -> Mapping[str, Scope]:
    return MappingProxyType(
        {
            row.name: Scope(
                name=row.name, description=row.description, claims=tuple(orjson.loads(row.claims)), is_system=bool(row.is_system)
            )
            for row in tx.all(_ALL)
        }
    )


def _make_system(tx: Tx, missing: Sequence[ScopeDefinition]) -> None:
    for one in missing:
        claims = orjson.dumps(one.claims).decode()
        tx.put(t.SCOPE, one.name, description=one.description, claims=claims, is_system=1)


def _put(tx: Tx, scope: Scope, by: str) -> bool:
    row = tx.one(_BY_NAME, name=scope.name)
    if row is not None and row.is_system:
        raise Refuse(SystemScope("a system scope cannot be changed"))
    tx.put(t.SCOPE, scope.name, description=scope.description, claims=orjson.dumps(scope.claims).decode(), is_system=0)
    tx.audit(AuditEvent(event_type="scope_updated", service="idp", sub=by, detail=scope.name))
    return row is None


def _delete(tx: Tx, name: str, by: str) -> bool:
    row = tx.one(_BY_NAME, name=name)
    if row is None:
        return False
    if row.is_system:
        raise Refuse(SystemScope("a system scope cannot be deleted"))
    tx.remove(t.SCOPE, name)
    tx.audit(AuditEvent(event_type="scope_deleted", service="idp", sub=by, detail=name))
    return True
