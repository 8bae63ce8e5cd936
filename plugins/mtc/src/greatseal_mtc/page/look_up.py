"""Looking a certificate up: which entry it is, and whether its hash leads to the root of the newest checkpoint."""

import msgspec
from cryptography import x509

from greatseal import der
from greatseal.api.issuance import Certificate, Issuance
from greatseal.api.messages import Message
from greatseal.api.problems import BadRequest, NotFound
from greatseal.host import Host
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import DIALECTS
from greatseal_mtc.entries import Entry as Read
from greatseal_mtc.entries import read_entry
from greatseal_mtc.hashes import Hash
from greatseal_mtc.logs import CaLog, Logs
from greatseal_mtc.merkle import BadProof, evaluate
from greatseal_mtc.page.picture import Step, walk
from greatseal_mtc.recording import MTC, Entry, find, find_at
from greatseal_mtc.stored_checkpoints import newest_of
from greatseal_mtc.views import LogView
from greatseal_mtc.wire import Place, certificate_of, entry_of_tbs, parse_certificate, parse_tbs

__all__ = ["Found", "LookUp", "serial_in"]

MOST_DIGITS = 60
X509 = "x509"


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """The way from the entry to the root of a checkpoint, which it leads to."""

    hash: Hash
    size: int
    root: bytes
    leaf: bytes
    steps: tuple[Step, ...]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that was looked up. ``way`` is None as long as no checkpoint has its entry; ``entry`` is None for one from before
    the log."""

    certificate: Certificate
    entry: Entry | None
    read: Read
    way: Way | None
    is_closed: bool = False
    """Whether its log is not written any more."""


class LookUp:
    """Looks certificates of a CA up in its logs."""

    def __init__(self, host: Host, logs: Logs, issuance: Issuance) -> None:
        self._host = host
        self._logs = logs
        self._issuance = issuance

    async def by_serial(self, log: CaLog, text: str) -> Found:
        """By the serial number in hexadecimal. Raises BadRequest and NotFound."""
        serial = serial_in(text)
        for issue_as in (X509, MTC):
            certificate = await self._host.db.read(self._issuance.find, log.ca_id, serial, issue_as)
            if certificate is not None and certificate.der is not None:
                return await self._proven(log, certificate, certificate.der)
        raise NotFound(Message("this CA has issued no certificate with that serial number"))

    async def by_certificate(self, log: CaLog, sent: bytes, read: x509.Certificate) -> Found:
        """By the certificate itself, of whatever kind: the entry is made of what was sent, not of what is stored. Raises BadRequest where
        that is another one than the log has, and NotFound."""
        if (place := _place_in(sent)) is None:
            certificate = await self._host.db.read(self._issuance.find, log.ca_id, _content(read.serial_number), X509)
        else:
            entry = await self._host.db.read(find_at, log.ca_id, place.log_number, place.index)
            certificate = None if entry is None else await self._issuance.certificate(entry.certificate_id)
        if certificate is None or certificate.der is None:
            raise NotFound(Message("this CA has issued no certificate with the serial number of that one"))
        return await self._proven(log, certificate, sent)

    async def _proven(self, log: CaLog, certificate: Certificate, sent: bytes) -> Found:
        entry = await self._host.db.read(find, certificate.id)
        logged = entry is not None and entry.index is not None
        view = await self._logs.view(log, entry.log_number or log.number) if logged and entry is not None else log.log
        try:
            content = _entry_of(view, sent)
            read = read_entry(content)
        except ValueError as error:
            raise BadRequest(Message("the certificate cannot be an entry of the log")) from error
        assert read is not None
        way = None
        if entry is not None and entry.index is not None:
            way = await self._way(log, view, entry.index, content)
        if not await _is_whole(view, certificate, entry, sent):
            raise BadRequest(Message("that is not the certificate that this CA issued under its serial number: some of it was changed"))
        return Found(certificate=certificate, entry=entry, read=read, way=way, is_closed=view.made.number != log.number)

    async def _way(self, log: CaLog, view: LogView, index: int, content: bytes) -> Way | None:
        leaf, number = view.hash.leaf(content), view.made.number
        if leaf != await view.leaf(index):
            raise BadRequest(
                Message(
                    "that is not the certificate that is the entry %(index)d of the log: it was changed, or its serial number is false",
                    {"index": index},
                )
            )
        published = log.checkpoints.published
        newest = published.checkpoint if published and number == log.number else await self._host.db.read(newest_of, log.ca_id, number)
        if newest is None or newest.size <= index:
            return None
        steps, root = walk(view.hash, (0, newest.size), index, leaf, await view.inclusion(index, 0, newest.size))
        if root != newest.root:
            raise BadProof(f"the entry {index} does not lead to the root of the checkpoint of {newest.size} entries")
        return Way(hash=view.hash, size=newest.size, root=newest.root, leaf=leaf, steps=tuple(steps))


def serial_in(text: str) -> bytes:
    """The content of a serial number that somebody copied, such as ``serial=0A:1B``. Raises BadRequest."""
    digits = text.strip().lower().removeprefix("serial=").removeprefix("0x").replace(":", "").replace(" ", "")
    try:
        number = int(digits, 16) if len(digits) <= MOST_DIGITS and digits.isascii() and digits.isalnum() else -1
    except ValueError:
        number = -1
    if number <= 0:
        raise BadRequest(Message("a serial number is in hexadecimal digits, as openssl x509 -noout -serial prints it"))
    return _content(number)


def _place_in(sent: bytes) -> Place | None:
    """What a certificate of a log of any dialect says of its entry; None for any other certificate."""
    for dialect in DIALECTS.values():
        try:
            return parse_tbs(dialect, der.children(sent)[0])
        except ValueError:
            continue
    return None


def _entry_of(view: LogView, sent: bytes) -> bytes:
    """The entry that the certificate would be in that log, as it was made. Raises ValueError."""
    made = view.made
    return entry_of_tbs(DIALECTS[made.dialect], TrustAnchorId(made.anchor), view.hash, der.children(sent)[0])


async def _is_whole(view: LogView, certificate: Certificate, entry: Entry | None, sent: bytes) -> bool:
    """Whether each byte is what the CA made: the entry has neither issuer nor proof nor signature of a certificate."""
    if sent == certificate.der or (entry is not None and sent == entry.standalone):
        return True
    dialect, anchor = DIALECTS[view.made.dialect], TrustAnchorId(view.made.anchor)
    try:
        found = parse_certificate(dialect, view.hash, sent)
        proof, place = found.proof, found.place
        if proof.signatures or sent != certificate_of(dialect, anchor, found.tbs, place.serial, proof):
            return False
        leaf = view.hash.leaf(_entry_of(view, sent))
        root = evaluate(view.hash, proof.start, proof.end, place.index, leaf=leaf, proof=proof.path)
        return root == await view.subtree_root(proof.start, proof.end)
    except ValueError:
        return False


def _content(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8)
