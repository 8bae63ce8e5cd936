"""The admin API of the inventory, where an identity provider in the same service knows who is an administrator."""

import msgspec

from greatseal.api.declarations import PermissionName
from greatseal.api.http import AuthScheme, Call, Permission, Reply, Route
from greatseal.api.issuance import Certificate
from greatseal.api.lists import filter_of, listed, page_of
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal_ca.issue import CertificateAuthority
from greatseal_ca.profiles import X509
from greatseal_ca.revocation import REASONS, Reason
from greatseal_ca.search import Batch, query_of, revoke_all, shown, shown_all

PATH = "/api/admin/certificates"
OF_SERIAL = f"{PATH}/{{ca_id}}/{{serial}}"
PERMISSIONS = (
    PermissionName("certificates:read", "See the inventory of the CAs"),
    PermissionName("certificates:write", "Revoke certificates"),
)


class Revocation(msgspec.Struct, frozen=True):
    """What a revocation may say."""

    reason: Reason | None = None


class CertificatesAdmin:
    """/api/admin/certificates."""

    def __init__(self, host: Host, issuance: CertificateAuthority) -> None:
        self._host = host
        self._issuance = issuance

    def routes(self) -> list[Route]:
        """None where nobody could be asked whether the caller may: a CA without an identity provider."""
        if Permission.__name__ not in self._host.components(AuthScheme):
            return []
        reads, writes = Permission("certificates:read"), Permission("certificates:write")
        return [
            Route("GET", PATH, self.listed, auth=reads, summary="Certificates, newest first"),
            Route("POST", f"{PATH}/revocations", self.revoke_all, auth=writes, summary="Revoke many certificates"),
            Route("GET", OF_SERIAL, self.show, auth=reads, summary="One certificate by its CA and serial"),
            Route("POST", f"{OF_SERIAL}/revocation", self.revoke, auth=writes, summary="Revoke a certificate"),
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        found = await self._issuance.certificates(query_of(call, page, self._host.clock.now()))
        members = await shown_all(self._host, found)
        return listed(call, self._host.issuer, page, found, key=lambda one: one.id, shown=lambda one: members[one.id])

    async def show(self, call: Call) -> Reply:
        return Reply.json(shown(await self._host.db.read(self._named, call.path["ca_id"], _serial(call), _issue_as(call)), names=True))

    async def revoke(self, call: Call) -> Reply:
        asked = await call.body(Revocation) if await call.raw() else Revocation()
        reason = None if asked.reason is None else REASONS[asked.reason]
        named = (call.path["ca_id"], _serial(call), _issue_as(call))
        revoked = await self._host.db.write(self._revoke, named, reason, call.caller.subject)
        await self._issuance.publish([revoked])
        return Reply.json(shown(revoked))

    async def revoke_all(self, call: Call) -> Reply:
        return Reply.json(await revoke_all(self._host, self._issuance, await call.body(Batch), by=call.caller.subject))

    def _named(self, tx: Tx, ca_id: str, serial: bytes, issue_as: str) -> Certificate:
        found = self._issuance.find(tx, ca_id, serial, issue_as)
        if found is None:
            raise Refuse(NotFound("this CA has no certificate of this serial"))
        return found

    def _revoke(self, tx: Tx, named: tuple[str, bytes, str], reason: int | None, by: str) -> Certificate:
        return self._issuance.revoke(tx, self._named(tx, *named).id, reason, by=by)


def _serial(call: Call) -> bytes:
    """As this API and certificates show it: hexadecimal, with or without colons and leading zeros."""
    try:
        return bytes.fromhex(call.path["serial"].replace(":", "")).lstrip(b"\0")
    except ValueError:
        raise BadRequest("serial: expected hexadecimal digits, two for each octet") from None


def _issue_as(call: Call) -> str:
    return filter_of(call, "issue_as") or X509
