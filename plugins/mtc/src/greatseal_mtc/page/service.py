"""The page of a log, for people: its state, its newest entries, and a certificate with the proof that it is there."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from greatseal.api.http import Call, Reply, Route
from greatseal.api.languages import Language
from greatseal.api.messages import Message, Text, plural
from greatseal.api.moments import SECOND
from greatseal.api.pages import StartLine, StartPart, title_of
from greatseal.api.problems import NotFound, Problem
from greatseal.api.services import ISSUANCE
from greatseal.host import Host
from greatseal_mtc.entries import read_entry
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.logs import CaLog, Logs
from greatseal_mtc.note import Note
from greatseal_mtc.page.look_up import Found, LookUp, Way
from greatseal_mtc.page.picture import picture
from greatseal_mtc.page.render import Renderer
from greatseal_mtc.page.upload import MULTIPART, certificate_in
from greatseal_mtc.page.words import STATUSES, date_of, entries, number, verdict

__all__ = ["LogPages"]

NEWEST, NAMES = 10, 5
"""How many entries are listed, and names of each."""
ONE = Message("Log of certificates")


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
            alone = len(self._logs.open_logs) == 1
            return [
                StartLine(words=ONE if alone else Message("Log of certificates of %(ca)s", {"ca": ca_id}), link=self._path(ca_id))
                for ca_id in self._logs.open_logs
            ]

        return [StartPart(title=Message("What was issued"), lines=lines)]

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
            raise NotFound(Message("there is no log of such a CA"))
        return found

    def _path(self, ca_id: str) -> str:
        return "/log" if ca_id == self._logs.default_id else f"/log/{ca_id}"

    async def _page(self, call: Call, log: CaLog, *, found: Found | None = None, refused: Problem | None = None, serial: str = "") -> Reply:
        language = self._renderer.language(call)
        alone = len(self._logs.open_logs) == 1
        return self._renderer.page(
            call,
            status=refused.status if refused else 200,
            title=language.text(
                Message("The log of certificates") if alone else Message("The log of certificates of %(ca)s", {"ca": log.ca_id})
            ),
            found=None if found is None else self._found(log, found, language.text),
            refusal=None if refused is None else _refusal(refused, language),
            size=number(log.log.size),
            checkpoint=_checkpoint(log),
            origin=log.origin,
            hash=log.log.hash.name.upper().replace("SHA", "SHA-", 1).replace("--", "-").replace("SHA-3-", "SHA3-"),
            dialect=log.settings.of_dialect.name,
            number=log.number,
            here=self._prefix + self._path(log.ca_id),
            serial=serial,
            newest=await self._newest(log, language.text),
            base=log.prefix_url,
            notes=f"{log.prefix_url}/tlog/checkpoint",
            commands=_commands(log),
        )

    async def _newest(self, log: CaLog, say: Callable[[Text], str]) -> list[Mapping[str, object]]:
        """The last entries of the newest checkpoint, newest first."""
        published = log.checkpoints.published
        size = published.size if published else 0
        shown: list[Mapping[str, object]] = []
        for index in range(size - 1, max(-1, size - 1 - NEWEST), -1):
            try:
                read = read_entry(await log.log.entry(index))
            except ValueError:
                shown.append(_line(index, (), say(Message("cannot be read")), ""))
                continue
            if read is None:
                shown.append(_line(index, (), say(Message("null entry: every log begins with it")), ""))
            else:
                shown.append(_line(index, read.names, read.subject or say(Message("no name")), date_of(read.not_before)))
        return shown

    def _found(self, log: CaLog, found: Found, say: Callable[[Text], str]) -> Mapping[str, object]:
        said, explanation = verdict(found)
        entry, way, serial = found.entry, found.way, found.certificate.serial
        place: Text = Message("none")
        if entry is not None and entry.index is not None:
            size = way.size if way else log.log.size
            place = Message("%(index)s of %(size)s", {"index": number(entry.index), "size": number(size)})
        return {
            "verdict": say(said),
            "explanation": say(explanation),
            "names": found.read.names,
            "subject": found.read.subject or say(Message("none")),
            "serial": "" if serial is None else serial.hex(),
            "since": date_of(found.read.not_before),
            "until": date_of(found.read.not_after),
            "status": say(STATUSES[found.certificate.status]),
            "place": say(place),
            "size": number(way.size) if way else "",
            "steps": None if way is None else [_step(way, at, say) for at in range(len(way.steps))],
            "picture": "" if way is None else _picture(way, say),
            "leaf": "" if way is None else way.leaf.hex(),
            "root": "" if way is None else way.root.hex(),
            "links": self._links(log, found, say),
        }

    def _links(self, log: CaLog, found: Found, say: Callable[[Text], str]) -> list[Mapping[str, str]]:
        id = found.certificate.id
        links: list[Mapping[str, str]] = []
        if found.way is not None and found.way.hash is SHA256:
            words = say(Message("This proof in a file (tlog-proof)"))
            links.append({"words": words, "url": f"{log.prefix_url}/tlog-proof/{id}", "file": f"{id}.tlog-proof"})
        if found.entry is not None and (found.entry.standalone is not None or found.entry.issue_as == "mtc"):
            words = say(Message("Standalone certificate"))
            links.append({"words": words, "url": f"{log.prefix_url}/cert/{id}/standalone", "file": f"{id}.der"})
        return links


def _checkpoint(log: CaLog) -> Mapping[str, object] | None:
    published = log.checkpoints.published
    if published is None:
        return None
    moment = datetime.fromtimestamp(published.checkpoint.created_at // SECOND, UTC)
    return {
        "size": number(published.size),
        "when": f"{moment:%Y-%m-%d %H:%M} UTC",
        "iso": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        "root": published.checkpoint.root.hex(),
        "cosigners": _cosigners(published.note, log.origin),
    }


def _commands(log: CaLog) -> str:
    """How the log is followed from another machine."""
    of = "" if log.log.hash is SHA256 else f" --hash {log.log.hash.name}"
    base = log.prefix_url
    return f"curl -o log.keys {base}/tlog/vkey\ngreatseal log monitor {base}/tlog --keys log.keys --state log.state{of}"


def _refusal(refused: Problem, language: Language) -> Mapping[str, object]:
    words = language.text(refused.message)
    english = not isinstance(refused.message, Message) and language.tag != "en"
    return {"title": language.text(title_of(refused.status)), "words": f"{words[:1].upper()}{words[1:]}.", "english": english}


def _line(index: int, names: Sequence[str], otherwise: str, since: str) -> Mapping[str, object]:
    return {"index": number(index), "names": names[:NAMES], "more": max(0, len(names) - NAMES), "otherwise": otherwise, "since": since}


def _step(way: Way, at: int, say: Callable[[Text], str]) -> Mapping[str, object]:
    """A step in words: what the two hashes of a level make."""
    step = way.steps[at]
    last = at + 1 == len(way.steps)
    above = (0, way.size) if last else way.steps[at + 1].own
    made = way.root if last else way.steps[at + 1].hash
    return {
        "other": say(entries(step.other)),
        "is_right": step.is_left,
        "proof": step.proof.hex(),
        "made": say(entries(above)),
        "hash": made.hex(),
    }


def _picture(way: Way, say: Callable[[Text], str]) -> str:
    title = plural(
        "The way from the entry to the root: one hash of the proof",
        "The way from the entry to the root: %(count)d hashes of the proof, one on each level",
        len(way.steps),
    )
    return picture(way.steps, (0, way.size), way.root, title=say(title), words=lambda one: say(entries(one)))


def _cosigners(note: bytes, origin: str) -> list[str]:
    """Whose signatures are on a checkpoint, besides the log's own."""
    return list(dict.fromkeys(one.name for one in Note.parse(note).signatures if one.name != origin))
