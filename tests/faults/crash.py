"""Drives a service that is killed again and again, and keeps a ledger of what it acknowledged."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from faults.forked import Forked
from rig.acme import AcmeClient, Answer, Responder, csr_for

RETRIED = (aiohttp.ClientError, ConnectionError)


class Crashing(Forked):
    """A CA whose validations ask the responder."""

    def __init__(self, folder: Path, database: str, responder: Responder) -> None:
        server = {"http_validation_port": responder.port, "http_validation_allow_private_ips": True}
        super().__init__(folder, database, {"plugins": {"sets": ["ca"]}, "server": server})


class Ledger:
    """What the service acknowledged, and how it refused."""

    def __init__(self) -> None:
        self.certificates: dict[str, bytes] = {}
        self.orders: list[str] = []
        self.accounts: list[str] = []
        self.contacts: list[tuple[AcmeClient, list[str]]] = []
        self.deactivated: list[AcmeClient] = []
        self.unavailable: list[Answer] = []
        self.broken: Counter[str] = Counter()
        """Requests that got no answer, by what the network said."""


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
        while not (self.stop and number):
            client = await self.account(f"{name}-{number}")
            for _ in range(3):
                number += 1
                await self.issue(client, f"{name}-{number}.localhost", f"{name}-{number}-b.localhost")
            answer = await self._answer(client, client.kid or "", {"status": "deactivated"})
            assert answer.status in {200, 401}, answer.body  # 401: the first answer was lost
            self.ledger.deactivated.append(client)

    async def account(self, name: str) -> AcmeClient:
        """A new account with a contact, changed once."""
        client: AcmeClient = await self._again(lambda: AcmeClient.connect(self.session, self.service.url))
        await self._again(client.register, client)
        contact = [f"mailto:{name}@example.org"]
        assert (await self._answer(client, client.kid or "", {"contact": contact})).status == 200
        self.ledger.accounts.append(client.kid or "")
        self.ledger.contacts.append((client, contact))
        return client

    async def issue(self, client: AcmeClient, *names: str, **members: str) -> str:
        """A whole order, with these members; its URL."""
        payload = {"identifiers": [{"type": "dns", "value": name} for name in names], **members}
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
                    return made.location
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
        answer: Answer = await self._again(lambda: client.post(url, payload), client)
        return answer

    async def _again(self, ask: Any, client: AcmeClient | None = None) -> Any:
        """Ask until an answer comes that is no 503 and no badNonce."""
        while True:
            await self.service.up.wait()
            try:
                answer = await ask()
            except RETRIED as error:
                self.ledger.broken[kind_of(error)] += 1
                await asyncio.sleep(0.005)
                if client:
                    client.nonces.clear()
                continue
            if not isinstance(answer, Answer) or (answer.status != 503 and answer.error != "badNonce"):
                return answer
            if answer.status == 503:
                self.ledger.unavailable.append(answer)
            await asyncio.sleep(0.005)


def kind_of(error: BaseException) -> str:
    """What the network said, in a word: refused, reset, ended (before an answer), or the exception's name."""
    system = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    match system:
        case ConnectionRefusedError():
            return "refused"
        case ConnectionResetError() | BrokenPipeError():
            return "reset"
        case aiohttp.ServerDisconnectedError():
            return "ended"
        case OSError(errno=int(number)):
            return "reset" if number in {32, 104} else f"{type(error).__name__} {number}"
    return f"{type(error).__name__}: {error}"


@asynccontextmanager
async def subscribers(
    service: Crashing, responder: Responder, ledger: Ledger, count: int, *, keep_alive: bool = True
) -> AsyncIterator[asyncio.TaskGroup]:
    """Clients at work. At the end of the block they finish what they are at; the service must be up then."""
    connector = aiohttp.TCPConnector(force_close=not keep_alive)
    async with aiohttp.ClientSession(connector=connector) as session:
        clients = [Subscriber(service, responder, ledger, session) for _ in range(count)]
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                group.create_task(client.run(f"{'k' if keep_alive else 'o'}{number}"))
            yield group
            for client in clients:
                client.stop = True
