"""What stands for the kernel in the tests of examples: threads, strikes, a database, a key ring, a host."""

from types import SimpleNamespace
from typing import Any

from greatseal.api.acme import AccountView
from greatseal.api.clients import Client, ClientMatch, ProvenRequest
from greatseal.api.http import Parameters
from greatseal.keys.software import KEY_TYPES, SoftwareSigner, info_of
from greatseal.testing.calls import FakeCall

ACCOUNT = AccountView(id="a1", url="https://ca.example/acme/account/a1", status="valid", thumbprint="t" * 43)
END = 4_102_444_800


class Threads:
    async def run(self, _pool: str, fn: Any, *args: Any) -> Any:
        return fn(*args)


class Strikes:
    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def take(self, _kind: str, key: str, _until: int) -> bool:
        return key not in self.seen and not self.seen.add(key)  # type: ignore[func-returns-value]


class Written:
    """A database that notes what it was to write."""

    def __init__(self, read: Any = None) -> None:
        self.calls: list[Any] = []
        self.answer = read

    async def write(self, fn: Any, *args: Any) -> Any:
        self.calls.append((fn, args))

    async def read(self, _fn: Any, *_args: Any) -> Any:
        return self.answer


class Ring:
    """Keys in memory."""

    def __init__(self) -> None:
        self.keys: list[SoftwareSigner] = []

    @property
    def active(self) -> SoftwareSigner | None:
        return self.keys[-1] if self.keys else None

    def all(self) -> tuple[SoftwareSigner, ...]:
        return tuple(self.keys)

    async def make(self, algorithm: str) -> SoftwareSigner:
        key = KEY_TYPES[algorithm].make()
        self.keys.append(SoftwareSigner(key, info_of(key, purpose="test", created_at=0), Threads()))  # type: ignore[arg-type]
        return self.keys[-1]


def host(services: Any = None, **more: Any) -> Any:
    handles = SimpleNamespace(
        mint=lambda kind: f"{kind}_n1_x", new_id=lambda: "id-1", node_of=lambda text, _: "n1" if "_n1_" in text else None
    )
    said: list[Any] = []
    given = {"blocking": Threads(), "handles": handles, "node_id": "n1", "log": SimpleNamespace(info=lambda *a, **k: said.append((a, k)))}
    return SimpleNamespace(service=(services or {}).__getitem__, **{**given, **more})


def proven(form: bytes = b"", **fields: Any) -> ProvenRequest:
    client = Client(**{"client_id": "c1", "token_endpoint_auth_method": "none", "scopes": ("openid", "email"), **fields})
    return ProvenRequest(call=FakeCall("POST"), form=Parameters.parse(form), client=client, match=ClientMatch(subject="c1"))
