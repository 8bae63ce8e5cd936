"""The service is killed around revocations, lists and the signers of OCSP answers: what was acknowledged stays revoked, and no list has the
number of another.

``make test`` runs a spread of kills on each database, ``make test-faults`` 200 at each point.
"""

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from faults.invariants import rows_of, tbs_of
from faults.test_kills import ALL, KILLS
from rig.acme import csr_for

from greatseal import faults
from greatseal.api.acme import Identifier
from greatseal.api.issuance import Certificate, IssuanceRequest
from greatseal.api.services import ISSUANCE
from greatseal.keys.software import SoftwareSigner
from greatseal.testing import FakeClock
from greatseal.testing.kills import KILLED, run_apart
from greatseal.testing.service import Service, document, serve
from greatseal_ca.health import PROBE
from greatseal_ca.lists import Lists

POINTS = (
    "ca.revoke.recorded",
    "ca.crl.recorded",
    "ca.crl.signed",
    "ca.ocsp.key_made",
    "ca.ocsp.recorded",
    "ca.ocsp.signed",
    "db.commit",
    "db.committed",
)
ONCE = tuple(point for point in POINTS if ".ocsp." in point)
"""What a start passes once."""
SPREAD = [(point, 1 if point in ONCE else hit * (4 if point.startswith("db.") else 1)) for hit in (1, 2, 5) for point in POINTS]
DAYS = 86_400
CSR = csr_for("a.example.com")


