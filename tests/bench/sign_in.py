"""What a sign-in costs in each way, and whether answer times tell which names exist. ``python -m bench.sign_in`` has these rows alone.

A password's sign-in has the write that every way has: what another way costs more is compared with the P-256 signature that it verifies.
"""

import asyncio
import itertools
import math
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

import aiohttp
import msgspec
import pyotp
import tomlkit
from bench.measure import Row, Sample, cpu_us, quantile, reference_us, repeated, row
from bench.process import Shipped, verdict
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from rig.people import write_users
from rig.softkeys import SoftKey
from rig.upstream import CLIENT, SECRET, Stub, open_stub, request_of

from greatseal.jose.compact import b64url_decode
from greatseal_passkey.ceremony import Authentication, prove
from greatseal_passkey.settings import RelyingParty
from greatseal_users_file.edit import write
from greatseal_users_file.hashing import HASHER

ORIGIN = "https://id.example.org"
PASSWORD = "a password of the bench"
PEOPLE = 300
CALLERS = 8
ROUNDS = 2
STEP = 30
ASKED = 500
"""Of each kind, known and unknown."""
VERIFIED = 3
LIMITS = {"passkey, both requests": 8, "password and code": 5}
LIKELY = 0.01
"""A smaller p says that the two kinds differ."""
ADDRESSES = itertools.count(1)
Http: TypeAlias = aiohttp.ClientSession


async def post(http: Http, path: str, body: object, cookie: str = "", *, status: int = 200) -> Any:
    """An answer's JSON and cookies; every request comes from an address of its own, as the proxy in front says."""
    address = ".".join(map(str, (10, *next(ADDRESSES).to_bytes(3))))
    headers = {"X-Forwarded-For": address, "Origin": ORIGIN, "Cookie": cookie}
    async with http.post(path, json=body, headers=headers) as answer:
        assert answer.status == status, (path, answer.status, await answer.text())
        said = None if status == 204 else await answer.json()
        cookies = "; ".join(line.partition(";")[0] for line in answer.headers.getall("Set-Cookie", []))
    return said, cookies


class Person:
    """With a passkey and an authenticator app."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = SoftKey()
        self.key.rp_id = "id.example.org"
        self.totp = pyotp.TOTP(pyotp.random_base32())

    async def enrol_key(self, http: Http) -> None:
        """The passkey."""
        cookie = await self.by_password(http)
        begun, more = await post(http, "/api/auth/passkey/register/begin", {}, cookie)
        made = self.key.make(begun, ORIGIN)
        await post(http, "/api/auth/passkey/register/complete", made, f"{cookie}; {more}" if more else cookie, status=201)

    async def enrol_app(self, http: Http) -> None:
        """The app, with the code of the step before this one."""
        cookie = await self.by_password(http)
        made, _ = await post(http, "/api/me/otp-tokens", {"label": "phone"}, cookie, status=201)
        parsed = pyotp.parse_uri(made["otpauth_uri"])
        assert isinstance(parsed, pyotp.TOTP)
        self.totp = parsed
        code = self.totp.generate_otp(int(time.time()) // STEP - 1)
        await post(http, f"/api/me/otp-tokens/{made['token_id']}/confirm", {"otp_code": code}, cookie, status=204)

    async def by_password(self, http: Http) -> str:
        """A session's cookies."""
        _, cookies = await post(http, "/api/auth/login", {"username": self.name, "password": PASSWORD})
        return str(cookies)

    async def by_passkey(self, http: Http) -> None:
        """Both requests."""
        begun, _ = await post(http, "/api/auth/passkey/begin", {})
        await post(http, "/api/auth/passkey/complete", self.key.answer(begun, ORIGIN))

    def by_code(self, step: int) -> Callable[[Http], Awaitable[None]]:
        """Password and code in one request."""

        async def ask(http: Http) -> None:
            body = {"username": self.name, "password": PASSWORD, "otp_code": self.totp.generate_otp(step)}
            await post(http, "/api/auth/otp", body)

        return ask


async def everybody(url: str, work: Sequence[Callable[[Http], Awaitable[object]]]) -> list[float]:
    """Seconds that each took."""
    waiting, durations = iter(work), []

    async def caller(http: Http) -> None:
        for one in waiting:
            began = time.perf_counter()
            await one(http)
            durations.append(time.perf_counter() - began)

    async with aiohttp.ClientSession(url, cookie_jar=aiohttp.DummyCookieJar()) as http:
        await asyncio.gather(*(caller(http) for _ in itertools.repeat(None, CALLERS)))
    return durations


