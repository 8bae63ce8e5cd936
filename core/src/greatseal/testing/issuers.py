"""What every issuer of certificates must do, as a test class to inherit."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, get_args

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from greatseal import der
from greatseal.api.acme import Identifier
from greatseal.api.issuance import (
    Bounds,
    Change,
    Draft,
    Frame,
    IssuanceRequest,
    Issued,
    Issuer,
    Prepared,
)
from greatseal.api.moments import SECOND
from greatseal.api.problems import Conflict
from greatseal.api.store import Refuse, Tx
from greatseal.testing.issuance import PROFILE, issuance_for
from greatseal.testing.plugin import StartService
from greatseal.testing.service import Service

__all__ = ["IssuerContract", "IssuerDesk"]

DAY = 86_400 * SECOND
NAME = "a.example"
_FIELDS = ("version", "serial", "algorithm", "issuer", "validity", "subject", "key", "extensions")
_SHA256 = hashes.SHA256()


class IssuerDesk(msgspec.Struct, frozen=True):
    """A running service, the issuer in it, and the steps that the authority takes with it."""

    service: Service
    issuer: Issuer
    request: IssuanceRequest

    def draft(self, frame: Frame) -> Draft:
        """A certificate for ``a.example`` in that frame."""
        now = self.service.kernel.clock.now()
        begin, end = _lifetime(self.issuer.bounds(self.request.ca_id), now)
        return Draft(
            id=self.service.kernel.handles.new_id(),
            request=self.request,
            issue_as=self.issuer.issue_as,
            kid=frame.kid,
            serial=frame.serial,
            tbs=_to_be_signed(self.request, frame, begin, end),
            not_before=begin,
            not_after=end,
        )

    async def prepared(self) -> Prepared:
        """A draft whose record was made, as far as it is the issuer's."""
        draft = self.draft(self.issuer.frame(self.request))
        await self.service.kernel.store.write(self.issuer.prepare, draft)
        return _recorded(draft)


class IssuerContract:
    """Inherit, name the features and the issuer, and the rest is tested.

    .. code-block:: python

        class TestRegistrationAuthority(IssuerContract):
            features = ("registration-authority",)
            issue_as = "ra"
            sections = {"ra": {"url": "https://pki.example/"}}

    What cannot be said so overrides :meth:`start`.
    """

    features: ClassVar[tuple[str, ...]]
    issue_as: ClassVar[str]
    ca_id: ClassVar[str] = "default"
    sections: ClassVar[Mapping[str, Any]] = {}
    """Sections of the configuration."""

    async def start(self, start_service: StartService) -> Service:
        """The service with the issuer."""
        return await start_service(*self.features, **self.sections)

    @pytest.fixture
    async def desk(self, start_service: StartService) -> IssuerDesk:
        service = await self.start(start_service)
        issuer = service.kernel.registry.of(Issuer)[self.issue_as]
        profile = msgspec.structs.replace(PROFILE, issue_as=self.issue_as, ca_id=self.ca_id)
        return IssuerDesk(service, issuer, issuance_for(Identifier("dns", NAME), profile=profile))

    def test_declares_itself(self, desk: IssuerDesk) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", desk.issuer.issue_as)
        assert isinstance(desk.issuer.changes, frozenset)
        assert desk.issuer.changes <= set(get_args(Change))
        assert isinstance(desk.issuer.signs_cas, bool)

    def test_bounds_are_whole_seconds_and_hold_now(self, desk: IssuerDesk) -> None:
        bounds = desk.issuer.bounds(self.ca_id)

        assert bounds.begin % SECOND == bounds.end % SECOND == 0
        assert bounds.begin <= desk.service.kernel.clock.now() < bounds.end

    def test_a_frame_is_that_of_a_certificate(self, desk: IssuerDesk) -> None:
        frame = desk.issuer.frame(desk.request)

        certificate = x509.load_der_x509_certificate(der.sequence(desk.draft(frame).tbs, frame.algorithm, der.bit_string(b"")))
        kinds = {one.oid for one in certificate.extensions}  # fails for two of one kind
        assert {one.oid for one in frame.extensions} <= kinds
        assert frame.kid
        assert isinstance(certificate.issuer, x509.Name)
        assert frame.serial is None or 64 <= int.from_bytes(frame.serial).bit_length() < 160
        assert (frame.serial is None) <= ("serial" in desk.issuer.changes), "who gives no serial must be allowed to change it"

    def test_a_serial_is_drawn_for_every_frame(self, desk: IssuerDesk) -> None:
        serials = [desk.issuer.frame(desk.request).serial for _ in range(50)]

        assert set(serials) == {None} or len(set(serials)) == len(serials)

    async def test_what_it_prepares_may_be_undone_and_done_again(self, desk: IssuerDesk) -> None:
        draft = desk.draft(desk.issuer.frame(desk.request))

        def undone(tx: Tx) -> None:
            desk.issuer.prepare(tx, draft)
            raise Refuse(Conflict("the transaction is repeated"))

        with pytest.raises(Conflict):
            await desk.service.kernel.store.write(undone)
        await desk.service.kernel.store.write(desk.issuer.prepare, draft)

        _check_returned(desk.issuer, _recorded(draft), await desk.issuer.issue(_recorded(draft)))

    async def test_issuing_twice_does_no_harm(self, desk: IssuerDesk) -> None:
        prepared = await desk.prepared()

        first, second = await desk.issuer.issue(prepared), await desk.issuer.issue(prepared)

        _check_returned(desk.issuer, prepared, first)
        _check_returned(desk.issuer, prepared, second)
        assert first.serial == second.serial, "one record is one certificate"

    async def test_settling_gives_what_issuing_gave_or_nothing(self, desk: IssuerDesk) -> None:
        prepared = await desk.prepared()
        issued = await desk.issuer.issue(prepared)

        for _ in range(2):
            settled = await desk.issuer.settle(prepared)
            assert settled is None or settled == issued

    async def test_what_was_never_issued_settles_and_can_be_abandoned(self, desk: IssuerDesk) -> None:
        prepared = await desk.prepared()

        settled = await desk.issuer.settle(prepared)

        if settled is not None:
            _check_returned(desk.issuer, prepared, settled)
        await desk.service.kernel.store.write(desk.issuer.abandoned, prepared)
        await desk.service.kernel.store.write(desk.issuer.abandoned, prepared)


