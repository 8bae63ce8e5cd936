"""What the page says of a certificate where the database or the log has less of it, or something else, than it should."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import delete

from greatseal.api.problems import NotFound
from greatseal_mtc.merkle import BadProof
from greatseal_mtc.page.look_up import LookUp
from greatseal_mtc.tables import checkpoint


@pytest.fixture
async def desk(open_desk):
    return await open_desk(profiles={"default": {}, "tree": {"issue_as": "mtc"}})


def look_up(desk):
    return LookUp(desk.service.host("mtc"), desk.parts.logs, desk.issuance)


async def proven(desk):
    """A certificate of a checkpoint, by its serial number."""
    made = await desk.certify("a.example.com", profile="tree")
    await desk.log().checkpoints.run()
    return made.serial.hex()


async def test_a_certificate_that_is_not_signed_yet_is_none(desk):
    prepared = await desk.prepare("a.example.com", profile="default")
    key, since = ec.generate_private_key(ec.SECP256R1()), datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(
        x509.Name([]), x509.Name([]), key.public_key(), int.from_bytes(prepared.serial), since, since + timedelta(days=1)
    )
    forged = builder.sign(key, hashes.SHA256())

    with pytest.raises(NotFound):
        await look_up(desk).by_certificate(desk.log(), forged.public_bytes(Encoding.DER), forged)
    with pytest.raises(NotFound):
        await look_up(desk).by_serial(desk.log(), prepared.serial.hex())


async def test_a_certificate_of_which_no_checkpoint_is_kept_has_no_way(desk):
    serial, log = await proven(desk), desk.log()
    assert (await look_up(desk).by_serial(log, serial)).way.size == log.log.size
    await desk.db.write(lambda tx: tx.run(delete(checkpoint)))
    log.checkpoints.published = None

    assert (await look_up(desk).by_serial(log, serial)).way is None


async def test_an_entry_that_does_not_lead_to_the_root_of_the_checkpoint_is_not_proven(desk):
    serial, log = await proven(desk), desk.log()
    published = log.checkpoints.published
    log.checkpoints.published = msgspec.structs.replace(published, checkpoint=msgspec.structs.replace(published.checkpoint, root=bytes(32)))

    with pytest.raises(BadProof, match="does not lead to the root"):
        await look_up(desk).by_serial(log, serial)
