"""Revocation: OCSP from memory and signed anew beside discovery, and all lists of 100,000 revoked certificates."""

import asyncio
import os
import random
import sqlite3
import statistics
import time
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.acme import Responses, clients
from bench.measure import Row, Sample, own_cpu_us, quantile, reference_us, row
from bench.wrk import Measured, Target, Workload, installed, run
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from rig.provider import Provider
from rig.server import Server

from greatseal.testing.service import document, serve

ROUNDS = 3
SECONDS = 2
REVOKED, SHARD = 100_000, 5_000
LISTS_LIMIT_SECONDS = 1.0
HELD_LIMIT_MS = 10.0
CACHED_LIMIT = 1.5
BUSY_LIMIT = 1.5
SIGNED_GOAL = 5_000
UNKNOWN = "7f" * 16


def ocsp_rows(folder: Path) -> list[Row]:
    """In rounds that take turns with discovery of an identity provider."""
    (folder / "idp").mkdir()
    provider, server = Provider(folder / "idp", features="idp"), Server(folder, ["status.localhost"])
    with provider.running() as first, server.running() as second:
        path = f"/ca/ocsp/{quote(b64encode(asyncio.run(asked(server, None))).decode(), safe='')}"
        signed = f"/ca/ocsp/{quote(b64encode(asyncio.run(asked(server, b'n' * 32))).decode(), safe='')}"
        workloads = {
            "discovery, beside OCSP": (
                Target(provider.base_url, first.pid),
                Workload(path="/.well-known/openid-configuration", expected="issuer"),
            ),
            "OCSP from memory": (Target(server.base_url, second.pid), Workload(path=path, expected="OCSP responder")),
            "OCSP signed anew with a nonce": (Target(server.base_url, second.pid), Workload(path=signed, expected="OCSP responder")),
        }
        found: dict[str, list[Any]] = {name: [] for name in workloads}
        for number in range(-1, ROUNDS):
            for name, (target, workload) in workloads.items():
                measured = run(target, workload, 1 if number < 0 else SECONDS, folder)
                if number >= 0:
                    found[name].append(measured)
    rows = [row(name, [sample for sample, _ in measured]) for name, measured in found.items()]
    for one, rounds in zip(rows, found.values(), strict=True):
        one.p50_ms = statistics.median(each.p50_ms for _, each in rounds)
        one.p99_ms = statistics.median(each.p99_ms for _, each in rounds)
    discovery, cached, fresh = (one.cpu_us_per_op or 0.0 for one in rows)
    rows[
        1
    ].note = f"{cached / discovery:.2f} of discovery, limit {CACHED_LIMIT}: {'kept' if cached <= CACHED_LIMIT * discovery else 'MISSED'}"
    rows[2].note = f"{1e6 / fresh:,.0f}/s of one core, goal {SIGNED_GOAL:,}: {'kept' if 1e6 / fresh >= SIGNED_GOAL else 'MISSED'}"
    return rows


async def asked(server: Server, nonce: bytes | None) -> bytes:
    """An OCSP request about a certificate of the server that was issued now."""
    responses = Responses()
    async with responses.served(server.validation_port), clients(server.directory, 1, responses) as (client,):
        serial = await client.certificate("status.localhost")
        async with client.session.get(f"{server.base_url}/ca/cert") as answer:
            issuer = x509.load_der_x509_certificate(await answer.read())
    return request_of(issuer, serial, nonce)


def request_of(issuer: x509.Certificate, serial: int, nonce: bytes | None) -> bytes:
    """An OCSP request about a serial."""
    name, key = hashes.Hash(hashes.SHA1()), x509.SubjectKeyIdentifier.from_public_key(issuer.public_key())
    name.update(issuer.subject.public_bytes())
    builder = ocsp.OCSPRequestBuilder().add_certificate_by_hash(name.finalize(), key.digest, serial, hashes.SHA1())
    return (builder if nonce is None else builder.add_extension(x509.OCSPNonce(nonce), critical=False)).build().public_bytes(Encoding.DER)


