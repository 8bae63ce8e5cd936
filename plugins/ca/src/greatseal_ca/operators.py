"""The CA for its operators, on the admin listener: certificates, lists, CAs."""

from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from greatseal.api.audit import AuditEvent
from greatseal.api.http import OPERATIONS, OPERATOR_ROLES, AuthScheme, Call, Operator, OperatorCaller, Reply, Route, operator_route
from greatseal.api.issuance import Certificate, Issuer
from greatseal.api.lists import filter_of, page_of
from greatseal.api.moments import seconds
from greatseal.api.problems import BadRequest, Forbidden, NotFound
from greatseal.api.store import Refuse, Tx
from greatseal.host import Host
from greatseal_ca.authorities import Authorities, Issuing
from greatseal_ca.inventory import as_pem, labelled
from greatseal_ca.issue import CertificateAuthority
from greatseal_ca.lists import Lists
from greatseal_ca.profiles import Profiles
from greatseal_ca.revocation import Reason
from greatseal_ca.search import Batch, details, ending_of, paged, query_of, reason_of, revoke_all, shown

REVOKERS = (*OPERATIONS, "ca_ra")


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What POST /admin/revoke says."""

    cert_id: str
    reason: int | Reason | None = None


class OperatorsOfCa:
    """The routes."""

    def __init__(self, host: Host, issuance: CertificateAuthority, authorities: Authorities, profiles: Profiles, lists: Lists) -> None:
        self._host = host
        self._issuance = issuance
        self._authorities = authorities
        self._profiles = profiles
        self._lists = lists

    def routes(self) -> list[Route]:
        """None where no plugin knows operators."""
        if Operator.__name__ not in self._host.components(AuthScheme):
            return []
        return [
            operator_route("GET", "/admin/certs", self.listed, OPERATOR_ROLES, "Certificates, newest first"),
            operator_route("GET", "/admin/certs/expiring", self.expiring, OPERATOR_ROLES, "Certificates that end and were not renewed"),
            operator_route("GET", "/admin/certs/{id}", self.show, OPERATOR_ROLES, "One certificate"),
            operator_route("GET", "/admin/certs/{id}/download", self.download, REVOKERS, "A certificate in PEM, or DER with ?format=der"),
            operator_route("POST", "/admin/revoke", self.revoke, REVOKERS, "Revoke a certificate"),
            operator_route("POST", "/admin/revocations", self.revoke_all, REVOKERS, "Revoke many certificates"),
            operator_route("POST", "/admin/crl/force", self.force_all, OPERATIONS, "Make all revocation lists again"),
            operator_route("POST", "/admin/ca/{id}/crl/force", self.force, OPERATIONS, "Make the revocation lists of a CA again"),
            operator_route("GET", "/admin/cas", self.cas, OPERATIONS, "The CAs"),
            operator_route("GET", "/admin/cas/{id}", self.ca, OPERATIONS, "One CA"),
            operator_route("GET", "/admin/cas/{id}/cert", self.ca_certificate, OPERATIONS, "A CA and those above it, in PEM"),
        ]

    # ---- Certificates

    async def listed(self, call: Call) -> Reply:
        query = query_of(call, page_of(call), self._host.clock.now(), ca_id=call.caller_as(OperatorCaller).only_ca)
        return await paged(self._host, call, await self._issuance.page(query))

    async def expiring(self, call: Call) -> Reply:
        query = ending_of(call, self._host.clock.now(), ca_id=call.caller_as(OperatorCaller).only_ca)
        return await paged(self._host, call, await self._issuance.ending(query))

    async def show(self, call: Call) -> Reply:
        certificate = await self._seen(call)
        kept = await details(self._host, [certificate], whole=True)
        return Reply.json({**shown(certificate, names=True), **kept.get(certificate.id, {})})

    async def download(self, call: Call) -> Reply:
        form = filter_of(call, "format") or "pem"
        if form not in {"pem", "der"}:
            raise BadRequest("format: expected pem or der")
        certificate = await self._seen(call)
        if certificate.der is None:
            raise NotFound("the certificate is not signed")
        if form == "der":
            return Reply(body=certificate.der, content_type="application/pkix-cert")
        issuer = self._host.components(Issuer).get(certificate.issue_as)
        if issuer is not None and issuer.pem_label != Issuer.pem_label:
            return Reply(body=labelled(issuer.pem_label, certificate.der).encode(), content_type="application/x-pem-file")
        return Reply(body=as_pem([certificate.der, *certificate.chain]).encode(), content_type="application/pem-certificate-chain")

    async def revoke(self, call: Call) -> Reply:
        asked = await call.body(Revocation)
        revoked = await self._host.db.write(self._revoke, asked, call.caller_as(OperatorCaller).only_ca, call.caller.subject)
        await self._issuance.publish([revoked])
        return Reply.empty()

    async def revoke_all(self, call: Call) -> Reply:
        batch, operator = await call.body(Batch), call.caller_as(OperatorCaller)
        return Reply.json(await revoke_all(self._host, self._issuance, batch, by=operator.subject, ca_id=operator.only_ca))

    def _revoke(self, tx: Tx, asked: Revocation, own: str | None, by: str) -> Certificate:
        """``own`` is the only CA of whoever asks, None for all."""
        ca_id = self._issuance.subscriber_of(tx, asked.cert_id)
        if ca_id is not None and own not in {None, ca_id}:
            raise Refuse(Forbidden("the certificate is that of a CA, or of another CA than yours"))
        return self._issuance.revoke(tx, asked.cert_id, reason_of(asked.reason), by=by)

    async def _seen(self, call: Call) -> Certificate:
        """The certificate of the path; of a CA that is not the operator's there is none."""
        found = await self._issuance.certificate(call.path["id"])
        if found is None or call.caller_as(OperatorCaller).only_ca not in {None, found.ca_id}:
            raise NotFound("there is no such certificate")
        return found

    # ---- Lists and CAs

    async def force_all(self, call: Call) -> Reply:
        return await self._forced(call, *self._authorities.issuing)

    async def force(self, call: Call) -> Reply:
        return await self._forced(call, self._issuing(call).ca_id)

    async def _forced(self, call: Call, *ca_ids: str) -> Reply:
        """Who asked is noted first: numbers are used up even where a list cannot be signed."""
        numbers: dict[str, list[int]] = {}
        for ca_id in ca_ids:
            asked = AuditEvent(event_type="crl.force", service="ca", principal=call.caller.subject, detail=f"the lists of CA {ca_id}")
            await self._host.audit_log(asked)
            numbers[ca_id] = await self._lists.force(ca_id)
        return Reply.json({"crl_numbers": numbers})

    async def cas(self, _call: Call) -> Reply:
        return Reply.json({"cas": [self._shown_ca(one) for one in self._authorities.issuing.values()]})

    async def ca(self, call: Call) -> Reply:
        return Reply.json(self._shown_ca(self._issuing(call)))

    async def ca_certificate(self, call: Call) -> Reply:
        return Reply(body=as_pem(self._issuing(call).chain).encode(), content_type="application/pem-certificate-chain")

    def _issuing(self, call: Call) -> Issuing:
        found = self._authorities.issuing.get(call.path["id"])
        if found is None:
            raise NotFound("there is no such CA")
        return found

    def _shown_ca(self, one: Issuing) -> dict[str, Any]:
        certificate = x509.load_der_x509_certificate(one.chain[0])
        return {
            "id": one.ca_id,
            "is_default": one.ca_id == self._authorities.default_id,
            "subject": certificate.subject.rfc4514_string(),
            "issuer": certificate.issuer.rfc4514_string(),
            "serial": f"{certificate.serial_number:x}",
            "fingerprint": certificate.fingerprint(hashes.SHA256()).hex(),
            "not_before": int(certificate.not_valid_before_utc.timestamp()),
            "not_after": int(certificate.not_valid_after_utc.timestamp()),
            "issues_until": seconds(one.bounds.end),
            "profiles": list(self._profiles.of(one.ca_id)),
        }
