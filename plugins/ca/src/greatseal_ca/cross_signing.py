"""Cross-certificates for the operators of the CA, on the admin listener."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cryptography import x509

from greatseal.api.http import OPERATIONS, AuthScheme, Call, Operator, OperatorCaller, Reply, Route, operator_route
from greatseal.api.issuance import Certificate
from greatseal.api.lists import listed, page_of
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.store import Tx, scan
from greatseal.host import Host
from greatseal_ca.authorities import Authorities
from greatseal_ca.generations import cross_signed
from greatseal_ca.inventory import Inventory, as_pem
from greatseal_ca.search import shown

if TYPE_CHECKING:
    from greatseal_ca.ceremonies import Ceremonies

YEARS = 5
YEAR = 365
"""Days."""
READERS = (*OPERATIONS, "auditor")
NEWEST = "~"
"""Above every id."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST cross-sign: the other CA by its id here, or its certificate or request in PEM.

    ``path_length`` is how many CAs may follow; left out, as many as the other CA says itself.
    """

    subject_ca_id: str | None = None
    subject_cert_pem: str | None = None
    validity_years: Annotated[int, msgspec.Meta(ge=1, le=100)] = YEARS
    path_length: Annotated[int, msgspec.Meta(ge=0, le=10)] | None = None


class CrossSigning:
    """/admin/ca/{id}/cross-sign and /admin/cross-certs."""

    def __init__(self, host: Host, authorities: Authorities, inventory: Inventory, ceremonies: "Callable[[], Ceremonies]") -> None:
        self._host = host
        self._authorities = authorities
        self._inventory = inventory
        self._ceremonies = ceremonies

    def routes(self) -> list[Route]:
        """None where no plugin knows operators."""
        if Operator.__name__ not in self._host.components(AuthScheme):
            return []
        return [
            operator_route("POST", "/admin/ca/{id}/cross-sign", self.sign, OPERATIONS, "Have the root of a CA certify another CA"),
            operator_route("GET", "/admin/cross-certs", self.listed, READERS, "Cross-certificates, newest first"),
        ]

    async def sign(self, call: Call) -> Reply:
        ca_id = call.path["id"]
        self._check_known(ca_id)
        asked = await call.body(Asked)
        operator = call.caller_as(OperatorCaller)
        subject = self._subject(asked)
        days = asked.validity_years * YEAR
        made = await self._ceremonies().cross(ca_id, subject, days=days, path_length=asked.path_length, by=operator.subject)
        return Reply.json(_shown(made), status=201)

    async def listed(self, call: Call) -> Reply:
        page = page_of(call)
        found = await self._host.db.read(self._page, page.after or NEWEST, page.wanted)
        return listed(call, self._host.base_url, page, found, key=lambda one: one.id, shown=_shown)

    def _subject(self, asked: Asked) -> bytes:
        if asked.subject_cert_pem is not None and asked.subject_ca_id is None:
            return asked.subject_cert_pem.encode()
        if asked.subject_ca_id is None or asked.subject_cert_pem is not None:
            raise BadRequest("subject_ca_id, subject_cert_pem: give one of them: who is to be certified")
        if asked.subject_ca_id not in self._authorities.issuing:
            raise BadRequest(f"subject_ca_id: there is no such CA; expected one of {', '.join(self._authorities.ids)}")
        return self._authorities.issuing[asked.subject_ca_id].chain[-1]

    def _check_known(self, ca_id: str) -> None:
        if ca_id not in self._authorities.ids:
            raise NotFound("there is no such CA")

    @scan
    def _page(self, tx: Tx, last: str, limit: int) -> list[Certificate]:
        found = (self._inventory.find(tx, id) for id in cross_signed(tx, last, limit))
        return [one for one in found if one is not None]


def _shown(one: Certificate) -> dict[str, Any]:
    if one.der is None:
        return shown(one)
    return {**shown(one), "subject": x509.load_der_x509_certificate(one.der).subject.rfc4514_string(), "certificate": as_pem([one.der])}
