"""The certificates of the CAs, for those who want to trust them."""

from greatseal.api.http import Call, Reply, Route
from greatseal.api.problems import NotFound
from greatseal_ca.authorities import Authorities, Issuing
from greatseal_ca.inventory import as_pem
from greatseal_ca.issuer import MEDIA_TYPE


class CaCertificates:
    """Root and chain of each CA in PEM."""

    def __init__(self, authorities: Authorities) -> None:
        self._authorities = authorities

    def routes(self) -> list[Route]:
        """Without an id the default CA is meant."""
        return [
            Route("GET", f"/ca/{of}{name}.pem", handler, style="acme", cors=True, summary=f"The {summary} of {whose}, in PEM.")
            for name, handler, summary in (
                ("root", self._root, "root certificate"),
                ("chain", self._chain, "issuing certificate and those above it"),
            )
            for of, whose in (("", "the default CA"), ("{ca_id}/", "a CA"))
        ]

    async def _root(self, call: Call) -> Reply:
        return Reply.text(as_pem(self._ca(call).chain[-1:]), content_type=MEDIA_TYPE)

    async def _chain(self, call: Call) -> Reply:
        return Reply.text(as_pem(self._ca(call).chain), content_type=MEDIA_TYPE)

    def _ca(self, call: Call) -> Issuing:
        ca_id = call.path.get("ca_id", self._authorities.default_id)
        if ca_id not in self._authorities.ids:
            raise NotFound("there is no such CA")
        return self._authorities.issuing[ca_id]
