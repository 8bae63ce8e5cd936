"""/admin/operators."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import UNSET, UnsetType

from greatseal.api.acme import EabKeys
from greatseal.api.audit import AuditEvent
from greatseal.api.http import ADMINISTRATORS, Call, Reply, Route, operator_route
from greatseal.api.lists import listed, page_of
from greatseal.api.problems import BadRequest, Problem
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal_ca_admin import operators
from greatseal_ca_admin.certificates import in_pem
from greatseal_ca_admin.eab_sign_in import is_kid
from greatseal_ca_admin.lockout import unlock
from greatseal_ca_admin.operators import Fields
from greatseal_ca_admin.settings import principal_problem

PATH = "/admin/operators"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class Unprocessable(Problem):
    """The change would make what cannot be."""

    status, error, type = 422, "invalid_request", "malformed"


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator as a caller writes it: POST, PUT. ``certificate`` is PEM; without it the listener has to trust its issuer."""

    name: str
    role: str
    cert_fingerprint: str | None = None
    certificate: str | None = None
    gssapi_principal: str | None = None
    eab_kid: str | None = None
    ca_id: str | None = None
    active: bool = True


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a PATCH changes; what is left out stays."""

    name: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    cert_fingerprint: str | UnsetType | None = UNSET
    certificate: str | UnsetType | None = UNSET
    gssapi_principal: str | UnsetType | None = UNSET
    eab_kid: str | UnsetType | None = UNSET
    ca_id: str | UnsetType | None = UNSET
    active: bool | UnsetType = UNSET


class OperatorsAdmin:
    """The routes. ``retrust`` has the listener trust the certificates that operators have now."""

    def __init__(self, host: Host, ca_ids: Sequence[str], retrust: Callable[[], Awaitable[None]], keys: EabKeys | None) -> None:
        self._host = host
        self._ca_ids = ca_ids
        self._retrust = retrust
        self._keys = keys

    def routes(self) -> list[Route]:
        """All of them."""
        only, one = ADMINISTRATORS, f"{PATH}/{{id}}"
        return [
            operator_route("GET", PATH, self.listed, only, "Operators by name"),
            operator_route("POST", PATH, self.create, only, "Make an operator"),
            operator_route("GET", one, self.show, only, "One operator"),
            operator_route("PUT", one, self.replace, only, "Replace an operator"),
            operator_route("PATCH", one, self.change, only, "Change an operator"),
            operator_route("DELETE", one, self.delete, only, "Delete an operator"),
            operator_route("POST", f"{one}/unlock", self.unlock, only, "Unlock an operator after failed sign-ins"),
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        found = await self._host.db.read(operators.listed, page.wanted, page.after)
        return listed(call, self._host.base_url, page, found, key=lambda one: str(one["name"]), shown=lambda one: one)

    async def show(self, call: Call) -> Reply:
        return Reply.json(await self._host.db.read(operators.shown, call.path["id"]))

    async def create(self, call: Call) -> Reply:
        fields = self._checked(await call.body(Asked))
        made = await self._host.db.write(self._create, self._host.handles.new_id(), fields, call.caller.subject)
        await self._retrust()
        return Reply.json(made, status=201)

    async def replace(self, call: Call) -> Reply:
        fields = self._checked(await call.body(Asked))
        made = await self._host.db.write(self._change, call.path["id"], fields, call.caller.subject)
        await self._retrust()
        return Reply.json(made)

    async def change(self, call: Call) -> Reply:
        asked = await call.body(Changes)
        given = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET}
        made = await self._host.db.write(self._patch, call.path["id"], given, call.caller.subject)
        await self._retrust()
        return Reply.json(made)

    async def delete(self, call: Call) -> Reply:
        await self._host.db.write(operators.delete, call.path["id"], by=call.caller.subject)
        await self._retrust()
        return Reply.empty()

    async def unlock(self, call: Call) -> Reply:
        await self._host.db.write(_unlock, call.path["id"], call.caller.subject)
        return Reply.empty()

    def _create(self, tx: Tx, id: str, fields: Fields, by: str) -> dict[str, Any]:
        return operators.create(tx, id, self._with_key(tx, fields), by=by)

    def _change(self, tx: Tx, id: str, fields: Fields, by: str) -> dict[str, Any]:
        return operators.change(tx, id, self._with_key(tx, fields), by=by)

    def _patch(self, tx: Tx, id: str, given: Mapping[str, Any], by: str) -> dict[str, Any]:
        """What is not given stays as it is in this transaction: another one may have changed it since the request came."""
        before = operators.fields_of(tx, id)
        stored = {name: getattr(before, name) for name in ("name", "role", "gssapi_principal", "eab_kid", "ca_id", "active")}
        if "certificate" not in given and "cert_fingerprint" not in given:
            stored["cert_fingerprint"] = before.cert_fingerprint
        try:
            fields = self._checked(Asked(**{**stored, **given}))
        except BadRequest as problem:
            raise Refuse(Unprocessable(problem.detail)) from None
        if fields.cert_fingerprint == before.cert_fingerprint and fields.certificate is None:
            fields = msgspec.structs.replace(fields, certificate=before.certificate)
        if "eab_kid" not in given:
            fields = msgspec.structs.replace(fields, eab_made_at=before.eab_made_at)
        return self._change(tx, id, fields, by)

    def _with_key(self, tx: Tx, fields: Fields) -> Fields:
        """Bound to the key that has the id now, unless it is the one that was bound before."""
        if fields.eab_kid is None or fields.eab_made_at is not None:
            return fields
        found = None if self._keys is None else self._keys.find(tx, fields.eab_kid)
        if found is None:
            raise Refuse(BadRequest("eab_kid: there is no EAB key of this id; make one first"))
        return msgspec.structs.replace(fields, eab_made_at=found.made_at)

    def _checked(self, asked: Asked) -> Fields:
        der = None if asked.certificate is None else der_of(asked.certificate)
        fingerprint = asked.cert_fingerprint and asked.cert_fingerprint.replace(":", "").lower()
        if fingerprint is not None and not _FINGERPRINT.fullmatch(fingerprint):
            raise BadRequest("cert_fingerprint: expected the SHA-256 of the certificate, 64 hexadecimal digits")
        if der is not None and fingerprint not in {None, sha256(der).hexdigest()}:
            raise BadRequest("cert_fingerprint: it is not that of the certificate; leave one of them out")
        principal = asked.gssapi_principal
        if principal is not None and (problem := principal_problem(principal)) is not None:
            raise BadRequest(f"gssapi_principal: {problem}")
        if asked.eab_kid is not None and not is_kid(asked.eab_kid):
            raise BadRequest("eab_kid: expected 1 to 255 printable characters")
        fields = Fields(
            name=asked.name,
            role=asked.role,
            cert_fingerprint=fingerprint if der is None else sha256(der).hexdigest(),
            certificate=der,
            gssapi_principal=principal,
            eab_kid=asked.eab_kid,
            eab_made_at=None,
            ca_id=asked.ca_id,
            active=asked.active,
        )
        operators.check(fields, self._ca_ids)
        return fields


def der_of(pem: str) -> bytes:
    """The one certificate of a PEM text. Raises BadRequest."""
    try:
        certificate = in_pem(pem.encode())
    except ValueError as error:
        raise BadRequest(f"certificate: expected one in PEM, of a key that is accepted: {error}") from None
    return certificate.public_bytes(Encoding.DER)


def _unlock(tx: Tx, id: str, by: str) -> None:
    fields = operators.fields_of(tx, id)
    unlock(tx, id)
    tx.audit(AuditEvent(event_type="operator.unlock", service="ca", sub=fields.name, principal=by, detail=f"operator {id}"))
