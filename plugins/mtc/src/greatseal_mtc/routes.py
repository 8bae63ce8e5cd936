"""The endpoints of logs: /acme/mtc/... is the default CA's, /acme/{ca_id}/mtc/... that of each one."""

import re
from collections.abc import Iterator
from typing import Any

from greatseal.api.http import Call, Reply, Route
from greatseal.api.issuance import Certificate
from greatseal.api.problems import BadRequest, NotFound, Unavailable
from greatseal.api.services import ISSUANCE
from greatseal.host import Host
from greatseal_mtc.documents import DER, TEXT, LogDocuments, number_in
from greatseal_mtc.logs import CaLog, Logs
from greatseal_mtc.proving import log_proof
from greatseal_mtc.recording import Entry, find, numbers_of
from greatseal_mtc.stored_landmarks import active, covering
from greatseal_mtc.stored_landmarks import find as find_landmark

__all__ = ["MtcRoutes", "retry_after"]

VERSION = "X-MTC-Version"
A_WHILE = ("Cache-Control", "public, max-age=300")
HOUR = ("Cache-Control", "public, max-age=3600")
FORMS = ("landmark", "relative")
_is_id = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII).fullmatch
_NUMBER = re.compile(r"0|[1-9]\d{0,14}", re.ASCII)
SOON = 60