def lists_rows(folder: Path) -> list[Row]:
    """CPU of this process, in which the service runs, how long its event loop was held, and what OCSP takes meanwhile."""
    config = document(folder, ["ca"])
    asyncio.run(_started(config))
    _revoke(folder / "greatseal.db")
    samples, held, answers = asyncio.run(_made(config, folder))
    made = row("all revocation lists of 100,000 certificates", samples)
    cpu, worst = (made.cpu_us_per_op or 0.0) / 1e6, statistics.median(held) * 1e3
    kept = cpu <= LISTS_LIMIT_SECONDS and worst <= HELD_LIMIT_MS
    limits = f"limits {LISTS_LIMIT_SECONDS} s, {HELD_LIMIT_MS:.0f} ms: {'kept' if kept else 'MISSED'}"
    made.note = f"{cpu:.2f} s of CPU, loop held {worst:.1f} ms; {limits}"
    return [made, *_answer_rows(answers)] if answers else [made]


def _answer_rows(answers: list[tuple[Measured, Measured]]) -> list[Row]:
    rows = []
    for name, measured in zip(("OCSP beside nothing", "OCSP while all lists are made"), zip(*answers, strict=True), strict=True):
        figures = zip(*((one.p50_ms, one.p99_ms, one.requests / one.seconds) for one in measured), strict=True)
        p50, p99, rate = map(statistics.median, figures)
        rows.append(Row(name=name, ops_per_s=rate, p50_ms=p50, p99_ms=p99))
    idle, busy = (one.p99_ms or 0.0 for one in rows)
    rows[1].note = f"p99 {busy / idle:.2f} of idle, limit {BUSY_LIMIT}: {'kept' if busy <= BUSY_LIMIT * idle else 'MISSED'}"
    return rows


async def _started(config: dict[str, Any]) -> None:
    async with serve(config):
        """Keys and tables."""


def _revoke(database: Path) -> None:
    chosen, now = random.Random(1), int(time.time()) * 10**6
    with sqlite3.connect(database) as store:
        (kid,) = store.execute("SELECT kid FROM ca_crl WHERE shard = 1").fetchone()
        for shard in range(1, REVOKED // SHARD + 1):
            store.execute("INSERT OR IGNORE INTO ca_crl VALUES ('default', ?, ?, ?, 1, 1, 0)", (shard, kid, SHARD))
            rows = [
                (
                    "default",
                    shard,
                    "7f" + os.urandom(15).hex(),
                    now - chosen.randrange(10**7) * 10**6,
                    chosen.choice([None, 1, 4]),
                    now + 10**13,
                )
                for _ in range(SHARD)
            ]
            store.executemany("INSERT INTO ca_revocation VALUES (?, ?, ?, ?, ?, ?)", rows)
    store.close()


async def _made(config: dict[str, Any], folder: Path) -> tuple[list[Sample], list[float], list[tuple[Measured, Measured]]]:
    samples, held, answers = [], [], []
    async with serve(config) as service:
        lists = service.kernel.hooks.instances["ca"].parts(service.host("ca")).lists  # type: ignore[attr-defined]
        for _ in range(ROUNDS):
            reference = reference_us()
            used, began = own_cpu_us(), time.perf_counter()
            await lists.force("default")
            seconds = time.perf_counter() - began
            samples.append(Sample(cpu_us=own_cpu_us() - used, seconds=seconds, operations=1, reference_us=reference))
            gaps: list[float] = []
            watching = asyncio.create_task(_watch(gaps))
            await lists.force("default")
            watching.cancel()
            held.append(quantile(sorted(gaps), 0.999))
        if installed():
            issuer = lists._signing["default"].certificate
            path = f"/ca/ocsp/{quote(b64encode(request_of(issuer, int(UNKNOWN, 16), None)).decode(), safe='')}"
            target, workload = Target(service.url, os.getpid()), Workload(path=path, expected="OCSP responder")
            for number in range(-1, ROUNDS):
                alone = (await asyncio.to_thread(run, target, workload, SECONDS, folder))[1]
                making = asyncio.create_task(_again(lists))
                beside = (await asyncio.to_thread(run, target, workload, SECONDS, folder))[1]
                making.cancel()
                if number >= 0:
                    answers.append((alone, beside))
    return samples, held, answers


async def _again(lists: Any) -> None:
    while True:
        await lists.force("default")


async def _watch(gaps: list[float]) -> None:
    """How long the loop could not go on because of this process: the time in which others had the processor does not count."""
    while True:
        began, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(0.001)
        gaps.append(min(time.perf_counter() - began - 0.001, time.process_time() - used))
