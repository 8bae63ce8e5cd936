"""A log that a running service serves over HTTP, read by code that we did not write, and cosigned by its witness."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from rig.litewitness import Litewitness
from rig.logged import LoggedSite, logged_site
from rig.tessera import fsck, run

from greatseal_mtc.merkle import consistency, inclusion
from greatseal_mtc.note import NoteKey
from greatseal_mtc.tiles import FULL, entries_path, path
from greatseal_mtc.wire import parse_bundle

pytestmark = pytest.mark.timeout(300)

Find = Callable[[str], Path]

SIZE = 604
"""The null entry, three certificates and what fills tiles."""
INDICES = (0, 1, 255, 256, 511, 512, 602, 603)


class Served:
    """A site with a log, ``url`` is where it is served; foreign programs run beside the service."""

    def __init__(self, site: LoggedSite, folder: Path, find: Find) -> None:
        self.site, self.url, self._folder, self._find = site, f"{site.base}/tlog", folder, find
        self.ids: list[str] = []

    async def fill(self) -> None:
        """To :data:`SIZE` entries, and a checkpoint."""
        self.ids.append((await self.site.logged("a.localhost"))[0])
        self.ids.append((await self.site.logged("b.localhost", profile="tree"))[0])
        await asyncio.gather(*(self.site.log.log.append(f"{number:036}", b"entry %d" % number) for number in range(600)))
        self.ids.append((await self.site.logged("last.localhost"))[0])
        await self.site.checkpoint()

    async def vkey(self) -> str:
        """The key of the log operator."""
        return (await self.site.get("tlog/vkey")).body.decode().splitlines()[0]

    async def check(self, *words: object) -> Any:
        """What tlog-check says."""
        return await asyncio.to_thread(run, self._find("tlog-check"), *words)

    async def fsck(self) -> str:
        """What tessera says."""
        file = self._folder / "vkey"
        file.write_text(await self.vkey())
        return await asyncio.to_thread(fsck, self._find("fsck"), self.url, file)

    def damage(self, name: str) -> None:
        """Change an object that is full, behind the service's back; others it has in memory."""
        (file,) = Path(self.site.log.settings.log_path or "").glob(f"*/{name}")
        content = bytearray(file.read_bytes())
        content[-2] ^= 1
        file.chmod(0o600)
        file.write_bytes(content)


@pytest.fixture
async def served(start_service: Any, tmp_path: Path, go_program: Find) -> AsyncIterator[Served]:
    async with logged_site(start_service) as site:
        served = Served(site, tmp_path, go_program)
        await served.fill()
        yield served


async def test_fsck_of_tessera_finds_nothing_wrong_with_a_served_log(served: Served) -> None:
    said = await served.fsck()

    assert "Successfully" in said, said
    assert "fsck failed" not in said


@pytest.mark.parametrize("name", [path(0, 0), path(0, 1), entries_path(0), entries_path(1)])
async def test_fsck_of_tessera_finds_what_was_changed_in_a_served_log(served: Served, name: str) -> None:
    served.damage(name)

    assert "fsck failed" in await served.fsck()


async def test_tlog_makes_the_proofs_of_a_served_log(served: Served) -> None:
    log = served.site.log.log

    said = await served.check("tiles", served.url, f"{served.url}/checkpoint", await served.vkey(), *INDICES)

    expected = []
    for index in INDICES:
        expected.append(f"{index} {(await log.subtree_root(index, index + 1)).hex()}")
        for word, ranges in (("inclusion", inclusion(0, SIZE, index)), ("consistency", consistency(0, index + 1, SIZE))):
            expected.append(" ".join((word, *[(await log.subtree_root(*one)).hex() for one in ranges])))
    assert said.stdout.splitlines() == expected, said.stderr


async def test_formats_accepts_the_proofs_that_are_served_for_certificates(served: Served, tmp_path: Path) -> None:
    entry, key = tmp_path / "entry", await served.vkey()
    indices = []
    for id in served.ids:
        found = await served.site.get(f"inclusion-proof/{id}")
        index = int(found.json["leafIndex"])
        number, width = index // FULL, min(FULL, SIZE - index // FULL * FULL)
        kept = parse_bundle((await served.site.get(f"tlog/{entries_path(number, width)}")).body, width)
        entry.write_bytes(kept[index % FULL])
        proof = f"{served.site.base}/tlog-proof/{id}"

        accepted = await served.check("proof", proof, entry, key)
        entry.write_bytes(kept[index % FULL - 1])
        refused = await served.check("proof", proof, entry, key)

        assert (accepted.returncode, accepted.stdout.split()[0], refused.returncode) == (0, str(index), 1), accepted.stderr
        indices.append(index)
    assert indices == [1, 2, SIZE - 1]


async def test_litewitness_cosigns_a_served_log_while_it_grows(start_service: Any, tmp_path: Path, go_program: Find) -> None:
    there = Litewitness(go_program("litewitness"), tmp_path)
    witnesses = [{"url": there.url, "vkey": there.key.vkey}]
    async with logged_site(start_service, mtc={"witnesses": witnesses}) as site:
        served = Served(site, tmp_path, go_program)
        key = await served.vkey()
        with there.knowing(NoteKey.parse(key)):
            for number in range(3):
                await site.logged(f"n{number}.localhost")
                await site.checkpoint()
                seen = await served.check("note", f"{served.url}/checkpoint", key, there.key.vkey)
                assert seen.stdout.split()[:2] == [f"{site.base}/tlog", str(number + 2)], seen.stderr
        await site.logged("later.localhost")
        await site.checkpoint()
        alone = await served.check("note", f"{served.url}/checkpoint", key)
        assert alone.stdout.split()[1] == "5", "a log goes on without its witness"
        assert "1 of 2 keys have signed" in (await served.check("note", f"{served.url}/checkpoint", key, there.key.vkey)).stderr
