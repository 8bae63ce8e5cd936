"""A workload of 32 connections by wrk: every answer is checked, and the CPU of the server is read before and after."""

import shutil
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from bench.measure import Sample, cpu_us, reference_us

CONNECTIONS = 32
SCRIPT = Path(__file__).with_name("load.lua")


class Target(msgspec.Struct, frozen=True):
    """A running server: the base of its URLs and its process."""

    base_url: str
    pid: int


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. ``bodies`` makes it a form by POST; ``login`` are client id and secret (HTTP Basic).

    A body may begin with the DPoP proof of its request and a tab.
    """

    path: str
    expected: str
    """What each answer must have in it."""
    status: int = 200
    """Of each answer."""
    bodies: Sequence[str] = ()
    login: tuple[str, str] | None = None
    accept: str | None = None
    mode: Literal["cycle", "once", "follow"] = "cycle"
    """``once``: each body one time; ``follow``: the refresh token of an answer is sent next."""


class Measured(msgspec.Struct, frozen=True):
    """What wrk says of a run."""

    requests: int
    seconds: float
    wrong: int
    missing: int
    errors: int
    p50_ms: float
    p99_ms: float


def installed() -> bool:
    return shutil.which("wrk") is not None


def run(target: Target, workload: Workload, seconds: int, folder: Path, *, keep: Path | None = None) -> tuple[Sample, Measured]:
    """Load ``target`` for some seconds. ``keep`` gets the access tokens, as forms of an introspection, or the device codes, as polls.
    Raises RuntimeError for a wrong answer."""
    bodies = folder / "bodies"
    bodies.write_text("".join(f"{body}\n" for body in workload.bodies))
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(SCRIPT)]
    if workload.login:
        command += ["-H", f"Authorization: Basic {b64encode(':'.join(workload.login).encode()).decode()}"]
    if workload.accept:
        command += ["-H", f"Accept: {workload.accept}"]
    given = [str(bodies) if workload.bodies else "-", workload.expected, workload.mode, str(keep or "-"), str(workload.status)]
    reference = reference_us()
    used = cpu_us(target.pid)
    answer = subprocess.run(
        [*command, target.base_url + workload.path, "--", *given], check=True, stdout=subprocess.PIPE, text=True, timeout=seconds + 30
    ).stdout
    used = cpu_us(target.pid) - used
    found = msgspec.json.decode(answer.strip().splitlines()[-1], type=Measured)
    if found.wrong or found.missing or found.errors or not found.requests:
        raise RuntimeError(f"{target.base_url}{workload.path}: {found}")
    if not used:
        raise RuntimeError(f"process {target.pid} used no CPU: it is not the one that answers at {target.base_url}")
    return Sample(cpu_us=used, seconds=found.seconds, operations=found.requests, reference_us=reference), found


def fresh_forms(target: Target, workload: Workload, seconds: int, folder: Path) -> list[str]:
    """Access tokens or device codes that nobody has shown yet, each in a form."""
    kept = folder / "tokens"
    run(target, workload, seconds, folder, keep=kept)
    return kept.read_text().split()
