"""The page of a log, for people: its state, its newest entries, and a certificate with the proof that it is there."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from greatseal.api.http import Call, Reply, Route
from greatseal.api.moments import SECOND
from greatseal.api.pages import StartLine, StartPart, title_of
from greatseal.api.problems import NotFound, Problem
from greatseal.api.services import ISSUANCE
from greatseal.host import Host
from greatseal_mtc.entries import read_entry
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.logs import CaLog, Logs
from greatseal_mtc.note import Note
from greatseal_mtc.page.look_up import Found, LookUp, Way, date_of
from greatseal_mtc.page.picture import picture, words
from greatseal_mtc.page.render import Renderer
from greatseal_mtc.page.upload import MULTIPART, certificate_in

__all__ = ["LogPages"]

NEWEST, NAMES = 10, 5
"""How many entries are listed, and names of each."""


class LogPages:
    """The pages of all logs: /log is that of the default CA."""

    def __init__(self, host: Host, logs: Logs) -> None:
        self._host = host
        self._logs = logs
        self._look_up = LookUp(host, logs, host.service(ISSUANCE))
        self._renderer = Renderer(host)
        self._prefix = urlsplit(host.base_url).path

    def routes(self) -> Sequence[Route]:
        """A page for each log, and the form that sends a certificate to it."""
        found = []
        for path in ("/log", "/log/{ca_id}"):
            found.append(Route("GET", path, self.show, style="page", summary="The log of a CA, for people."))
            found.append(
                Route("POST", path, self.upload, style="page", content_types=(MULTIPART,), summary="Look up a certificate that is sent.")
            )
        return found

    def start_parts(self) -> list[StartPart]:
        """What the start page says: where each log is."""

        def lines() -> list[StartLine]:
            return [
                StartLine(words="Log of certificates" if len(self._logs.open_logs) == 1 else f"Log of certificates of {ca_id}", link=path)
                for ca_id in self._logs.open_logs
                for path in [self._path(ca_id)]
            ]

        return [StartPart(title="What was issued", lines=lines)]

    async def show(self, call: Call) -> Reply:
        log, serial = self._log(call), call.query.get("serial")
        if serial is None:
            return await self._page(call, log)
        try:
            found = await self._look_up.by_serial(log, serial)
        except Problem as problem:
            return await self._page(call, log, refused=problem, serial=serial)
        return await self._page(call, log, found=found, serial=serial)

    async def upload(self, call: Call) -> Reply:
        log, body = self._log(call), await call.raw()
        try:
            sent, read = certificate_in(call.headers.get("Content-Type", ""), body)
            found = await self._look_up.by_certificate(log, sent, read)
        except Problem as problem:
            return await self._page(call, log, refused=problem)
        return await self._page(call, log, found=found)

    def _log(self, call: Call) -> CaLog:
        found = self._logs.open_logs.get(call.path.get("ca_id", self._logs.default_id))
        if found is None:
            raise NotFound("there is no log of such a CA")
        return found

    def _path(self, ca_id: str) -> str:
        return "/log" if ca_id == self._logs.default_id else f"/log/{ca_id}"

    async def _page(self, call: Call, log: CaLog, *, found: Found | None = None, refused: Problem | None = None, serial: str = "") -> Reply:
        published = log.checkpoints.published
        checkpoint = None
        if published is not None:
            moment = datetime.fromtimestamp(published.checkpoint.created_at // SECOND, UTC)
            checkpoint = {
                "size": f"{published.size:,}",
                "when": f"{moment:%Y-%m-%d %H:%M} UTC",
                "iso": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
                "root": published.checkpoint.root.hex(),
                "cosigners": _cosigners(published.note, log.origin),
            }
        return self._renderer.page(
            call,
            status=refused.status if refused else 200,
            title="The log of certificates" if len(self._logs.open_logs) == 1 else f"The log of certificates of {log.ca_id}",
            found=None if found is None else self._found(log, found),
            refusal=f"{refused.detail[:1].upper()}{refused.detail[1:]}." if refused else None,
            refusal_title=title_of(refused.status) if refused else "",
            size=f"{log.log.size:,}",
            checkpoint=checkpoint,
            origin=log.origin,
            hash=log.log.hash.name.upper().replace("SHA", "SHA-", 1).replace("--", "-").replace("SHA-3-", "SHA3-"),
            dialect=log.settings.of_dialect.name,
            number=log.number,
            here=self._prefix + self._path(log.ca_id),
            serial=serial,
            newest=await self._newest(log),
            base=log.prefix_url,
            sha256=log.log.hash is SHA256,
            hash_name=log.log.hash.name,
        )

    async def _newest(self, log: CaLog) -> list[Mapping[str, object]]:
        """The last entries of the newest checkpoint, newest first."""
        published = log.checkpoints.published
        size = published.size if published else 0
        shown: list[Mapping[str, object]] = []
        for index in range(size - 1, max(-1, size - 1 - NEWEST), -1):
            try:
                read = read_entry(await log.log.entry(index))
            except ValueError:
                shown.append(_line(index, (), "cannot be read", ""))
                continue
            if read is None:
                shown.append(_line(index, (), "null entry: every log begins with it", ""))
            else:
                shown.append(_line(index, read.names, read.subject or "no name", date_of(read.not_before)))
        return shown

    def _found(self, log: CaLog, found: Found) -> Mapping[str, object]:
        verdict, explanation = _verdict(found)
        entry, way, serial = found.entry, found.way, found.certificate.serial
        steps = None if way is None else [_step(way, number) for number in range(len(way.steps))]
        return {
            "verdict": verdict,
            "explanation": explanation,
            "names": found.read.names,
            "subject": found.read.subject,
            "serial": "" if serial is None else serial.hex(),
            "since": date_of(found.read.not_before),
            "until": date_of(found.read.not_after),
            "status": "revoked" if found.certificate.status == "revoked" else found.certificate.status,
            "index": "none" if entry is None or entry.index is None else f"{entry.index:,}",
            "size": f"{way.size:,}" if way else f"{log.log.size:,}",
            "steps": steps,
            "picture": "" if way is None else picture(way.steps, (0, way.size), way.root),
            "leaf": "" if way is None else way.leaf.hex(),
            "root": "" if way is None else way.root.hex(),
            "links": self._links(log, found),
        }

    def _links(self, log: CaLog, found: Found) -> list[Mapping[str, str]]:
        id = found.certificate.id
        links: list[Mapping[str, str]] = []
        if found.way is not None and log.log.hash is SHA256:
            links.append(
                {"words": "This proof in a file (tlog-proof)", "url": f"{log.prefix_url}/tlog-proof/{id}", "file": f"{id}.tlog-proof"}
            )
        if found.entry is not None and (found.entry.standalone is not None or found.entry.issue_as == "mtc"):
            links.append({"words": "Standalone certificate", "url": f"{log.prefix_url}/cert/{id}/standalone", "file": f"{id}.der"})
        return links


def _line(index: int, names: Sequence[str], otherwise: str, since: str) -> Mapping[str, object]:
    return {"index": f"{index:,}", "names": names[:NAMES], "more": max(0, len(names) - NAMES), "otherwise": otherwise, "since": since}


def _step(way: Way, number: int) -> Mapping[str, str]:
    """A step in words: what the two hashes of a level make."""
    step = way.steps[number]
    last = number + 1 == len(way.steps)
    above = (0, way.size) if last else way.steps[number + 1].own
    made = way.root if last else way.steps[number + 1].hash
    return {
        "other": words(step.other),
        "side": "right" if step.is_left else "left",
        "proof": step.proof.hex(),
        "made": words(above),
        "hash": made.hex(),
    }


def _verdict(found: Found) -> tuple[str, str]:
    if found.entry is None:
        return "This certificate is of this CA, and not in the log", "It was issued before there was a log, or could not be logged."
    if found.entry.index is None:
        return "This certificate is not in the log yet", "It waits for its place, which it gets within seconds. Look again."
    if found.way is None:
        return "This certificate is in the log", "The next checkpoint will have it. From then on this page shows the proof."
    return (
        "This certificate is in the log",
        "Its hash leads to the root that the log signed in its last checkpoint. This was computed just now.",
    )


def _cosigners(note: bytes, origin: str) -> list[str]:
    """Whose signatures are on a checkpoint, besides the log's own."""
    return list(dict.fromkeys(one.name for one in Note.parse(note).signatures if one.name != origin))