def _lifetime(bounds: Bounds, now: int) -> tuple[int, int]:
    begin = max(now - now % SECOND, bounds.begin)
    return begin, min(begin + DAY - SECOND, bounds.end)


def _to_be_signed(request: IssuanceRequest, frame: Frame, begin: int, end: int) -> bytes:
    content = [
        x509.Extension(x509.BasicConstraints.oid, True, x509.BasicConstraints(ca=False, path_length=None)),
        x509.Extension(x509.ExtendedKeyUsage.oid, False, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])),
        x509.Extension(x509.SubjectAlternativeName.oid, False, x509.SubjectAlternativeName([x509.DNSName(NAME)])),
    ]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    builder = x509.CertificateBuilder(
        x509.Name([]),
        subject,
        request.csr.public_key,
        int.from_bytes(frame.serial or b"\x01"),
        datetime.fromtimestamp(begin // SECOND, UTC).replace(tzinfo=None),
        datetime.fromtimestamp(end // SECOND, UTC).replace(tzinfo=None),
        [*content, *frame.extensions],
    )
    copy = builder.sign(ec.generate_private_key(ec.SECP256R1()), _SHA256)
    version, number, _, _, *rest = der.children(copy.tbs_certificate_bytes)
    return der.sequence(version, number, frame.algorithm, frame.issuer, *rest)


def _recorded(draft: Draft) -> Prepared:
    return Prepared(id=draft.id, issue_as=draft.issue_as, ca_id=draft.request.ca_id, kid=draft.kid, serial=draft.serial, tbs=draft.tbs)


def _check_returned(issuer: Issuer, prepared: Prepared, issued: Issued) -> None:
    certificate = x509.load_der_x509_certificate(issued.der)
    recorded, returned = der.children(prepared.tbs), der.children(certificate.tbs_certificate_bytes)
    fields = zip(_FIELDS, recorded, returned, strict=True)
    assert {name for name, one, other in fields if one != other} <= issuer.changes
    assert int.from_bytes(issued.serial) == certificate.serial_number
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName(NAME)]
    for above in issued.chain:
        x509.load_der_x509_certificate(above)
    assert re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", issued.media_type)
