"""``greatseal log show``, ``verify``, ``prove`` and ``recover``, on both backends and databases, over the log of a service."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from aiohttp import FormData
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from rig.logged import ANCHOR, LoggedSite, logged_site

from greatseal import der
from greatseal.api.problems import StartProblem
from greatseal.cli import main
from greatseal.testing.service import Service, document, serve
from greatseal_mtc import tables
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.commands import log as commands
from greatseal_mtc.dialects import PLANTS_05
from greatseal_mtc.hashes import SHA256
from greatseal_mtc.note import NoteKey
from greatseal_mtc.proofs import LogProof
from greatseal_mtc.revoked import add_revoked
from greatseal_mtc.wire import entry_of_tbs, serial_of

HTML = {"Accept": "text/html"}


class Place:
    """A configuration whose service comes and goes, and the commands beside it."""

    def __init__(self, folder: Path, url: str, backend: str) -> None:
        self.folder = folder
        self.url = url
        self.backend = backend
        self.config: dict[str, Any] = {}
        self.issued: list[tuple[str, bytes]] = []
        self.hash_alg = "sha256"

    async def start(self, *features: str, clock: Any = None, **sections: Any) -> Service:
        self.config = self.config or document(self.folder, features, **sections, cluster={"key_file": str(self.folder / "cluster.key")})
        self.config["server"] |= {**sections["server"], "state_dir": str(self.folder)}  # another responder answers the probes now
        (self.folder / "ca.toml").write_text("".join(_toml(name, values) for name, values in self.config.items()))
        self.serving = serve(self.config, clock=clock)  # whose end the site sees to
        return await self.serving.__aenter__()

    async def served(self, work: Callable[[LoggedSite], Awaitable[None]]) -> None:
        """Start the service, do the work, and stop it."""
        mtc = {"log_backend": self.backend, "log_path": str(self.folder / "logs"), "hash_alg": self.hash_alg}
        async with logged_site(self.start, database=self.url, mtc=mtc) as site:
            await work(site)

    async def run(self, *words: str, code: int = 0, given: str | None = None) -> Any:
        result = await asyncio.to_thread(CliRunner().invoke, commands, [*words, "-c", str(self.folder / "ca.toml")], input=given)
        assert result.exit_code == code, result.output
        return result

    async def wrong(self, *words: str) -> str:
        """What the command says in its one line."""
        (line,) = (await self.run(*words, code=1)).stderr.splitlines()
        return str(line)

    def change(self, statement: Any) -> None:
        """Change the database behind everybody's back."""
        engine = sqlalchemy.create_engine(self.url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            connection.execute(statement)
        engine.dispose()

    def damage(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Change an object of the log."""
        if self.backend == "files":
            file = self.folder / "logs/default-1" / name
            file.chmod(0o600)
            file.write_bytes(change(file.read_bytes()))
            return
        engine = sqlalchemy.create_engine(self.url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            where = (tables.object.c.log == "default-1") & (tables.object.c.name == name)
            before = connection.execute(sqlalchemy.select(tables.object.c.content).where(where)).scalar_one()
            connection.execute(sqlalchemy.update(tables.object).where(where).values(content=change(bytes(before))))
        engine.dispose()


@pytest.fixture(params=["files", "sql"])
async def place(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> AsyncIterator[Place]:
    place = Place(tmp_path, database_url, request.param)

    async def work(site: LoggedSite) -> None:
        place.issued.extend([await site.logged("a.localhost"), await site.logged("b.localhost", profile="tree")])
        await asyncio.gather(*(site.log.log.append(f"{number:036}", b"entry %d" % number) for number in range(600)))
        await site.logged("last.localhost")
        await site.checkpoint()
        await site.landmark()
        place.issued.append(await site.logged("c.localhost"))

    await place.served(work)
    return place


async def test_a_log_is_shown_with_its_keys_and_verified_as_it_is(place):
    shown = (await place.run("show")).stdout
    verified = (await place.run("verify")).stdout

    assert f"CA default (default): log 1, trust anchor ID {ANCHOR}, sha256, plants-05" in shown
    assert re.search(r"  605 entries, root [0-9a-f]{64}\n", shown)
    assert re.search(r"  checkpoint \d+: 604 entries, .* cosigned by no witness\n", shown)
    assert "  1 landmarks, the last of 604 entries\n" in shown
    assert "no certificate waits" in shown
    assert [NoteKey.parse(line.strip()).name for line in shown.splitlines()[-2:]][1] == f"oid/1.3.6.1.4.1.{ANCHOR}"
    assert verified.startswith("log default-1: 605 entries are as they should be, 4 with their certificate in the database, ")


@pytest.mark.parametrize(
    ("name", "at", "index"),
    [("tile/0/000", 5 * 32, 5), ("tile/0/001", 255 * 32 + 31, 511), ("tile/entries/000", -1, 255), ("tile/entries/001", 3, 256)],
)
async def test_the_first_index_that_is_wrong_is_told(place, name, at, index):
    def flip(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[at] ^= 1
        return bytes(changed)

    place.damage(name, flip)

    said = await place.wrong("verify")

    assert said.startswith("greatseal: log default-1: ")
    assert said.endswith(f"; the first index that is wrong is {index}")


async def test_a_bundle_that_is_cut_off_or_gone_is_told(place):
    place.damage("tile/entries/001", lambda content: content[:-1])

    assert (await place.wrong("verify")).endswith("; the first index that is wrong is 256")


async def test_a_database_that_says_something_else_is_told(place):
    (id, _), (other, _) = place.issued[:2]
    swapped = {id: 700, other: 1}  # the entry 2 has no certificate then, which comes after the entry 1
    for certificate, position in swapped.items():
        place.change(sqlalchemy.update(tables.entry).where(tables.entry.c.certificate_id == certificate).values(position=position))

    assert re.search(rf"the entry 1 is not that of the certificate {other}; .* is 1$", await place.wrong("verify"))

    late, _ = place.issued[2]
    for certificate, position in {other: 2, id: 1, late: 700}.items():
        place.change(sqlalchemy.update(tables.entry).where(tables.entry.c.certificate_id == certificate).values(position=position))
    assert (await place.wrong("verify")).endswith("knows a certificate with the index 700; the first index that is wrong is 700")


async def test_a_checkpoint_of_another_tree_is_a_fork(place):
    place.change(sqlalchemy.update(tables.checkpoint).values(root_hash=bytes(32)))

    assert (await place.wrong("verify")).endswith("is of another tree than the log has: the log forked")


async def test_a_proof_is_written_for_a_certificate_by_file_id_and_serial(place, tmp_path):
    id, certificate = place.issued[0]
    read = x509.load_der_x509_certificate(certificate)
    (tmp_path / "a.der").write_bytes(certificate)
    (tmp_path / "a.pem").write_bytes(read.public_bytes(Encoding.PEM))
    key = NoteKey.parse((await place.run("show")).stdout.splitlines()[-2].strip())
    content = entry_of_tbs(PLANTS_05, TrustAnchorId(ANCHOR), SHA256, der.children(certificate)[0])

    for words in (id, str(tmp_path / "a.der"), str(tmp_path / "a.pem"), f"{read.serial_number:X}", f"serial={read.serial_number:x}"):
        proof = LogProof.parse((await place.run("prove", words)).stdout.encode())
        assert proof.verify(content, [key]).size == 604
    await place.run("prove", id, "-o", str(tmp_path / "a.tlog-proof"))
    assert LogProof.parse((tmp_path / "a.tlog-proof").read_bytes()) == proof
    assert "cannot be written: No such file" in await place.wrong("prove", id, "-o", str(tmp_path / "nowhere" / "a"))

    late, _ = place.issued[2]
    assert "no checkpoint has the certificate yet" in await place.wrong("prove", late)
    for words, said in (
        ("abcdef", "has not issued"),
        ("xyz.pem", "xyz.pem is no file that can be read and no id"),
        (str(tmp_path / "ca.toml"), "has no certificate"),
    ):
        assert said in await place.wrong("prove", words)
    of_late = tables.entry.c.certificate_id == late
    for change in (sqlalchemy.update(tables.entry).values(log_number=None, position=None), sqlalchemy.delete(tables.entry)):
        place.change(change.where(of_late))
        assert "not in the log yet" in await place.wrong("prove", late)


async def test_a_log_that_is_gone_was_lost_and_is_none_that_the_next_start_makes(place):
    if place.backend == "files":
        shutil.rmtree(place.folder / "logs")
    else:
        for table in (tables.object, tables.log):
            place.change(sqlalchemy.delete(table))
    said = "is empty, and had 605 entries: it was lost; put back the whole log, or open the next log number with 'greatseal log recover'"
    assert await place.wrong("verify") == f"greatseal: log default-1 {said}"
    shown = (await place.run("show")).stdout
    assert f"  the log {said}" in shown
    assert "nothing was written yet" not in shown


async def test_recover_says_what_it_will_do_asks_and_opens_the_next_number(place):
    refused = await place.run("recover", given="n\n", code=1)
    assert "CA default writes log 1. It has 605 entries; its last checkpoint has 604 entries" in refused.stdout
    assert "Open log 2 of CA default?" in refused.stdout

    said = (await place.run("recover", "--yes")).stdout
    assert "CA default writes log 2 from the next start on" in said
    shown = (await place.run("show")).stdout
    assert "log 2" in shown
    assert "nothing was written yet" in shown
    assert "CA 'default' has no log yet" in (await place.run("verify", code=2)).stderr

    async def work(site: LoggedSite) -> None:
        (old, certificate), _, _ = place.issued
        late, _ = place.issued[2]
        while (await site.get(f"inclusion-proof/{late}")).json.get("logNumber") != 2:
            pass
        id, new = await site.logged("d.localhost", profile="tree")
        assert (await site.get("tree-size")).json == {"treeSize": 3}
        assert x509.load_der_x509_certificate(new).serial_number == 2 << 48 | 2
        await site.checkpoint()
        assert (await site.get(f"cert/{late}/standalone")).status == 200, "no checkpoint of the old log had it"
        proof = (await site.get(f"inclusion-proof/{old}")).json
        assert (proof["logNumber"], proof["leafIndex"]) == (1, 1)
        assert (await site.get(f"cert/{old}/standalone")).status == 200
        assert proof["leafHash"] == SHA256.leaf(entry_of_tbs(PLANTS_05, TrustAnchorId(ANCHOR), SHA256, der.children(certificate)[0])).hex()
        assert id != old

    await place.served(work)
    assert "log default-2: 3 entries are as they should be" in (await place.run("verify")).stdout


async def test_revoked_certificates_of_an_earlier_log_are_told_with_all_that_the_database_does_not_know(place):
    """What stands in the certificates of that log goes on proving them."""
    await place.run("recover", "--yes")

    async def work(site: LoggedSite) -> None:
        ordinary, _ = place.issued[0]
        assert (await site.get("revoked-ranges?log=1")).json == [[604, 1 << 48]]
        await site.site.service.kernel.store.write(add_revoked, ordinary, "default", 1 << 60)
        await site.site.service.kernel.store.write(add_revoked, f"{599:036}", "default", 1 << 60)
        index = (await site.get(f"inclusion-proof/{ordinary}")).json["leafIndex"]
        last = 602
        assert (await site.get("revoked-ranges?log=1")).json == [[index, index + 1], [last, last + 1], [604, 1 << 48]]
        assert (await site.get("revoked-ranges")).json == (await site.get("revoked-ranges?log=2")).json == []
        for number in ("0", "3", "65536", "999999999999999"):
            assert (await site.get(f"revoked-ranges?log={number}")).status == 404
        assert (await site.get("revoked-ranges?log=01")).status == 400

    await place.served(work)


async def test_f27_an_older_copy_of_the_database_beside_the_log_does_not_start_until_the_next_number_is_opened(tmp_path):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", "files")
    kept: list[str] = []

    async def first(site: LoggedSite) -> None:
        place.issued.append(await site.logged("a.localhost", profile="tree"))
        await site.checkpoint()

    async def more(site: LoggedSite) -> None:
        for name in ("b.localhost", "c.localhost"):
            await site.logged(name, profile="tree")
        await site.checkpoint()

    async def after(site: LoggedSite) -> None:
        assert (await site.get("revoked-ranges?log=1")).json == [[2, 1 << 48]], "nobody could revoke b and c"
        _, new = await site.logged("d.localhost", profile="tree")
        kept.append(f"{x509.load_der_x509_certificate(new).serial_number:x}")

    await place.served(first)
    copied = (tmp_path / "greatseal.db").read_bytes()
    await place.served(more)
    for one in tmp_path.glob("greatseal.db*"):
        one.unlink()
    (tmp_path / "greatseal.db").write_bytes(copied)

    with pytest.raises(StartProblem, match="has 4 entries, and the database knows those below 2 alone: an older copy of the database"):
        await place.served(after)

    assert (await place.wrong("verify")).endswith("an older copy of it was put back; the first index that is wrong is 2")
    assert "indices below 2 were given to certificates" in (await place.run("recover", "--yes")).stdout
    await place.served(after)
    assert kept == [f"{2 << 48 | 1:x}"]


async def test_what_is_asked_of_a_log_that_is_lost_is_answered_as_far_as_it_can_be(tmp_path):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", "files")

    async def first(site: LoggedSite) -> None:
        place.issued.extend([await site.logged("a.localhost"), await site.logged("b.localhost", profile="tree")])
        await site.checkpoint()
        place.issued.append(await site.logged("c.localhost", profile="tree"))

    async def after(site: LoggedSite) -> None:
        for id, certificate in place.issued:
            assert (await site.get(f"cert/{id}/standalone")).status == 200
            for path in (f"inclusion-proof/{id}", f"tlog-proof/{id}", f"cert/{id}/landmark", f"cert/{id}/landmark?form=relative"):
                assert (await site.get(path)).status == 404, path
            serial = f"{x509.load_der_x509_certificate(certificate).serial_number:x}"
            shown = await site.client.get(f"{site.site.url}/log?serial={serial}", headers=HTML)
            assert (shown.status, b"The log 1 of this CA is not there any more." in shown.body) == (404, True)
        low, high = [serial_of(number, index) for number, index in ((1, 0), (6, (1 << 48) - 1))]
        authority = x509.load_der_x509_certificate((await site.get("ca-cert")).body)
        assert der.sequence(der.integer(low), der.integer(high))[2:] in authority.tbs_certificate_bytes, "those of log 1 are good"

    async def lately(site: LoggedSite) -> None:
        _, certificate = place.issued[2]
        serial = f"{x509.load_der_x509_certificate(certificate).serial_number:x}"
        shown = await site.client.get(f"{site.site.url}/log?serial={serial}", headers=HTML)
        assert b"No checkpoint that is kept has it, and its log is not written any more." in shown.body

    await place.served(first)
    await place.run("recover", "--yes")
    await place.served(lately)
    shutil.rmtree(tmp_path / "logs/default-1")
    for id, _ in place.issued:
        assert "log default-1 is not there" in await place.wrong("prove", id)
    await place.served(after)
    place.change(sqlalchemy.update(tables.current).values(log_number=65_535))
    assert "65535 is the last log number" in (await place.run("recover", "--yes", code=2)).stderr


async def test_certificates_of_an_earlier_log_of_another_dialect_and_hash_are_found_in_it(tmp_path):
    place = Place(tmp_path, f"sqlite:///{tmp_path}/greatseal.db", "files")

    async def first(site: LoggedSite) -> None:
        place.issued.extend([await site.logged("a.localhost"), await site.logged("b.localhost", profile="tree")])
        await site.checkpoint()
        place.issued.append((place.issued[0][0], (await site.get(f"cert/{place.issued[0][0]}/standalone")).body))

    async def after(site: LoggedSite) -> None:
        for _, certificate in place.issued:
            serial = f"{x509.load_der_x509_certificate(certificate).serial_number:x}"
            form = FormData()
            form.add_field("certificate", certificate, filename="a", content_type="application/octet-stream")
            asked = [site.client.get(f"{site.site.url}/log", method="POST", data=form, headers=HTML)]
            if certificate != place.issued[2][1]:  # a serial number is that of what was issued
                asked.append(site.client.get(f"{site.site.url}/log?serial={serial}", headers=HTML))
            for answer in await asyncio.gather(*asked):
                assert (answer.status, b"Its hash leads to the root" in answer.body) == (200, True)
                assert b"tlog-proof/" not in answer.body, "there is none of a tree of SHA-3"

    place.hash_alg = "sha3-256"
    await place.served(first)
    place.config["mtc"] |= {"dialect": "plants-07", "hash_alg": "sha256", "log_number": 2}
    await place.served(after)


async def test_what_cannot_be_done_is_said_in_a_line(tmp_path, fresh_database):
    place = Place(tmp_path, fresh_database(), "files")
    config = document(tmp_path, ["ca", "mtc"], database={"url": place.url}, mtc={"trust_anchor_id": ANCHOR, "log_backend": "files"})
    (tmp_path / "ca.toml").write_text("".join(_toml(name, values) for name, values in config.items()))
    assert (await asyncio.to_thread(CliRunner().invoke, main, ["migrate", "-c", str(tmp_path / "ca.toml")])).exit_code == 0

    for words in (("verify",), ("recover", "--yes"), ("prove", "--ca", "other", "aa")):
        (line,) = (await place.run(*words, code=2)).stderr.splitlines()[-1:]
        assert line.startswith("greatseal: CA "), words
    assert "no log yet" in (await place.run("show")).stdout
    for mtc in ({"mtc": {"enabled": False}}, {}):
        config.pop("mtc", None)
        (tmp_path / "ca.toml").write_text("".join(_toml(name, values) for name, values in (config | mtc).items()))
        assert "no CA of the configuration has a log" in (await place.run("show", code=2)).stderr


def _toml(name: str, values: Any) -> str:
    """A section of TOML; values are as JSON writes them, but for tables of tables."""
    if all(isinstance(value, dict) for value in values.values()) and values:
        return "".join(_toml(f"{name}.{key}", value) for key, value in values.items())
    return f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
