"""Whether what an operator proved who they are with still proves it: looked at when they sign in, and at every request of the session."""

from collections.abc import Sequence
from functools import cached_property

from greatseal.api.acme import EabKeys
from greatseal.api.issuance import Issuance
from greatseal.api.moments import SECOND
from greatseal.api.services import EABKEYS, ISSUANCE
from greatseal.api.store import Tx
from greatseal.host import Host
from greatseal.jose.acceptance import spki_sha256
from greatseal_ca_admin.certificates import in_der
from greatseal_ca_admin.sessions import Proof

NO_KEY = "the EAB key of the operator was deleted"


class Proofs:
    """Of one service."""

    def __init__(self, host: Host, ca_ids: Sequence[str]) -> None:
        self._host = host
        self._ca_ids = ca_ids

    async def fault(self, proof: Proof) -> str | None:
        """Why it proves nobody any more."""
        if proof.certificate is not None:
            return await self.of_certificate(proof.certificate)
        if proof.gssapi_principal is not None:
            return None  # another principal of the operator ends the sessions of this one
        return await self._host.db.read(self._of_key, proof)

    async def of_certificate(self, der: bytes) -> str | None:
        """Why the certificate proves nobody, whoever has it. The listener looked at the issuer."""
        try:
            certificate, key = in_der(der)
        except ValueError as error:
            return f"the certificate is not accepted: {error}"
        now = self._host.clock.now()
        begin, end = (int(moment.timestamp()) * SECOND for moment in (certificate.not_valid_before_utc, certificate.not_valid_after_utc))
        if not begin <= now < end + SECOND:
            return "the certificate is not valid at this time"
        if await self._host.blocked_keys.find(spki_sha256(key)):
            return "the key of the certificate is blocked"
        if self._issuance is not None and await self._host.db.read(self._is_revoked, certificate.serial_number, der):
            return "the certificate was revoked"
        return None

    @cached_property
    def _issuance(self) -> Issuance | None:
        return self._host.optional_service(ISSUANCE)

    @cached_property
    def _keys(self) -> EabKeys | None:
        return self._host.optional_service(EABKEYS)

    def _is_revoked(self, tx: Tx, number: int, der: bytes) -> bool:
        """Of a certificate of this service."""
        assert self._issuance is not None
        serial = number.to_bytes((number.bit_length() + 7) // 8)
        found = (self._issuance.find(tx, ca_id, serial) for ca_id in self._ca_ids)
        return any(one is not None and one.der == der and one.status != "issued" for one in found)

    def _of_key(self, tx: Tx, proof: Proof) -> str | None:
        key = None if self._keys is None or proof.eab_kid is None else self._keys.find(tx, proof.eab_kid)
        return NO_KEY if key is None or key.made_at != proof.eab_made_at else None
