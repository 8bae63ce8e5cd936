"""A service with the plugin alone, and what a client sends."""

import hmac
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from greatseal.api.acme import AccountBinding, BindingRequest
from greatseal.api.store import Database
from greatseal.host import Host
from greatseal.jose.compact import b64url_encode
from greatseal.jose.jwk import jwk_of, thumbprint_of
from greatseal.testing.service import Service
from greatseal_eab.keys import EabKeys, NewKey

URL = "https://ca.example/acme/new-account"
KEY = bytes(range(32))


def sent(kid: object = "kid-1", key: bytes = KEY, *, alg: str = "HS256", payload: bytes | None = None, **header: Any) -> BindingRequest:
    """A new account with its binding; a member of the header that is None is left out."""
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    jwk = jwk_of(public)
    value = flattened({"alg": alg, "kid": kid, "url": URL, **header}, orjson.dumps(jwk) if payload is None else payload, key)
    return BindingRequest(url=URL, jwk=jwk, thumbprint=thumbprint_of(public), value=value)


def flattened(header: Mapping[str, Any], payload: bytes, key: bytes) -> dict[str, str]:
    """The member, with a MAC of the hash that its alg names, else of SHA-256."""
    protected = b64url_encode(orjson.dumps({name: value for name, value in header.items() if value is not None}))
    body = b64url_encode(payload)
    digest = {"HS384": "sha384", "HS512": "sha512"}.get(str(header.get("alg")), "sha256")
    mac = hmac.digest(key, f"{protected}.{body}".encode(), digest)
    return {"protected": protected, "payload": body, "signature": b64url_encode(mac)}


class Desk(msgspec.Struct, frozen=True):
    """The parts of a running plugin."""

    service: Service
    keys: EabKeys
    binding: AccountBinding

    @property
    def host(self) -> Host:
        return self.service.host("eab")

    @property
    def db(self) -> Database:
        return self.host.db

    async def give(self, kid: str = "kid-1", key: bytes = KEY, **more: Any) -> None:
        """A key is stored."""
        await self.db.write(self.keys.create, NewKey(kid=kid, hmac_key_b64u=b64url_encode(key), by="ann", **more))

    async def bind(self, request: BindingRequest) -> Any:
        """The transaction of an account."""
        return await self.db.write(self.binding.bind, request)

    sent = staticmethod(sent)
    flattened = staticmethod(flattened)


@pytest.fixture
def open_desk(start_service: Any, tmp_path: Path) -> Callable[..., Any]:
    """``await open_desk(**settings of [server])``; all of a test have one cluster key."""

    async def start(*, database: str | None = None, **server: Any) -> Desk:
        sections = {} if database is None else {"database": {"url": database, "migrate": "auto"}}
        service = await start_service("eab", server=server, cluster={"key_file": f"{tmp_path}/cluster.key"}, **sections)
        host, plugin = service.host("eab"), service.kernel.hooks.instances["eab"]
        return Desk(service, plugin.keys(host), host.components(AccountBinding)["externalAccountBinding"])

    return start


@pytest.fixture
async def desk(open_desk: Any) -> Desk:
    """With the key kid-1."""
    desk: Desk = await open_desk()
    await desk.give()
    return desk


@pytest.fixture
async def shared(open_desk: Any, database_url: str) -> Desk:
    """The same on both databases, for what happens at once."""
    desk: Desk = await open_desk(database=database_url)
    await desk.give()
    return desk
