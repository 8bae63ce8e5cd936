"""`make bench-peer`: the same workloads here and at oidc-provider (Node.js, state in memory), in turns: wrk with 32 connections,
one process each. Prints a table and writes var/bench-peer.json."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
import requests
from bench import strict
from bench.measure import Sample
from bench.tokens import BEGIN_DEVICE, CREDENTIALS, FAMILIES, FORMATS, MOST, REFRESH, SECONDS, Ours
from bench.wrk import Target, Workload, fresh_forms, installed, run
from rig.postgres import bench_cluster
from rig.provider import Provider

from greatseal.testing.service import free_port

RESULT = Path("var/bench-peer.json")
SERVER = Path(__file__).with_name("server.mjs")
SECRET = "a-secret-of-forty-three-characters-01234567"
ROUNDS = 3
PRODUCTION = {"NODE_ENV": "production"}


class Compared(msgspec.Struct, frozen=True):
    """A workload on both sides."""

    name: str
    ours_rps: float
    peer_rps: float
    ours_cpu_us: float
    peer_cpu_us: float


class Peer:
    """oidc-provider with the clients and token formats of :class:`Ours`."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target = target
        self.folder = folder

    def documents(self) -> dict[str, Workload]:
        return {
            "discovery": Workload(path="/.well-known/openid-configuration", expected='"token_endpoint"'),
            "jwks": Workload(path="/jwks", expected='"kty"'),
        }

    def credentials(self, format_: str) -> Workload:
        return Workload(path="/token", expected='"access_token"', bodies=CREDENTIALS, login=(format_, SECRET))

    def introspection(self, format_: str) -> Workload:
        forms = fresh_forms(self.target, self.credentials(format_), 3 * SECONDS, self.folder)
        return Workload(path="/token/introspection", expected='"active":true', bodies=forms, login=(format_, SECRET), mode="once")

    def polls(self) -> Workload:
        begin = Workload(path="/device/auth", expected='"device_code"', bodies=BEGIN_DEVICE, login=("ES256", SECRET))
        forms = fresh_forms(self.target, begin, 2 * SECONDS, self.folder)
        return Workload(path="/token", expected='"authorization_pending"', status=400, bodies=forms, login=("ES256", SECRET), mode="once")

    def assertions(self) -> Workload:
        forms = strict.assertions("keyed", self.target.base_url, MOST * SECONDS)
        return Workload(path="/token", expected='"access_token"', bodies=forms, mode="once")

    def proofs(self) -> Workload:
        forms = strict.proofs(f"{self.target.base_url}/token", CREDENTIALS[0], MOST * SECONDS)
        return Workload(path="/token", expected='"DPoP"', bodies=forms, login=("ES256", SECRET), mode="once")

    def exchanges(self) -> Workload:
        """It has no token exchange: a grant of server.mjs does the least that one must. Its subject tokens are opaque, of its memory."""
        tokens = requests.get(f"{self.target.base_url}/begin-families?count={FAMILIES}&kind=AccessToken", timeout=10).text.split()
        forms = [strict.exchanged(token) for token in tokens]
        return Workload(path="/token", expected='"issued_token_type"', bodies=forms, login=("ES256", SECRET))

    def signed_introspection(self) -> Workload:
        forms = fresh_forms(self.target, self.credentials("signed"), 3 * SECONDS, self.folder)
        return Workload(
            path="/token/introspection", expected="eyJ", bodies=forms, login=("signed", SECRET), mode="once", accept=strict.SIGNED
        )

    def refreshes(self) -> Workload:
        tokens = requests.get(f"{self.target.base_url}/begin-families?count={FAMILIES}", timeout=10).text.split()
        bodies = [REFRESH + token for token in tokens]
        return Workload(path="/token", expected='"id_token"', bodies=bodies, login=("ES256", SECRET), mode="follow")


