"""What is issued and what becomes of it in the log: ordinary certificates, which are logged, and those that are a proof themselves."""

import asyncio
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from sqlalchemy import select, update

from greatseal import der
from greatseal.api.acme import BadCsr
from greatseal.api.issuance import Issuer
from greatseal.api.problems import Internal, Unavailable
from greatseal.testing.issuers import IssuerContract
from greatseal.testing.store import audit
from greatseal_mtc.issuer import MtcIssuer
from greatseal_mtc.keys import LogKeys
from greatseal_mtc.observer import MtcLog
from greatseal_mtc.recording import add_waiting
from greatseal_mtc.stored_checkpoints import newest_of
from greatseal_mtc.tables import entry as entry_table
from greatseal_mtc.verify import Refused, verify_certificate
from greatseal_mtc.wire import parse_certificate

BOTH = {"default": {}, "tree": {"issue_as": "mtc"}}


async def test_ca_052_ca_174_ca_175_a_profile_issues_a_standalone_certificate_at_once(open_desk, database_url):
    desk = await open_desk(profiles=BOTH, database={"url": database_url, "migrate": "auto"})
    first, second = [await desk.certify(f"{name}.example.com", profile="tree") for name in "ab"]

    now = desk.service.kernel.clock.now()
    for index, certificate in enumerate((first, second), 1):
        found = verify_certificate(desk.trust(), certificate.der, now)
        assert (found.log_number, found.index, found.signed_by) == (1, index, (desk.log().anchor,))
        assert (certificate.serial, certificate.chain) == ((1 << 48 | index).to_bytes(7), ())
        assert certificate.media_type == "application/pkix-cert"
        entry = await desk.entry(certificate.id)
        assert (entry.index, entry.issue_as, entry.standalone, entry.tbs) == (index, "mtc", None, None)
    before = await desk.issuance.certificate(first.id)
    await desk.log().checkpoints.run()
    assert await desk.issuance.certificate(first.id) == before
    assert (await desk.entry(first.id)).standalone is None


async def test_ca_007_ca_028_ca_029_ca_173_an_ordinary_certificate_is_logged_and_gets_a_standalone_one(open_desk, database_url):
    desk = await open_desk(profiles=BOTH, database={"url": database_url, "migrate": "auto"})
    certificate = await desk.certify("a.example.com", profile="default")
    assert (await desk.entry(certificate.id)).standalone is None

    entry = await desk.logged(certificate.id)
    await desk.log().checkpoints.run()
    made = await desk.entry(certificate.id)

    assert (entry.index, made.index, made.tbs) == (1, 1, None)
    now = desk.service.kernel.clock.now()
    assert verify_certificate(desk.trust(), made.standalone, now).index == 1
    ordinary, standalone = (x509.load_der_x509_certificate(one) for one in (certificate.der, made.standalone))
    assert standalone.serial_number == 1 << 48 | 1
    assert [one.value for one in standalone.extensions] == [one.value for one in ordinary.extensions]
    assert (standalone.subject, standalone.not_valid_after_utc) == (ordinary.subject, ordinary.not_valid_after_utc)
    assert standalone.public_key() == ordinary.public_key()


async def test_ca_068_ca_069_the_common_name_and_the_ca_flag_are_encoded_as_in_the_entry(open_desk):
    desk = await open_desk(profiles=BOTH)
    for profile, name in (("default", "a.example.com"), ("tree", "b.example.com")):
        certificate = await desk.certify(name, profile=profile)
        entry = await desk.logged(certificate.id)
        logged = await desk.log().log.entry(entry.index)
        common_name = der.element(0x13, name.encode())  # PrintableString
        assert common_name in certificate.der
        assert common_name in logged
        assert bytes.fromhex("300c0603551d130101ff04023000") in logged  # BasicConstraints, critical


async def test_the_issuer_of_a_tree_certificate_is_the_id_of_the_ca(open_desk):
    desk = await open_desk(profiles=BOTH)
    certificate = await desk.certify("a.example.com", profile="tree")

    parsed = x509.load_der_x509_certificate(certificate.der)
    assert parsed.issuer.rfc4514_string() == "1.3.6.1.4.1.44363.47.1=32473.1"
    assert parsed.signature_algorithm_oid.dotted_string == "1.3.6.1.4.1.44363.47.0"
    assert {type(one.value) for one in parsed.extensions}.isdisjoint({x509.AuthorityKeyIdentifier, x509.CRLDistributionPoints})
    assert parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "a.example.com"