def measured(url: str, pid: int, work: Sequence[Callable[[Http], Awaitable[object]]]) -> Sample:
    """One round."""
    reference, before, began = reference_us(), cpu_us(pid), time.perf_counter()
    durations = asyncio.run(everybody(url, work))
    seconds = time.perf_counter() - began
    return Sample(cpu_us=cpu_us(pid) - before, seconds=seconds, operations=len(work), durations=durations, reference_us=reference)


def verify_us() -> tuple[float, float]:
    """CPU of a P-256 verification alone, and of a passkey's assertion verified."""
    key = generate_private_key(SECP256R1())
    signature, public, algorithm = key.sign(b"reference", ECDSA(SHA256())), key.public_key(), ECDSA(SHA256())
    plain = repeated(lambda: public.verify(signature, b"reference", algorithm), at_once=50)
    soft = SoftKey()
    begun = {"publicKey": {"challenge": "c" * 43}, "challenge_id": "c"}
    given = msgspec.convert(soft.answer(begun, "http://localhost"), Authentication)
    party = RelyingParty(id="localhost", name="Bench", origins=("http://localhost",), verified=True)
    spki = soft.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    whole = repeated(lambda: prove(given, party, b64url_decode("c" * 43), spki), at_once=20)
    return plain.cpu_us / plain.operations, whole.cpu_us / whole.operations


def shipped(folder: Path, users: Path, more: str = "") -> Shipped:
    """``config/idp.toml`` with every way to sign in that needs no other server, and further tables."""
    enabled = 'sets = ["idp"]\nenabled = ["passkey", "otp", "federation"]'
    moved = {"/var/lib/greatseal/users.toml": str(users), 'sets = ["idp"]': enabled, "# [webui]": f"{more}\n# [webui]"}
    return Shipped(folder, Path("config/idp.toml"), moved)


