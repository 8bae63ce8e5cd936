"""What the root of a CA signs, and what it refuses to sign or to sign once more."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace
from sqlalchemy import delete, select

from greatseal.api.issuance import IssuanceRequest, Profile
from greatseal.api.problems import BadRequest, Conflict, StartProblem, Unavailable
from greatseal_ca import tables
from greatseal_ca.authority import find_root
from greatseal_ca.requests import request_of_ca
from greatseal_ca.root import ROOT, RootIssuer


def request(brought, path_length: int | None) -> IssuanceRequest:
    """For another CA."""
    profile = Profile(
        id="cross", description="a CA", issue_as=ROOT, ca_id="default", validity_days=30, eku=(), path_length=path_length
    )  # fmt: skip
    csr, _ = request_of_ca(brought.root.public_bytes(Encoding.DER))
    return IssuanceRequest(profile=profile, ca_id="default", identifiers=(), csr=csr, account=None)


@pytest.fixture
async def issuer(desk) -> RootIssuer:
    """With its root, as a command has it; a service that runs has it for its list alone."""
    parts = desk.parts
    parts.authorities.roots["default"] = await find_root(desk.service.host("ca"), parts.cas["default"])
    return RootIssuer(parts.authorities, parts.cas, parts.pointers)


@pytest.fixture
async def prepared(desk, issuer, brought):
    """A certificate that was recorded and not signed yet."""
    return await desk.db.write(desk.issuance.reserve, await desk.issuance.compose(request(brought, 0)))


class Random:
    """A signer that makes another signature every time."""

    deterministic = False

    def __init__(self, signer) -> None:
        self.info = signer.info


async def test_the_root_signs_what_was_recorded_and_the_same_again(issuer, prepared, desk):
    issued = await issuer.issue(prepared)

    signed = x509.load_der_x509_certificate(issued.der)
    signed.verify_directly_issued_by(x509.load_der_x509_certificate(desk.authority().chain[-1]))
    assert signed.tbs_certificate_bytes == prepared.tbs
    assert await issuer.settle(prepared) == issued


async def test_the_root_signs_cas_alone(issuer, brought):
    assert issuer.frame(request(brought, 0)).issuer
    with pytest.raises(BadRequest, match="the root signs certificates of CAs alone"):
        issuer.frame(request(brought, None))


@pytest.mark.parametrize("change", [{"kid": "another"}, {"serial": None}], ids=lambda change: next(iter(change)))
async def test_what_was_recorded_for_another_key_or_without_serial_is_not_signed(issuer, prepared, change):
    with pytest.raises(Unavailable, match="the root cannot sign now"):
        await issuer.issue(replace(prepared, **change))


async def test_without_its_root_nothing_is_signed_and_what_is_left_cannot_be_known(issuer, prepared, desk):
    roots = desk.parts.authorities.roots
    root = roots.pop("default")

    with pytest.raises(Unavailable, match="the root of this CA is not here"):
        issuer.bounds("default")
    assert await issuer.settle(prepared) is None
    roots["default"] = root
    assert await issuer.settle(replace(prepared, kid="another")) is None
    roots["default"] = replace(root, signer=Random(root.signer))
    assert await issuer.settle(prepared) is None


async def test_a_ca_that_is_not_here_has_no_ceremonies(desk):
    with pytest.raises(StartProblem, match="there is no CA 'four' that signs itself; there is default"):
        await desk.parts.ceremonies.discard("four")


async def test_a_ca_whose_root_is_not_here_cross_signs_nothing(desk, brought):
    await desk.db.write(lambda tx: tx.run(delete(tables.authority).where(tables.authority.c.role == "root")))

    with pytest.raises(Conflict, match="the root of this CA is not here"):
        await desk.parts.ceremonies.cross("default", brought.root.public_bytes(Encoding.DER), days=30, path_length=0, by="ann")
    assert await desk.rows(select(tables.subordinate)) == []