class MtcRoutes:
    """One method for each path."""

    def __init__(self, host: Host, logs: Logs) -> None:
        self._host = host
        self._logs = logs
        self._issuance = host.service(ISSUANCE)

    def routes(self) -> list[Route]:
        """All are for anybody, and read only."""
        return [*self._below("/acme/mtc"), *self._below("/acme/{ca_id}/mtc")]

    def _below(self, root: str) -> Iterator[Route]:
        for path, handler, summary in (
            ("tree-size", self.tree_size, "How many entries the log has."),
            ("root", self.root, "The root of the log, with its size."),
            ("inclusion-proof/{id}", self.inclusion, "The proof that a certificate is in the log."),
            ("tlog-proof/{id}", self.log_proof, "The same in a file with the newest checkpoint (C2SP tlog-proof)."),
            ("cert/{id}/standalone", self.standalone, "The standalone certificate of a certificate."),
            ("cert/{id}/landmark", self.of_landmark, "The certificate of the landmark that covers a certificate."),
            ("landmark-list", self.landmark_list, "The landmarks for relying parties (s6.4.3 of the draft)."),
            ("landmarks", self.landmarks, "The active landmarks."),
            ("landmarks/{number}/cert", self.landmark, "The certificate of a landmark."),
            ("consistency-proof", self.consistency, "The proof that the log only grew from one size to another."),
            ("subtree-root", self.subtree_root, "The hash of a subtree."),
            ("revoked-ranges", self.revoked_ranges, "Which entries are revoked, as half-open ranges; of an earlier log by its number."),
            ("ca-cert", self.ca_certificate, "The unsigned certificate of the CA (RFC 9925)."),
            ("tlog/checkpoint", self.checkpoint, "The newest checkpoint as a signed note."),
            ("tlog/cosignature", self.cosignature, "The newest checkpoint with the signature of the CA cosigner."),
            ("tlog/vkey", self.keys, "The keys of the log and of the CA cosigner, one vkey a line."),
            ("tlog/tile/{path**}", self.tile, "A tile, or a bundle of entries (C2SP tlog-tiles)."),
            ("{number}/checkpoint", self.log_checkpoint, "The newest checkpoint under the ID of the log (C2SP mtc-tlog)."),
            ("{number}/tile/{path**}", self.tile, "The same tiles, by the number of the log (C2SP mtc-tlog)."),
            ("{number}/landmarks", self.landmark_list, "The same landmarks, by the number of the log (C2SP mtc-tlog)."),
        ):
            yield Route("GET", f"{root}/{path}", self._versioned(handler), style="acme", cors=True, summary=summary)

    async def tree_size(self, call: Call) -> Reply:
        return self._current(call).tree_size()

    async def root(self, call: Call) -> Reply:
        return self._current(call).root()

    async def inclusion(self, call: Call) -> Reply:
        log, entry, _ = await self._entry(call)
        return await (await self._documents(log, entry)).inclusion(entry.index or 0, call)

    async def log_proof(self, call: Call) -> Reply:
        log, entry, _ = await self._entry(call)
        found = await log_proof(self._host, await self._logs.view(log, entry.log_number or log.number), entry)
        return Reply(body=found.encoded, content_type=TEXT)

    async def standalone(self, call: Call) -> Reply:
        log, entry, certificate = await self._entry(call)
        return LogDocuments(log, log.log).standalone(entry, certificate)

    async def of_landmark(self, call: Call) -> Reply:
        """The smallest landmark that has the entry, or by ``?form=relative`` the certificate that rests on it."""
        log, entry, _ = await self._entry(call)
        form = call.query.get("form", "landmark")
        if form not in FORMS:
            raise BadRequest(f"form: expected {' or '.join(FORMS)}")
        assert entry.index is not None
        assert entry.log_number is not None
        found = await self._host.db.read(covering, log.ca_id, entry.log_number, entry.index)
        if found is None and entry.log_number != log.number:
            raise NotFound("the log of the certificate gets no landmarks any more")
        if found is None:
            raise Unavailable("no landmark covers the certificate yet", retry_after=retry_after(log))
        if form == "landmark":
            return _built(found.cert_der)
        made = await log.landmarks.relative(entry, found) if entry.log_number == log.number else None
        if made is None:
            raise NotFound("the landmark of the certificate is not active any more")
        return Reply(body=made, content_type=DER, headers=(HOUR,))

    async def landmark_list(self, call: Call) -> Reply:
        log = self._log(call)
        return Reply(body=(await log.landmarks.text()).encode(), content_type=TEXT, headers=(A_WHILE,))

    async def landmarks(self, call: Call) -> Reply:
        log = self._log(call)
        found = await self._host.db.read(active, log.ca_id, log.number)
        shown = [{"sequenceNo": one.sequence_no, "treeSize": one.tree_size, "createdAt": one.created} for one in found]
        return Reply.json(shown).with_headers(A_WHILE)

    async def landmark(self, call: Call) -> Reply:
        log, text = self._log(call), call.path["number"]
        found = await self._host.db.read(find_landmark, log.ca_id, log.number, int(text)) if _NUMBER.fullmatch(text) else None
        if found is None:
            raise NotFound("there is no active landmark of that number")
        return _built(found.cert_der)

    async def consistency(self, call: Call) -> Reply:
        return await self._current(call).consistency(call)

    async def subtree_root(self, call: Call) -> Reply:
        return await self._current(call).subtree_root(call)

    async def revoked_ranges(self, call: Call) -> Reply:
        """Of the log that is written, or by ``?log=`` of one before: its certificates are good until they end."""
        log, number = self._log(call), number_in(call, "log")
        if number is not None and number != log.number:
            numbers = await self._host.db.read(numbers_of, log.ca_id)
            if numbers is None or not numbers.first <= number < numbers.current:
                raise NotFound("the CA has had no log of that number")
        return self._current(call).revoked_ranges(await self._logs.revoked.of(log.ca_id, log.number if number is None else number))

    async def ca_certificate(self, call: Call) -> Reply:
        return self._current(call).ca_certificate()

    async def checkpoint(self, call: Call) -> Reply:
        return self._current(call).checkpoint()

    async def log_checkpoint(self, call: Call) -> Reply:
        return self._current(call).log_checkpoint()

    async def cosignature(self, call: Call) -> Reply:
        return self._current(call).cosignature()

    async def keys(self, call: Call) -> Reply:
        return self._current(call).keys()

    async def tile(self, call: Call) -> Reply:
        return await self._current(call).tile(call.path["path"])

    def _versioned(self, handler: Any) -> Any:
        """With a header that says the revision of the draft."""

        async def run(call: Call) -> Reply:
            reply: Reply = await handler(call)
            return reply.with_headers((VERSION, self._log(call).settings.dialect.replace("plants", "draft")))

        return run

    def _log(self, call: Call) -> CaLog:
        found = self._logs.open_logs.get(call.path.get("ca_id", self._logs.default_id))
        if found is None:
            raise NotFound("there is no log of such a CA")
        if self._is_numbered(call) and call.path["number"] != str(found.number):
            raise NotFound("no log of that number is written now")
        return found

    @staticmethod
    def _is_numbered(call: Call) -> bool:
        """Whether the path names the number of a log, and not that of a landmark."""
        return "/mtc/{number}/" in call.route.path

    def _current(self, call: Call) -> LogDocuments:
        log = self._log(call)
        return LogDocuments(log, log.log)

    async def _documents(self, log: CaLog, entry: Entry) -> LogDocuments:
        """Of the log that has the entry: the one of now, or one of before."""
        return LogDocuments(log, await self._logs.view(log, entry.log_number or log.number))

    async def _entry(self, call: Call) -> tuple[CaLog, Entry, Certificate]:
        """The entry of a certificate. Raises NotFound, also where it is not logged yet."""
        log, id = self._log(call), call.path["id"]
        certificate = await self._issuance.certificate(id) if _is_id(id) else None
        entry = await self._host.db.read(find, id) if certificate is not None else None
        if certificate is None or entry is None or certificate.der is None or entry.ca_id != log.ca_id or entry.index is None:
            raise NotFound("no certificate of that id is in the log")
        return log, entry, certificate


def retry_after(log: CaLog) -> int:
    """Seconds after which a landmark is worth another look."""
    return max(SOON, min(log.settings.checkpoint_interval_secs, log.settings.landmark_interval_secs))


def _built(certificate: bytes | None) -> Reply:
    if certificate is None:
        raise Unavailable("the certificate of the landmark is not made yet", retry_after=SOON)
    return Reply(body=certificate, content_type=DER, headers=(HOUR,))
