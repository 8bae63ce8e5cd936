"""Cosigners: what is sent to them, and that nothing of an answer is taken which is not a signature over the very tree (fault plan F16)."""

from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from rig.cosigners import KEYS, Signatory, reply, server
from sqlalchemy import select

from greatseal import der
from greatseal.net import fetch
from greatseal.testing.store import audit
from greatseal_mtc import cosigners
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.stored_checkpoints import cosignatures, newest_of
from greatseal_mtc.structures import Checkpoint, SubtreeSignature
from greatseal_mtc.verify import Trust, verify_certificate
from greatseal_mtc.wire import parse_certificate

LOG = "oid/1.3.6.1.4.1.32473.1.0.1"
SECOND = TrustAnchorId("32473.2")
PROFILES = {"default": {}, "tree": {"issue_as": "mtc"}}


@pytest.fixture
async def there(monkeypatch):
    """A server over TLS that this process believes."""
    async with server() as (found, trusting):
        monkeypatch.setattr(cosigners, "fetch", partial(fetch, tls=trusting))
        yield found


@pytest.fixture
def signatory() -> Signatory:
    return Signatory(ed25519.Ed25519PrivateKey.generate(), SECOND)


def honest(by: Signatory) -> Any:
    return lambda body: reply(by.answer(LOG, body).der)


async def grown(desk) -> int:
    """The log has one certificate more, and is signed; its size then."""
    certificate = await desk.certify("a.example.com", profile="default")
    await desk.logged(certificate.id)
    await desk.log().checkpoints.run()
    return desk.log().checkpoints.published.size


async def taken(desk) -> list[tuple[str, SubtreeSignature]]:
    """What is kept for the newest checkpoint."""
    newest = await desk.db.read(newest_of, "default", 1)
    return await desk.db.read(cosignatures, "default", newest.sequence_no)


@pytest.mark.parametrize("key_type", KEYS)
async def test_ca_033_ca_166_ca_169_ca_170_a_signature_is_checked_kept_and_goes_into_certificates(open_desk, there, key_type):
    by = Signatory(KEYS[key_type](), SECOND)
    there.answers["/sign"] = honest(by)
    own = {"url": there.url("/sign"), "cosigner_id_cert_pem": by.pem, "trust_anchor_id": "1.3.6.1.4.1.32473.2"}
    desk = await open_desk(profiles=PROFILES, mtc={"cosigners": [own]})
    certificate = await desk.certify("a.example.com", profile="default")
    await desk.logged(certificate.id)
    await desk.log().checkpoints.run()

    newest = await desk.db.read(newest_of, "default", 1)
    first, headers, body = there.asked[-1]
    assert first == "POST /sign HTTP/1.1"
    assert (headers["content-type"], body) == ("application/octet-stream", newest.der)
    ((url, signed),) = await taken(desk)
    assert (url, signed.cosigner, signed.start, signed.end, signed.root) == (own["url"], SECOND, 0, newest.size, newest.root)
    standalone = (await desk.entry(certificate.id)).standalone
    trust = desk.trust(quorum=2)
    both = Trust(
        dialect=trust.dialect, hash=trust.hash, ca=trust.ca, cosigners={**trust.cosigners, SECOND: by.key.public_key()},
        required=trust.required, quorum=2,
    )  # fmt: skip
    found = verify_certificate(both, standalone, desk.service.kernel.clock.now())
    assert set(found.signed_by) == {desk.log().anchor, SECOND}
    assert (found.start, found.end) == (0, newest.size)


def lies(by: Signatory) -> dict[str, Any]:
    """Answers of whom nobody may believe, by what is wrong with them."""
    other = Signatory(ed25519.Ed25519PrivateKey.generate(), SECOND)
    of_p256 = Signatory(KEYS["ec:P-256"](), SECOND)

    def answer(**changes: Any) -> Any:
        return lambda body: reply(by.answer(LOG, body, **changes).der)

    def older(body: bytes) -> bytes:
        asked = Checkpoint.parse(body)
        return reply(by.answer(LOG, body, checkpoint=Checkpoint(asked.log, asked.size, asked.root, asked.moment - 1_000_000).der).der)

    return {
        "another root": answer(root=bytes(32)),
        "a smaller tree": answer(end=1),
        "a part of the tree": lambda body: reply(by.answer(LOG, body, start=0, end=Checkpoint.parse(body).size - 1).der),
        "another checkpoint": older,
        "the ID of another cosigner": answer(cosigner=TrustAnchorId("32473.3")),
        "the ID of the CA": answer(cosigner=TrustAnchorId("32473.1")),
        "another key": honest(other),
        "another algorithm": honest(of_p256),
        "the name of another algorithm": answer(algorithm=of_p256.algorithm),
        "another log": lambda body: reply(by.answer("oid/1.3.6.1.4.1.32473.1.0.2", body).der),
        "no signature": answer(signature=b""),
        "a signature of 50 kB": answer(signature=bytes(50_000)),
        "bytes after it": lambda body: reply(by.answer(LOG, body).der + b"\0"),
        "half of it": lambda body: reply(by.answer(LOG, body).der[:-20]),
        "what was sent": reply,
        "nothing": lambda _: reply(b""),
        "text": lambda _: reply(b"signed, yours truly"),
        "depth": lambda _: reply(b"\x30\x80" * 30_000),
        "an integer": lambda _: reply(der.integer(1)),
    }


