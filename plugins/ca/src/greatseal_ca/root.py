"""What the root of a CA signs: issuing certificates after the first, and cross-certificates."""

from collections.abc import Mapping

from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.api.issuance import Bounds, Frame, IssuanceRequest, Issued, Issuer, Prepared
from greatseal.api.problems import BadRequest, Unavailable
from greatseal_ca.algorithms import signature_algorithm
from greatseal_ca.authorities import Authorities
from greatseal_ca.authority import Made, sign_recorded
from greatseal_ca.build import authority_key_identifier, draw_serial, extension, subject_of
from greatseal_ca.generations import OF_ROOT
from greatseal_ca.issuer import MEDIA_TYPE
from greatseal_ca.pointers import Pointers
from greatseal_ca.settings import CaSettings
from greatseal_ca.validity import moment_of

ROOT = "root"
"""The ``issue_as`` of certificates that the root of a CA signs; no profile of the configuration has it."""


class RootIssuer(Issuer):
    """Signs certificates of CAs, and no others, with the root that was made here."""

    issue_as = ROOT
    signs_cas = True

    def __init__(self, authorities: Authorities, settings: Mapping[str, CaSettings], pointers: Pointers) -> None:
        self._authorities = authorities
        self._settings = settings
        self._pointers = pointers

    def bounds(self, ca_id: str) -> Bounds:
        certificate = self._root(ca_id).certificate
        return Bounds(begin=moment_of(certificate.not_valid_before_utc), end=moment_of(certificate.not_valid_after_utc))

    def frame(self, request: IssuanceRequest) -> Frame:
        if request.profile.path_length is None:
            raise BadRequest("the root signs certificates of CAs alone")
        root = self._root(request.ca_id)
        return Frame(
            kid=root.signer.info.kid,
            issuer=subject_of(root.certificate),
            algorithm=signature_algorithm(root.signer.info.algorithm, self._settings[request.ca_id].hash_alg),
            serial=draw_serial(),
            extensions=(extension(authority_key_identifier(root.certificate)), *self._pointers.of_root(request.ca_id)),
            crl_shard=OF_ROOT,
        )

    async def issue(self, prepared: Prepared) -> Issued:
        root = self._root(prepared.ca_id)
        if root.signer.info.kid != prepared.kid or prepared.serial is None:
            raise Unavailable("the root cannot sign now", cause=f"CA {prepared.ca_id} has not the root key {prepared.kid}")
        certificate = await sign_recorded(root.signer, prepared.tbs, root.certificate)
        return Issued(der=certificate.public_bytes(Encoding.DER), chain=(root.der,), media_type=MEDIA_TYPE, serial=prepared.serial)

    async def settle(self, prepared: Prepared) -> Issued | None:
        root = self._authorities.roots.get(prepared.ca_id)
        if root is None or root.signer.info.kid != prepared.kid or not root.signer.deterministic:
            return None
        return await self.issue(prepared)

    def _root(self, ca_id: str) -> Made:
        if (root := self._authorities.roots.get(ca_id)) is None:
            raise Unavailable("the root of this CA is not here", cause=f"CA {ca_id} has no root in this database")
        return root
