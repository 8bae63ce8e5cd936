"""Drives a service that is killed again and again, and keeps a ledger of what it acknowledged."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from acme_client import AcmeClient, Answer, Responder, csr_for

from greatseal.testing.service import free_port

RETRIED = (aiohttp.ClientError, ConnectionError)


class Crashing:
    """The service under test, started by the warm parent."""

    def __init__(self, folder: Path, database: str, responder: Responder) -> None:
        port = free_port()
        self.url = f"http://localhost:{port}"
        self.folder = folder
        self.document = {
            "plugins": {"sets": ["ca"]},
            "server": {
                "base_url": self.url,
                "listen": f"127.0.0.1:{port}",
                "http_validation_port": responder.port,
                "http_validation_allow_private_ips": True,
            },
            "database": {"url": database, "migrate": "auto"},
            "cluster": {"key_file": str(folder / "cluster.key")},
        }
        self.up = asyncio.Event()
        self.pid = 0

    @asynccontextmanager
    async def warm(self) -> AsyncIterator["Crashing"]:
        """The parent process, which ends with the block."""
        self.parent = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("forkserver.py")),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "GREATSEAL_FAULTS": "1"},
        )
        try:
            yield self
        finally:
            assert self.parent.stdin is not None
            self.parent.stdin.close()
            await self.parent.wait()

    async def start(self, *plans: str) -> bool:
        """Start it with these fault plans; False when it ended before it was ready."""
        answer = await self._ask(
            do="start",
            document=self.document,
            faults=plans,
            log=str(self.folder / "server.log"),
            signatures=str(self.folder / "signatures"),
        )
        self.pid = answer["pid"]
        if answer["ready"]:
            self.up.set()
        return bool(answer["ready"])

    async def killed(self) -> None:
        """Wait until the fault killed it."""
        answer = await self._ask(do="wait", pid=self.pid)
        self.up.clear()
        assert answer == {"signal": signal.SIGKILL}, f"{answer}: see {self.folder / 'server.log'}"

    async def end(self) -> dict[str, int]:
        """SIGTERM, and how it ended."""
        answer: dict[str, int] = await self._ask(do="end", pid=self.pid)
        self.up.clear()
        return answer

    async def _ask(self, **command: Any) -> Any:
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(json.dumps(command).encode() + b"\n")
        return json.loads(await asyncio.wait_for(self.parent.stdout.readline(), 60))


class Ledger:
    """What the service acknowledged: certificates by order, accounts that it deactivated."""

    def __init__(self) -> None:
        self.certificates: dict[str, bytes] = {}
        self.orders: list[str] = []
        self.deactivated: list[AcmeClient] = []


class Subscriber:
    """A client that goes on after every crash as a patient ACME client would."""

    def __init__(self, service: Crashing, responder: Responder, ledger: Ledger, session: aiohttp.ClientSession) -> None:
        self.service = service
        self.responder = responder
        self.ledger = ledger
        self.session = session
        self.stop = False

    async def run(self, name: str) -> None:
        """Order, prove, finalize, download; an account of its own, deactivated at the end."""
        number = 0
        while not self.stop:
            client = await self._again(lambda: AcmeClient.connect(self.session, self.service.url))
            await self._again(client.register, client)
            for _ in range(3):
                number += 1
                await self._one(client, f"{name}-{number}.localhost", f"{name}-{number}-b.localhost")
            answer = await self._answer(client, client.kid or "", {"status": "deactivated"})
            assert answer.status in {200, 401}, answer.body  # 401: the first answer was lost
            self.ledger.deactivated.append(client)

    async def _one(self, client: AcmeClient, *names: str) -> None:
        payload = {"identifiers": [{"type": "dns", "value": name} for name in names]}
        made = await self._answer(client, client.directory["newOrder"], payload)
        assert made.status == 201, made.body
        self.ledger.orders.append(made.location)
        csr = csr_for(*names)
        while True:
            order = (await self._answer(client, made.location)).json
            match order["status"]:
                case "pending":
                    await self._prove(client, order)
                case "ready":
                    await self._again(lambda: client.finalize(order, csr), client)  # noqa: B023  # awaited before the next order
                case "valid":
                    found = await self._answer(client, order["certificate"])
                    self.ledger.certificates[made.location] = found.body
                    return
                case "processing":
                    await asyncio.sleep(0.02)
                case status:
                    raise AssertionError(f"the order became {status}: {order}")

    async def _prove(self, client: AcmeClient, order: dict[str, Any]) -> None:
        for url in order["authorizations"]:
            authorization = (await self._answer(client, url)).json
            assert authorization["status"] in {"pending", "valid"}, authorization
            if authorization["status"] == "pending":
                (challenge,) = (one for one in authorization["challenges"] if one["type"] == "http-01")
                self.responder[challenge["token"]] = f"{challenge['token']}.{client.key.thumbprint}"
                if challenge["status"] == "pending":
                    await self._answer(client, challenge["url"], {})
        await asyncio.sleep(0.01)

    async def _answer(self, client: AcmeClient, url: str, payload: object = None) -> Answer:
        return await self._again(lambda: client.post(url, payload), client)

    async def _again(self, ask: Any, client: AcmeClient | None = None) -> Any:
        """Ask until an answer comes that is no 503 and no badNonce."""
        while True:
            await self.service.up.wait()
            try:
                answer = await ask()
            except RETRIED:
                await asyncio.sleep(0.005)
                if client:
                    client.nonces.clear()
                continue
            if not isinstance(answer, Answer) or (answer.status != 503 and answer.error != "badNonce"):
                return answer
            await asyncio.sleep(0.005)
