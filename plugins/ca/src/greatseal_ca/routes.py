"""The certificates of the CAs, for those who want to trust them."""

from hashlib import sha256

from cryptography import x509

from greatseal.api.http import Call, Reply, Route
from greatseal.api.problems import NotFound
from greatseal.host import Host
from greatseal_ca.authorities import Authorities, Issuing
from greatseal_ca.chains import spki_of
from greatseal_ca.generations import cross_certificates
from greatseal_ca.inventory import as_pem
from greatseal_ca.issuer import MEDIA_TYPE


class CaCertificates:
    """Root, chain and cross-certificates of each CA in PEM."""

    def __init__(self, host: Host, authorities: Authorities) -> None:
        self._host = host
        self._authorities = authorities

    def routes(self) -> list[Route]:
        """Without an id the default CA is meant."""
        return [
            Route("GET", f"/ca/{of}{name}", handler, style="acme", cors=True, summary=f"The {summary} of {whose}, in PEM.")
            for name, handler, summary in (
                ("root.pem", self._root, "root certificate"),
                ("chain.pem", self._chain, "issuing certificate and those above it"),
                ("cross-certs", self._cross, "cross-certificates"),
            )
            for of, whose in (("", "the default CA"), ("{ca_id}/", "a CA"))
        ]

    async def _root(self, call: Call) -> Reply:
        return Reply.text(as_pem(self._ca(call).chain[-1:]), content_type=MEDIA_TYPE)

    async def _chain(self, call: Call) -> Reply:
        return Reply.text(as_pem(self._ca(call).chain), content_type=MEDIA_TYPE)

    async def _cross(self, call: Call) -> Reply:
        """Those that the root of the CA signed, and those that other roots of this service signed for its keys."""
        ca_id = self._ca(call).ca_id
        chains = {der for one in self._authorities.generations[ca_id] for der in one.chain}
        keys = {sha256(spki_of(x509.load_der_x509_certificate(der))).digest() for der in chains}
        found = await self._host.db.read(cross_certificates)
        wanted = [der for issuer, key, der in found if issuer == ca_id or key in keys]
        return Reply.text(as_pem(wanted), content_type=MEDIA_TYPE)

    def _ca(self, call: Call) -> Issuing:
        ca_id = call.path.get("ca_id", self._authorities.default_id)
        if ca_id not in self._authorities.ids:
            raise NotFound("there is no such CA")
        return self._authorities.issuing[ca_id]