async def test_many_at_once_share_batches_and_signatures(open_desk):
    desk = await open_desk(profiles=BOTH)
    prepared = [await desk.prepare(f"{number}.example.com", profile="tree") for number in range(20)]
    issued = await asyncio.gather(*(desk.issuance.issue(one) for one in prepared))

    log = desk.log()
    proofs = [parse_certificate(log.settings.of_dialect, log.log.hash, one.der).proof for one in issued]
    assert sorted(int.from_bytes(one.serial) & 0xFFFF for one in issued) == list(range(1, 21))
    assert len({(one.start, one.end) for one in proofs}) < 20
    now = desk.service.kernel.clock.now()
    assert len({verify_certificate(desk.trust(), one.der, now).index for one in issued}) == 20


async def test_tampered_certificates_are_refused(open_desk):
    desk = await open_desk(profiles=BOTH)
    certificate = await desk.certify("a.example.com", profile="tree")
    await desk.certify("b.example.com", profile="tree")
    now = desk.service.kernel.clock.now()
    other = msgspec.structs.replace(desk.trust(), cosigners={})

    for at in range(0, len(certificate.der), 7):
        changed = certificate.der[:at] + bytes([certificate.der[at] ^ 1]) + certificate.der[at + 1 :]
        with pytest.raises(Refused):
            verify_certificate(desk.trust(), changed, now)
    with pytest.raises(Refused):
        verify_certificate(other, certificate.der, now)


async def test_the_key_of_the_log_is_not_certified(open_desk):
    desk = await open_desk(profiles=BOTH, mtc={"signing_key": {"key_type": "ec:P-256"}})

    signer: Any = desk.log().keys.operator
    request = (await desk.draft("a.example.com", profile="tree")).request
    csr = type("Csr", (), {"spki": signer.info.spki})()
    issuer = desk.service.host("ca").components(Issuer)["mtc"]
    with pytest.raises(BadCsr, match="that of the log"):
        issuer.frame(type("Request", (), {"ca_id": request.ca_id, "csr": csr})())


def long(tbs: bytes) -> bytes:
    """The same with extensions that no entry has room for."""
    *fields, _ = der.children(tbs)
    return der.sequence(*fields, der.explicit(3, der.octet_string(bytes(70_000))))


async def test_a_certificate_that_no_entry_can_hold_is_not_begun(open_desk):
    desk = await open_desk(profiles=BOTH)
    draft = await desk.draft("a.example.com", profile="tree")

    with pytest.raises(BadCsr, match="fewer names"):
        await desk.db.write(desk.issuance.reserve, msgspec.structs.replace(draft, tbs=long(draft.tbs)))
    assert await desk.issuance.certificate(draft.id) is None


async def test_what_no_entry_can_hold_is_told_and_holds_up_nothing(open_desk):
    desk = await open_desk(profiles=BOTH)
    tbs = (await desk.prepare("a.example.com", profile="default")).tbs
    await desk.db.write(add_waiting, "00000000", "default", "x509", long(tbs))
    other = await desk.certify("b.example.com", profile="default")

    assert (await desk.logged(other.id)).index == 1
    await desk.log()._append_some()
    assert await desk.entry("00000000") is None
    (event,) = await desk.rows(select(audit).where(audit.c.event_type == "log.unlogged"))
    assert event.outcome == "failure"
    assert "a log takes 65535 at most" in event.detail


async def test_settling_again_gives_the_same_certificate(open_desk):
    desk = await open_desk(profiles=BOTH)
    prepared = await desk.prepare("a.example.com", profile="tree")

    issued = await desk.issuance.issue(prepared)

    assert await desk.issuance.issue(prepared) == issued == await desk.issuance.settle(prepared)
    assert desk.log().log.size == 2


async def test_what_is_given_up_after_it_was_logged_counts_as_revoked(open_desk):
    desk = await open_desk(profiles=BOTH)
    prepared = await desk.prepare("a.example.com", profile="tree")
    await desk.issuance.issue(prepared)
    await desk.db.write(desk.issuance.abandon, prepared)
    waiting = await desk.prepare("b.example.com", profile="tree")
    await desk.db.write(desk.issuance.abandon, waiting)
    assert await desk.parts.logs.revoked.of("default", 1) == [(1, 2)]

    with suppress(Exception):
        await desk.issuance.issue(waiting)  # somebody who did not hear of it

    assert await desk.parts.logs.revoked.of("default", 1) == [(1, 3)]


