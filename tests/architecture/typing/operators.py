"""Who runs the service: operators of the CA by their certificates, a web interface.

Examples of the contract, checked by mypy: no plugin has this code.
"""

import mimetypes
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec

from greatseal.api.http import Anonymous, AuthScheme, Call, Discovery, Operator, OperatorCaller, Reply, Route
from greatseal.api.inventory import CertificateQuery
from greatseal.api.issuance import Issuance
from greatseal.api.problems import Forbidden, NotFound, Unauthenticated
from greatseal.api.store import Database

# ---- ca-admin


class Operators(AuthScheme):
    """A certificate of the connection, by its fingerprint."""

    rule = Operator

    def __init__(self, known: Mapping[str, OperatorCaller]) -> None:
        self.known = known

    async def authenticate(self, call: Call) -> OperatorCaller:
        certificate = call.connection.certificate
        operator = None if certificate is None else self.known.get(sha256(certificate).hexdigest())
        if operator is None:
            raise Unauthenticated("this needs the certificate of an operator")
        rule = call.route.auth
        if not isinstance(rule, Operator) or operator.role not in rule.roles:
            raise Forbidden("your role may not do this")
        return operator


class Revocation(msgspec.Struct, frozen=True):
    """What an operator asks for."""

    reason: int | None = None


class CertificatesAdmin:
    """What operators see and revoke: of their own CA alone."""

    def __init__(self, issuance: Issuance, db: Database) -> None:
        self.issuance = issuance
        self.db = db

    def routes(self) -> Sequence[Route]:
        def route(method: str, path: str, *roles: str) -> partial[Route]:
            return partial(Route, method, path, auth=Operator(roles), listener="admin", style="acme-admin")

        return [
            route("GET", "/admin/certificates", "auditor", "administrator")(handler=self.listed),
            route("POST", "/admin/certificates/{id}/revocation", "administrator")(handler=self.revoke),
        ]

    async def listed(self, call: Call) -> Reply:
        found = await self.issuance.certificates(CertificateQuery(ca_id=call.caller_as(OperatorCaller).ca_id))
        return Reply.json([{"id": one.id, "status": one.status} for one in found])

    async def revoke(self, call: Call) -> Reply:
        operator, asked = call.caller_as(OperatorCaller), await call.body(Revocation)
        certificate = await self.issuance.certificate(call.path["id"])
        if certificate is None or operator.ca_id not in {None, certificate.ca_id}:
            raise NotFound("there is no such certificate")
        await self.db.write(partial(self.issuance.revoke, id=certificate.id, reason=asked.reason, by=operator.subject))
        return Reply.empty()


# ---- webui


class WebInterface:
    """Files of a folder, and what the pages may offer; they ask the admin API themselves."""

    def __init__(self, folder: Path) -> None:
        self.files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/ui/admin/{name*}", self.file, style="page", auth=Anonymous())]

    def discovery(self) -> Sequence[Discovery]:
        return [Discovery("features", lambda: {"webui": True})]

    async def file(self, call: Call) -> Reply:
        content = self.files.get(call.path["name"])
        if content is None:
            raise NotFound("there is no such file")
        return Reply(body=content, content_type=mimetypes.guess_type(call.path["name"])[0] or "application/octet-stream")
