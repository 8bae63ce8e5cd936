"""What the identity provider's process costs: its start, its memory after many sign-ins, and that it rests when nobody asks."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
from bench.measure import Row, cpu_us, rss_kb
from bench.process import RSS_LIMIT_MB, Shipped, start_row, verdict
from rig.people import write_users

SESSIONS = 10_000
PEOPLE = 100
CALLERS = 8
IDLE_SECONDS = 10.0
IDLE_LIMIT = 0.001
PASSWORD = "a password of the bench"


def shipped_idp(folder: Path) -> Shipped:
    """``config/idp.toml``, with people whose passwords cost little to check."""
    users = write_users(folder / "users.toml", PASSWORD, {f"person-{number}": {} for number in range(PEOPLE)})
    return Shipped(folder, Path("config/idp.toml"), {"/var/lib/greatseal/users.toml": str(users)})


def session_rows(folder: Path) -> Iterator[Row]:
    """All rows."""
    server = shipped_idp(folder)
    row = start_row(server)
    row.name = "start of config/idp.toml until ready"
    yield row
    with server.running() as process:
        began = rss_kb(process.pid) / 1024
        asyncio.run(_sign_in(server.port, SESSIONS))
        megabytes = rss_kb(process.pid) / 1024
        yield Row(
            name=f"memory after {SESSIONS} sessions",
            note=f"{megabytes:.1f} MB ({began:.1f} at the start), limit {RSS_LIMIT_MB} MB: {verdict(megabytes, RSS_LIMIT_MB)}",
        )
        time.sleep(IDLE_SECONDS)  # what the sign-ins left to be done
        used, began = cpu_us(process.pid), time.perf_counter()
        time.sleep(IDLE_SECONDS)
        share = (cpu_us(process.pid) - used) / 1e6 / (time.perf_counter() - began)
        yield Row(name="share of a core when nobody asks", note=f"{share:.4%}, limit {IDLE_LIMIT:.1%}: {verdict(share, IDLE_LIMIT)}")


async def _sign_in(port: int, count: int) -> None:
    """Sessions of many people, each from an address of its own, as the proxy in front says."""
    numbers = iter(range(count))
    cookies = set()

    async def caller(http: aiohttp.ClientSession) -> None:
        for number in numbers:
            body = {"username": f"person-{number % PEOPLE}", "password": PASSWORD}
            address = ".".join(map(str, (10, *number.to_bytes(3))))
            async with http.post(f"http://127.0.0.1:{port}/api/auth/login", json=body, headers={"X-Forwarded-For": address}) as answer:
                assert answer.status == 200, await answer.text()
                cookies.add(answer.headers["Set-Cookie"])

    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        await asyncio.gather(*(caller(http) for _ in itertools.repeat(None, CALLERS)))
    assert len(cookies) == count
