"""The admin API of the inventory, where an identity provider in the same service knows who is an administrator."""

from typing import Any, Literal

import msgspec

from greatseal.api.declarations import PermissionName
from greatseal.api.http import AuthScheme, Call, Permission, Reply, Route
from greatseal.api.issuance import Certificate, CertificateQuery
from greatseal.api.lists import filter_of, listed, page_of
from greatseal.api.moments import seconds
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal_ca.issue import CertificateAuthority
from greatseal_ca.profiles import X509
from greatseal_ca.revocation import REASONS

PATH = "/api/admin/certificates"
OF_SERIAL = f"{PATH}/{{ca_id}}/{{serial}}"
PERMISSIONS = (
    PermissionName("certificates:read", "See the inventory of the CAs"),
    PermissionName("certificates:write", "Revoke certificates"),
)
_WORDS = {number: word for word, number in REASONS.items()}


class Revocation(msgspec.Struct, frozen=True):
    """What a revocation may say."""

    reason: (
        Literal["unspecified", "keyCompromise", "affiliationChanged", "superseded", "cessationOfOperation", "privilegeWithdrawn"] | None
    ) = None


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
            Route("GET", OF_SERIAL, self.show, auth=reads, summary="One certificate by its CA and serial"),
            Route("POST", f"{OF_SERIAL}/revocation", self.revoke, auth=writes, summary="Revoke a certificate"),
        ]

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        query = CertificateQuery(
            limit=page.wanted,
            before=page.after or None,
            ca_id=filter_of(call, "ca_id"),
            account_id=filter_of(call, "account_id"),
            status=filter_of(call, "status"),
        )
        found = await self._issuance.certificates(query)
        return listed(call, self._host.issuer, page, found, key=lambda one: one.id, shown=_shown)

    async def show(self, call: Call) -> Reply:
        return Reply.json(_shown(await self._host.db.read(self._named, call.path["ca_id"], _serial(call), _issue_as(call))))

    async def revoke(self, call: Call) -> Reply:
        asked = await call.body(Revocation) if await call.raw() else Revocation()
        reason = None if asked.reason is None else REASONS[asked.reason]
        named = (call.path["ca_id"], _serial(call), _issue_as(call))
        revoked = await self._host.db.write(self._revoke, named, reason, call.caller.subject)
        await self._issuance.publish([revoked])
        return Reply.json(_shown(revoked))

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


def _shown(one: Certificate) -> dict[str, Any]:
    """A certificate; what does not apply is left out, never null."""
    optional = {
        "serial": one.serial.hex() if one.serial else None,
        "account_id": one.account_id,
        "order_id": one.order_id,
        "revoked_at": one.revoked_at and seconds(one.revoked_at),
        "reason": None if one.reason is None else _WORDS[one.reason],
    }
    return {
        "id": one.id,
        "ca_id": one.ca_id,
        "status": one.status,
        "profile": one.profile,
        **{name: value for name, value in optional.items() if value is not None},
        "not_before": seconds(one.not_before),
        "not_after": seconds(one.not_after),
    }