class Ledger:
    """What was seen from outside: lines that are written before anything can be killed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ledger"
        self._file.touch()

    def note(self, *words: object) -> None:
        with self._file.open("a") as file:
            print(*words, file=file)

    def lines(self, kind: str) -> Iterator[list[str]]:
        yield from (line.split()[1:] for line in self._file.read_text().splitlines() if line.startswith(f"{kind} "))


def watch(ledger: Ledger) -> None:
    """In a process of its own: note what keys sign and which lists are served."""
    signed, made = SoftwareSigner._signed, Lists._make

    def noted(self: SoftwareSigner, message: bytes, *rest: Any) -> bytes:
        ledger.note("signed", self.info.purpose, sha256(message).hexdigest())
        return signed(self, message, *rest)

    async def told(self: Lists, listing: Any) -> Any:
        served = await made(self, listing)
        ledger.note("list", f"{listing.ca_id}/{listing.shard}", served.number, sha256(served.der).hexdigest())
        return served

    SoftwareSigner._signed, Lists._make = noted, told  # type: ignore[method-assign]


async def live(config: dict[str, Any], ledger: Ledger, run: int, plan: tuple[str, int] | None) -> None:
    """A start of the service, in which certificates are issued and revoked until it is killed."""
    faults.point = faults.passed
    watch(ledger)
    if plan is not None:
        faults.arm(f"{plan[0]}:kill:{plan[1]}")
    # Signers are due at each start, and now and then the clock is set back.
    days = 8 * run - (20 if run % 3 == 2 and plan is not None and plan[0] not in ONCE else 0)
    async with serve(config, clock=FakeClock(START + days * DAYS * 10**6)) as service:
        issuance, db = service.kernel.service(ISSUANCE), service.kernel.store
        await check(service, ledger)
        for _ in range(1 if plan is None else 50):
            batch = await asyncio.gather(*(certify(service) for _ in range(3)))
            await asyncio.gather(*(revoke(issuance, db, ledger, one) for one in batch[:2]))
            await check(service, ledger, batch[2])


START = FakeClock().now()


async def certify(service: Service) -> Certificate:
    issuance, db = service.kernel.service(ISSUANCE), service.kernel.store
    profile = issuance.profile(None)
    request = IssuanceRequest(
        profile=profile, ca_id=profile.ca_id, identifiers=(Identifier("dns", "a.example.com"),), csr=issuance.read_csr(CSR), account=None
    )
    prepared = await db.write(issuance.reserve, await issuance.compose(request))
    return await db.write(issuance.record, prepared, await issuance.issue(prepared))


async def revoke(issuance: Any, db: Any, ledger: Ledger, certificate: Certificate) -> None:
    await issuance.publish([await db.write(partial(issuance.revoke, by="x"), certificate.id, 4)])
    assert certificate.der is not None
    ledger.note("revoked", certificate.der.hex())


async def check(service: Service, ledger: Ledger, good: Certificate | None = None) -> None:
    """Everything that was acknowledged is on the list and revoked by OCSP; the other one is neither."""
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{service.url}/ca/cert") as answer:
            issuer = x509.load_der_x509_certificate(await answer.read())
        async with session.get(f"{service.url}/ca/crl") as answer:
            crl = x509.load_der_x509_crl(await answer.read())
        assert crl.is_signature_valid(issuer.public_key())  # type: ignore[arg-type]
        told = {one.serial_number for one in crl}
        revoked = [x509.load_der_x509_certificate(bytes.fromhex(der)) for (der,) in ledger.lines("revoked")]
        assert {one.serial_number for one in revoked} <= told
        for leaf, status in [(one, ocsp.OCSPCertStatus.REVOKED) for one in revoked[-5:]] + (
            [(x509.load_der_x509_certificate(good.der), ocsp.OCSPCertStatus.GOOD)] if good and good.der else []
        ):
            data = ocsp.OCSPRequestBuilder().add_certificate(leaf, issuer, hashes.SHA256()).build().public_bytes(Encoding.DER)
            headers = {"Content-Type": "application/ocsp-request"}
            async with session.post(f"{service.url}/ca/ocsp", data=data, headers=headers) as answer:
                found = ocsp.load_der_ocsp_response(await answer.read())
            assert found.certificate_status is status
            (signer,) = found.certificates
            signer.verify_directly_issued_by(issuer)


def kill(database: str, folder: Path, plan: list[tuple[str, int]]) -> None:
    ledger = Ledger(folder)
    config = document(folder, ["ca"], ca={"ca_validity_years": 100, "validity_days": 7300}, database={"url": database})
    recorded: set[str] = set()
    for number, one in enumerate([*plan, None]):
        code = run_apart(partial(live, config, ledger, number, one))
        assert code == (0 if one is None else KILLED), f"{number}: {one}"
        recorded |= recorded_now(database)  # the next start may be months later, when what is old has gone
    check_numbers(ledger)
    check_signatures(database, ledger, recorded)
    assert len(list(ledger.lines("revoked"))) > sum(point not in ONCE for point, _ in plan) // 4


def check_numbers(ledger: Ledger) -> None:
    """Each list has a higher number than all before, whatever happened."""
    seen: dict[str, list[int]] = {}
    for name, number, _ in ledger.lines("list"):
        seen.setdefault(name, []).append(int(number))
    for numbers in seen.values():
        assert numbers == sorted(set(numbers))


def recorded_now(database: str) -> set[str]:
    """What lists and signers of answers were recorded, and are not forgotten yet."""
    with rows_of(database) as ask:
        lists = {bytes(digest).hex() for (digest,) in ask("SELECT digest FROM ca_crl_number")}
        return lists | {sha256(bytes(tbs)).hexdigest() for (tbs,) in ask("SELECT tbs FROM ca_responder")}


def check_signatures(database: str, ledger: Ledger, recorded: set[str]) -> None:
    """Nothing was signed by the CA that was not recorded."""
    signed = {digest for purpose, digest in ledger.lines("signed") if purpose.endswith(":issuing")} - {sha256(PROBE).hexdigest()}
    with rows_of(database) as ask:
        rows = ask("SELECT tbs, der FROM ca_certificate")
        signers = ask("SELECT kid FROM ca_responder")
        assert len(set(signers)) == len(signers)  # a key has one certificate
        assert ask("SELECT count(*) FROM core_key WHERE purpose LIKE '%:ocsp' AND state <> 'revoked'") == [(1,)]
    certificates = {sha256(bytes(tbs) if der is None else tbs_of(der)).hexdigest() for tbs, der in rows}
    assert not signed - recorded - certificates


@pytest.mark.timeout(300)
def test_r120_a_spread_of_kills_brings_nothing_back(database_url: str, tmp_path: Path) -> None:
    kill(database_url, tmp_path, SPREAD)


@ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
def test_r120_two_hundred_kills_at_each_point(database_url: str, tmp_path: Path, point: str) -> None:
    chosen = random.Random(point)
    step = 4 if point.startswith("db.") else 1  # a start commits some times by itself
    kill(database_url, tmp_path, [(point, 1 if point in ONCE else step * chosen.randint(1, 8)) for _ in range(KILLS)])
