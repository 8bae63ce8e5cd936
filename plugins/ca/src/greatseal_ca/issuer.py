"""The issuer of ordinary certificates."""

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from greatseal import der, faults
from greatseal.api.acme import BadCsr
from greatseal.api.issuance import Bounds, Draft, Frame, IssuanceRequest, Issued, Issuer, Prepared
from greatseal.api.problems import Internal, Unavailable
from greatseal.api.store import Tx
from greatseal_ca.algorithms import HASHES
from greatseal_ca.authorities import Authorities
from greatseal_ca.build import draw_serial
from greatseal_ca.generations import PEM_CHAIN
from greatseal_ca.pointers import Pointers
from greatseal_ca.profiles import X509
from greatseal_ca.shards import Shards

MEDIA_TYPE = PEM_CHAIN


class X509Issuer(Issuer):
    """Signs with the issuing key of the CA what was composed and recorded, as it is."""

    issue_as = X509

    def __init__(self, authorities: Authorities, pointers: Pointers, shards: Shards) -> None:
        self._authorities = authorities
        self._pointers = pointers
        self._shards = shards
        self.draw_serial = draw_serial

    def bounds(self, ca_id: str) -> Bounds:
        return self._authorities.issuing[ca_id].bounds

    def frame(self, request: IssuanceRequest) -> Frame:
        issuing = self._authorities.issuing[request.ca_id]
        if request.csr.spki in self._authorities.own_keys[request.ca_id]:
            raise BadCsr("the key of the CSR is that of the CA; make another one")
        shard = self._shards.choose(request.ca_id)
        return Frame(
            kid=issuing.signer.info.kid,
            issuer=issuing.subject,
            algorithm=issuing.algorithm,
            serial=self.draw_serial(),
            extensions=(issuing.key_identifier, *self._pointers.extensions(request.ca_id, request.profile.id, shard, issuing.number)),
            crl_shard=shard,
        )

    def prepare(self, tx: Tx, draft: Draft) -> None:
        """Its place on a revocation list."""
        if draft.crl_shard is not None:
            self._shards.take(tx, draft.request.ca_id, draft.crl_shard, draft.kid)

    async def issue(self, prepared: Prepared) -> Issued:
        issuing = self._authorities.of_key(prepared.ca_id, prepared.kid)
        if issuing is None or prepared.serial is None:
            raise Unavailable("the CA cannot sign now", cause=f"CA {prepared.ca_id} has not the key {prepared.kid}")
        algorithm = der.children(prepared.tbs)[2]  # as recorded: the configuration may name another hash since
        faults.point("ca.issue.signing")
        signature = await issuing.signer.sign(prepared.tbs, hash_alg=HASHES[algorithm])
        faults.point("ca.issue.signed")
        certificate = der.signed(prepared.tbs, algorithm, signature)
        try:
            x509.load_der_x509_certificate(certificate).verify_directly_issued_by(issuing.certificate)
        except (InvalidSignature, ValueError, TypeError) as error:
            raise Internal(cause=f"the signature of key {prepared.kid} under certificate {prepared.id} is wrong: {error}") from None
        return Issued(der=certificate, chain=issuing.delivered, media_type=MEDIA_TYPE, serial=prepared.serial)

    async def settle(self, prepared: Prepared) -> Issued | None:
        """Signing again gives the same certificate where the key repeats itself; otherwise one may exist that nobody knows."""
        issuing = self._authorities.of_key(prepared.ca_id, prepared.kid)
        if issuing is None:  # the CA was taken out of the configuration, or its key is gone
            return None
        return await self.issue(prepared) if issuing.signer.deterministic else None