async def test_ca_073_a_log_that_takes_nothing_holds_up_no_issuance(open_desk, monkeypatch):
    desk = await open_desk(profiles=BOTH)
    log, refused = desk.log(), asyncio.Event()
    append = log.log.append

    async def broken(*_: Any) -> Any:
        refused.set()
        raise Unavailable("the log takes no entries now")

    monkeypatch.setattr(log.log, "append", broken)
    monkeypatch.setattr("greatseal_mtc.logs.FIRST_WAIT", 0.01)
    certificate = await desk.certify("a.example.com", profile="default")
    await refused.wait()
    assert (certificate.status, (await desk.entry(certificate.id)).index) == ("issued", None)

    monkeypatch.setattr(log.log, "append", append)
    assert (await desk.logged(certificate.id)).index == 1


async def test_a_certificate_of_a_ca_is_not_logged(open_desk):
    desk = await open_desk(profiles=BOTH)
    certificate = await desk.certify("a.example.com", profile="default")
    observer = MtcLog(desk.parts.logs, ["default"])

    def told(tx: Any, **changes: Any) -> None:
        observer.issued(tx, msgspec.structs.replace(certificate, id="other", **changes))

    for changes in ({"issue_as": "root"}, {"issue_as": "mtc"}, {"issue_as": "ra"}, {"ca_id": "two"}, {"der": None}):
        await desk.db.write(told, **changes)
        assert await desk.entry("other") is None


class TestMtcIssuer(IssuerContract):
    features = ("ca", "mtc")
    issue_as = "mtc"
    sections = MappingProxyType({"mtc": {"trust_anchor_id": "32473.1"}})


def test_what_may_differ_from_the_record():
    assert MtcIssuer.changes == {"serial"}
    assert not MtcIssuer.signs_cas


class Wrong:
    """A key whose signatures are wrong: its store is broken."""

    def __init__(self, signer: Any) -> None:
        self.info, self.public_key, self.deterministic = signer.info, signer.public_key, True
        self._signer = signer

    async def sign(self, message: bytes, **more: Any) -> bytes:
        return bytes(await self._signer.sign(message + b"!", **more))


async def test_a_wrong_signature_of_the_cosigner_leaves_the_process_in_nothing(open_desk):
    desk = await open_desk(profiles=BOTH)
    log = desk.log()
    prepared = await desk.prepare("a.example.com", profile="tree")
    keys = log.keys
    log.keys = log.signer._keys = LogKeys(operator=keys.operator, cosigner=Wrong(keys.cosigner))

    with pytest.raises(Internal):
        await desk.issuance.issue(prepared)
    log.keys = log.signer._keys = keys
    assert (await desk.issuance.issue(prepared)).serial == (1 << 48 | 1).to_bytes(7)


@pytest.mark.parametrize("role", ["operator", "cosigner"])
async def test_a_wrong_signature_under_a_checkpoint_is_not_stored(open_desk, role):
    desk = await open_desk(profiles=BOTH)
    log = desk.log()
    await desk.certify("a.example.com", profile="tree")
    keys = {"operator": log.keys.operator, "cosigner": log.keys.cosigner}
    log.keys = LogKeys(**{**keys, role: Wrong(keys[role])})
    before = await desk.db.read(newest_of, "default", 1)

    with pytest.raises(Internal):
        await log.checkpoints.run()
    assert await desk.db.read(newest_of, "default", 1) == before


async def test_what_is_in_a_log_that_was_given_up_is_not_issued_from_it(open_desk):
    desk = await open_desk(profiles=BOTH)
    prepared = await desk.prepare("a.example.com", profile="tree")
    await desk.issuance.issue(prepared)
    await desk.db.write(lambda tx: tx.run(update(entry_table).values(log_number=7)))

    with pytest.raises(Unavailable):
        await desk.issuance.issue(prepared)
    assert await desk.issuance.settle(prepared) is None


async def test_a_proof_that_does_not_lead_to_the_signed_tree_is_given_to_nobody(open_desk, monkeypatch):
    desk = await open_desk(profiles=BOTH)
    prepared = [await desk.prepare(f"{number}.example.com", profile="tree") for number in range(8)]
    good = desk.log().log.inclusion

    async def other(*where: int) -> list[bytes]:
        return [bytes(32) for _ in await good(*where)]

    monkeypatch.setattr(desk.log().log, "inclusion", other)
    outcomes = await asyncio.gather(*(desk.issuance.issue(one) for one in prepared), return_exceptions=True)

    assert any(isinstance(one, Internal) for one in outcomes)  # a subtree of one entry alone has no proof
    monkeypatch.undo()
    now = desk.service.kernel.clock.now()
    for one in prepared:
        assert verify_certificate(desk.trust(), (await desk.issuance.issue(one)).der, now)