def cost_rows(folder: Path) -> Iterator[Row]:
    """Every way to sign in, in turns. The password's hash costs little here: see :mod:`rig.people`."""
    people, apps = ([Person(f"{kind}-{number}") for number in range(PEOPLE)] for kind in ("key", "app"))
    server = shipped(folder, write_users(folder / "users.toml", PASSWORD, {one.name: {} for one in [*people, *apps]}))
    plain, whole = verify_us()
    url = f"http://127.0.0.1:{server.port}"
    found: dict[str, list[Sample]] = {"password": [], "password and code": [], "passkey, both requests": []}
    with server.running() as process:
        asyncio.run(everybody(url, [one.enrol_key for one in people]))
        asyncio.run(everybody(url, [one.enrol_app for one in apps]))
        step = int(time.time()) // STEP
        for _ in range(ROUNDS):
            step = max(step, int(time.time()) // STEP)
            time.sleep(max(0.0, (step - 1) * STEP - time.time()))  # a code is good one step early
            for name, work in (
                ("password", [one.by_password for one in people]),
                ("passkey, both requests", [one.by_passkey for one in people]),
                ("password and code", [one.by_code(step) for one in apps]),
            ):
                found[name].append(measured(url, process.pid, work))
            step += 1
    rows = {name: row(f"sign-in: {name}", samples) for name, samples in found.items()}
    note = f"{whole / plain:.1f} times one P-256 verified, limit {VERIFIED}: {verdict(whole / plain, VERIFIED)}"
    yield Row(name="an assertion of a passkey verified", cpu_us_per_op=whole, reference_us=plain, ratio=whole / plain, note=note)
    base = rows["password"].cpu_us_per_op or 0.0
    for name, limit in LIMITS.items():
        times = ((rows[name].cpu_us_per_op or 0.0) - base) / plain
        rows[name].note = f"{times:.1f} times one P-256 verified more than a password, limit {limit}: {verdict(times, limit)}"
    yield from rows.values()


def round_trip_rows(folder: Path) -> Iterator[Row]:
    """A sign-in by another provider: from the button to the session, with the code redeemed and the ID token verified."""

    async def rounds() -> list[Sample]:
        async with open_stub(lambda: int(time.time())) as stub:
            table = {"id": "partner", "issuer": stub.url, "client_id": CLIENT, "client_secret": SECRET, "realm": "PARTNER.EXAMPLE"}
            tables = tomlkit.dumps({"federation": {"upstream_idps": [{**table, "allow_private_hosts": True, "username_claim": "name"}]}})
            server = shipped(folder, write_users(folder / "users.toml", PASSWORD, {}), tables)
            stub.claims = {"name": "ada"}
            with server.running() as process:
                url = f"http://127.0.0.1:{server.port}"
                await there_and_back(url, stub, CALLERS)  # metadata, keys, and the person
                return [await sampled(url, stub, process.pid) for _ in range(ROUNDS)]

    yield row("sign-in: another provider, both requests", asyncio.run(rounds()), "with a request to its token endpoint")


async def sampled(url: str, stub: Stub, pid: int) -> Sample:
    """One round."""
    reference, before, began = reference_us(), cpu_us(pid), time.perf_counter()
    durations = await there_and_back(url, stub, PEOPLE)
    seconds = time.perf_counter() - began
    return Sample(cpu_us=cpu_us(pid) - before, seconds=seconds, operations=PEOPLE, durations=durations, reference_us=reference)


async def there_and_back(url: str, stub: Stub, count: int) -> list[float]:
    """Seconds that each sign-in took."""
    numbers, durations = iter(range(count)), []

    async def caller(http: Http) -> None:
        for _ in numbers:
            address = {"X-Forwarded-For": ".".join(map(str, (10, *next(ADDRESSES).to_bytes(3))))}
            began = time.perf_counter()
            async with http.get("/auth/external/partner", headers=address, allow_redirects=False) as answer:
                assert answer.status == 303, await answer.text()
                request = request_of(answer.headers["Location"])
                cookie = answer.headers["Set-Cookie"].partition(";")[0]
            query = urlencode({"code": stub.code(request), "state": request["state"]})
            back = f"/internal/callback/partner?{query}"
            async with http.get(back, headers={**address, "Cookie": cookie}, allow_redirects=False) as answer:
                assert answer.status == 303, await answer.text()
            durations.append(time.perf_counter() - began)

    async with aiohttp.ClientSession(url, cookie_jar=aiohttp.DummyCookieJar()) as http:
        await asyncio.gather(*(caller(http) for _ in itertools.repeat(None, CALLERS)))
    return durations


def name_rows(folder: Path) -> Iterator[Row]:
    """Whether a stranger with a clock learns which names exist: 500 of each kind, mixed, and Mann and Whitney's test of ranks."""
    names = [f"person-{number}" for number in range(ASKED)]
    hashed = HASHER.hash(PASSWORD)
    users = folder / "users.toml"
    write(users, tomlkit.dumps({"user": [{"username": name, "password": hashed} for name in names]}))
    server = shipped(folder, users)
    with server.running():
        for path, body, status in (
            ("/api/auth/login", {"password": "wrong"}, 401),
            ("/api/auth/otp", {"password": "wrong", "otp_code": "123456"}, 401),
            ("/api/auth/passkey/begin", {}, 200),
        ):
            known, unknown = asyncio.run(answer_times(f"http://127.0.0.1:{server.port}", path, body, status, names))
            likely = p_of_ranks(known, unknown)
            told = "kept" if likely >= LIKELY else "MISSED: they differ"
            middles = " and ".join(f"{quantile(sorted(each), 0.5) * 1e3:.2f}" for each in (known, unknown))
            yield Row(name=f"{ASKED} known and unknown names at {path}", note=f"{middles} ms, p = {likely:.2f}, limit {LIKELY}: {told}")


async def answer_times(url: str, path: str, body: dict[str, str], status: int, names: Sequence[str]) -> tuple[list[float], list[float]]:
    """Seconds of the answers for known names and for unknown ones, one after another in a random order."""
    found: tuple[list[float], list[float]] = ([], [])
    asked = [(name, 0) for name in names] + [(f"nobody-{number}", 1) for number in range(len(names))]
    random.shuffle(asked)
    async with aiohttp.ClientSession(url, cookie_jar=aiohttp.DummyCookieJar()) as http:
        for name, kind in asked:
            began = time.perf_counter()
            await post(http, path, {"username": name, **body}, status=status)
            found[kind].append(time.perf_counter() - began)
    return found


def p_of_ranks(first: Sequence[float], second: Sequence[float]) -> float:
    """How likely ranks as unequal as these are when both come from one distribution (Mann and Whitney's U, two-sided, as a normal)."""
    ordered = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    ranks = sum(rank for rank, (_, kind) in enumerate(ordered, 1) if kind == 0)
    n, m = len(first), len(second)
    spread = math.sqrt(n * m * (n + m + 1) / 12)
    return 2 * (1 - statistics.NormalDist().cdf(abs(ranks - n * (n + m + 1) / 2) / spread))


def sign_in_rows(folder: Path) -> Iterator[Row]:
    """All rows."""
    for part in (cost_rows, round_trip_rows, name_rows):
        (folder / part.__name__).mkdir()
        yield from part(folder / part.__name__)


def main() -> None:
    """All rows, and nothing else of the bench."""
    from bench.__main__ import show

    with tempfile.TemporaryDirectory() as folder:
        for one in sign_in_rows(Path(folder)):
            show(one)


if __name__ == "__main__":
    main()