def workloads(side: Ours | Peer) -> Mapping[str, Callable[[], Workload]]:
    """The rows. Each is made when its turn has come: tokens and families are fresh."""
    made: dict[str, Callable[[], Workload]] = {name: partial(side.documents().__getitem__, name) for name in side.documents()}
    made |= {f"client_credentials, {name}": partial(side.credentials, name) for name in FORMATS}
    # oidc-provider keeps none of its JWTs, so that they cannot be introspected.
    made["introspection of opaque tokens"] = partial(side.introspection, "opaque")
    made["refresh with ID token"] = side.refreshes
    made["device poll"] = side.polls
    made["client_credentials, private_key_jwt"] = side.assertions
    made["client_credentials, DPoP"] = side.proofs
    made["token exchange"] = side.exchanges
    made["signed introspection"] = side.signed_introspection
    return made


@contextlib.contextmanager
def peer(folder: Path) -> Iterator[Peer]:
    """Ready to ended."""
    port = free_port()
    # `node` may be a wrapper, whose process is not the one to measure.
    node = subprocess.run(["node", "-p", "process.execPath"], check=True, stdout=subprocess.PIPE, text=True, timeout=30).stdout.strip()
    with (folder / "peer.log").open("wb") as log:
        process = subprocess.Popen(
            [node, str(SERVER), str(port), json.dumps(strict.JWKS)], stdout=subprocess.PIPE, stderr=log, env={**os.environ, **PRODUCTION}
        )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError((folder / "peer.log").read_text())
        yield Peer(Target(f"http://localhost:{port}", process.pid), folder)
    finally:
        process.kill()
        process.wait()


def durable(side: Ours | Peer) -> Mapping[str, Callable[[], Workload]]:
    """What writes, which is on PostgreSQL here and in memory there."""
    return {"refresh with ID token, PostgreSQL": side.refreshes}


def compare(sides: tuple[Ours, Peer], folder: Path, made: Callable[[Ours | Peer], Mapping[str, Callable[[], Workload]]]) -> list[Compared]:
    """Rounds that take turns; the medians."""
    found: dict[str, tuple[list[Sample], list[Sample]]] = {}
    targets, offered = [side.target for side in sides], [made(side) for side in sides]
    for number in range(-1, ROUNDS):
        for name in offered[0]:
            pair = found.setdefault(name, ([], []))
            for target, workload, samples in zip(targets, offered, pair, strict=True):
                sample, _ = run(target, workload[name](), SECONDS, folder)
                if number >= 0:
                    samples.append(sample)
    return [Compared(name, rate(ours), rate(theirs), cpu(ours), cpu(theirs)) for name, (ours, theirs) in found.items()]


def rate(samples: list[Sample]) -> float:
    return statistics.median(sample.operations / sample.seconds for sample in samples)


def cpu(samples: list[Sample]) -> float:
    return statistics.median(sample.cpu_us / sample.operations for sample in samples)


def show(rows: list[Compared]) -> None:
    """The table, and what of the goal is kept: at least 1.0 everywhere, 1.5 on five."""
    print(f"{'':<38}{'ours op/s':>12}{'peer op/s':>12}{'ratio':>8}{'ours CPU us':>13}{'peer CPU us':>13}")
    ratios = [row.ours_rps / row.peer_rps for row in rows]
    for row, ratio in zip(rows, ratios, strict=True):
        print(f"{row.name:<38}{row.ours_rps:>12,.0f}{row.peer_rps:>12,.0f}{ratio:>8.2f}{row.ours_cpu_us:>13.1f}{row.peer_cpu_us:>13.1f}")
    print(
        f"\nat least 1.0: {sum(each >= 1 for each in ratios)} of {len(ratios)}; at least 1.5: {sum(each >= 1.5 for each in ratios)}, goal 5"
    )


def main() -> None:
    if not installed():
        sys.exit("wrk is not installed: apt install wrk")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        provider = Provider(folder)
        with provider.running() as process, peer(folder) as other:
            rows = compare((Ours(provider, process.pid, folder), other), folder, workloads)
        with bench_cluster() as cluster:
            if cluster is not None:
                (folder / "postgres").mkdir()
                provider = Provider(folder / "postgres", database=cluster.make())
                with provider.running() as process, peer(folder) as other:
                    rows += compare((Ours(provider, process.pid, folder), other), folder, durable)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    show(rows)
    print(f"written to {RESULT}")


if __name__ == "__main__":
    main()