async def test_f16_ca_168_a_cosigner_that_lies_is_refused_logged_and_leaves_the_checkpoint_as_it_was(open_desk, there, signatory):
    truthful = Signatory(ed25519.Ed25519PrivateKey.generate(), TrustAnchorId("32473.4"))
    there.answers |= {"/good": honest(truthful), "/lies": honest(signatory)}
    told = [
        {"url": there.url("/lies"), "cosigner_id_cert_pem": signatory.pem, "trust_anchor_id": "32473.2"},
        {"url": there.url("/good"), "cosigner_id_cert_pem": truthful.pem, "trust_anchor_id": "32473.4"},
    ]
    desk = await open_desk(profiles=PROFILES, mtc={"cosigners": told})
    await grown(desk)
    for what, answer in lies(signatory).items():
        there.answers["/lies"] = answer
        before = await desk.db.read(newest_of, "default", 1)

        size = await grown(desk)

        newest = await desk.db.read(newest_of, "default", 1)
        assert (newest.size, newest.sequence_no) == (size, before.sequence_no + 1), what
        assert [url for url, _ in await taken(desk)] == [there.url("/good")], what
        (event,) = (await desk.rows(select(audit).where(audit.c.event_type == "log.cosigner").order_by(audit.c.id.desc()).limit(1)))[:1]
        assert event.outcome == "failure", what
        assert f"checkpoint {newest.sequence_no}: {there.url('/lies')}: " in event.detail, what
    assert len(await desk.rows(select(audit).where(audit.c.event_type == "log.cosigner"))) == len(lies(signatory))


BROKEN = {
    "an error": lambda _: reply(b"no", "500 Internal Server Error"),
    "another success": lambda _: reply(b"", "204 No Content"),
    "no HTTP": lambda _: b"SSH-2.0-OpenSSH\r\n",
    "the end": lambda _: b"",
    "a cut body": lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0",
}


async def test_f16_ca_167_ca_168_a_cosigner_that_is_not_well_holds_up_nothing(open_desk, there, signatory, monkeypatch):
    assert cosigners.SECONDS == 30
    desk = await open_desk(profiles=PROFILES, mtc={"cosigners": [{"url": there.url("/sign"), "cosigner_id_cert_pem": signatory.pem}]})
    elsewhere = f"Location: {there.url('/other')}\r\n"
    there.answers["/other"] = honest(signatory)
    redirects = {number: lambda _, number=number: reply(b"", f"{number} Moved", elsewhere) for number in (301, 302, 303, 307, 308)}
    for what, answer in {**BROKEN, **redirects}.items():
        there.answers["/sign"] = answer
        size = await grown(desk)
        assert (await taken(desk), desk.log().checkpoints.published.size) == ([], size), what
    assert {first.split(" ")[1] for first, _, _ in there.asked} == {"/sign"}

    monkeypatch.setattr(cosigners, "SECONDS", 0.3)
    there.answers["/sign"] = lambda _: None
    assert await grown(desk) == desk.log().log.size
    there.endless = True
    assert await grown(desk) == desk.log().log.size
    assert await taken(desk) == []


async def test_a_cosigner_without_a_certificate_that_is_believed_is_not_asked(open_desk, signatory):
    async with server() as (stranger, _):
        stranger.answers["/sign"] = honest(signatory)
        desk = await open_desk(profiles=PROFILES, mtc={"cosigners": [{"url": stranger.url("/sign")}]})
        await grown(desk)

        assert (await taken(desk), stranger.asked) == ([], [])


async def test_ca_172_without_a_key_a_signature_is_taken_unchecked_and_said_so(open_desk, there, signatory, capsys):
    there.answers["/sign"] = honest(signatory)
    desk = await open_desk(profiles=PROFILES, mtc={"cosigners": [{"url": there.url("/sign")}]})

    await grown(desk)

    ((_, signed),) = await taken(desk)
    assert signed.cosigner == SECOND
    there.answers["/sign"] = lies(signatory)["another root"]
    await grown(desk)
    assert await taken(desk) == []
    there.answers["/sign"] = lies(signatory)["another key"]
    await grown(desk)
    assert len(await taken(desk)) == 1


async def test_an_unchecked_signature_never_stands_in_the_place_of_a_checked_one(open_desk, there, signatory):
    impostor = Signatory(ed25519.Ed25519PrivateKey.generate(), SECOND)
    there.answers |= {"/a-unchecked": honest(impostor), "/checked": honest(signatory)}
    told = [{"url": there.url("/a-unchecked")}, {"url": there.url("/checked"), "cosigner_id_cert_pem": signatory.pem}]
    desk = await open_desk(profiles=PROFILES, mtc={"cosigners": told})
    certificate = await desk.certify("a.example.com", profile="default")
    await desk.logged(certificate.id)
    await desk.log().checkpoints.run()

    standalone = (await desk.entry(certificate.id)).standalone
    log = desk.log()
    signatures = parse_certificate(log.settings.of_dialect, log.log.hash, standalone).proof.signatures
    by_url = dict(await taken(desk))
    assert len(by_url) == 2
    assert [one.signature for one in signatures if one.cosigner == SECOND] == [by_url[there.url("/checked")].signature]


async def test_ca_165_cosigners_are_asked_when_the_checkpoint_is_stored_and_all_at_once(open_desk, there, signatory):
    stored: list[int] = []

    def looked(body: bytes) -> bytes | None:
        """The first two get no answer before the third one was asked: one after the other would hang."""
        stored.append(Checkpoint.parse(body).size)
        if len(stored) % 3 == 0:
            there.let_go.set()
        return None if len(stored) % 3 else reply(signatory.answer(LOG, body).der)

    there.answers |= {f"/{number}": looked for number in range(3)}
    told = [{"url": there.url(f"/{number}"), "cosigner_id_cert_pem": signatory.pem} for number in range(3)]
    desk = await open_desk(profiles=PROFILES, mtc={"cosigners": told})
    size = await grown(desk)

    assert stored[-3:] == [size] * 3
    assert len(await taken(desk)) == 1
    assert (await desk.db.read(newest_of, "default", 1)).size == size
