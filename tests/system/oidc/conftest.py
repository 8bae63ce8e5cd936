"""A provider with one person, an administrator, and relying parties that are registered as an administrator registers them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from rig.people import CHEAP, write_users
from system.oidc.relying import CALLBACK, LOGGED_OUT, PASSWORD, USER, Browser, RelyingParty

from greatseal.clock import SystemClock
from greatseal.testing import FakeClock

MakeParty = Callable[..., Awaitable[RelyingParty]]
SECRET = "a-secret-of-forty-characters-0123456789a"


@pytest.fixture
def clock() -> FakeClock:
    """The provider's clock, at the time of the clients."""
    return FakeClock(SystemClock().now())


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The users file; nothing changes it."""
    alice = {"display_name": "Alice Adams", "email": "alice@example.org", "groups": ["staff"]}
    return write_users(tmp_path_factory.mktemp("people") / "users.toml", PASSWORD, {"admin": {"groups": ["administrators"]}, USER: alice})


@pytest.fixture
def features() -> tuple[str, ...]:
    """What the provider has beside signed client assertions."""
    return ()


@pytest.fixture
async def provider(start_service: Any, people: Path, clock: FakeClock, features: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The running service."""
    monkeypatch.setattr("greatseal_idp.clients.secrets._HASHER", CHEAP)
    return await start_service(
        "idp",
        "resolver",
        "users-file",
        "client-auth-jwt",
        *features,
        users={"file": str(people)},
        rbac={"role": [{"name": "administrator", "permissions": ["*"], "groups": ["administrators"]}]},
        server={"auth_rate_limit": 0},
        oauth={"allow_private_logout_hosts": True},
        clock=clock,
    )


@pytest.fixture
async def party(provider: Any) -> AsyncIterator[MakeParty]:
    """``await party(**registration)``: a relying party with a browser of its own."""
    async with AsyncExitStack() as stack:
        admin = Browser(provider.url)
        stack.push_async_callback(admin.session.close)
        async with admin.session.post(f"{provider.url}/api/auth/login", json={"username": "admin", "password": PASSWORD}) as reply:
            assert reply.status == 200, await reply.text()
        async with admin.session.get(f"{provider.url}/.well-known/openid-configuration") as reply:
            metadata = await reply.json()

        async def make(*, browser: Browser | None = None, **registration: Any) -> RelyingParty:
            body = {
                "client_name": "Relying party",
                "redirect_uris": [CALLBACK],
                "post_logout_redirect_uris": [LOGGED_OUT],
                "scopes": ["openid", "profile", "email", "address", "phone", "groups", "offline_access"],
                "token_endpoint_auth_method": "client_secret_basic",
                "client_secret": SECRET,
                **registration,
            }
            async with admin.session.post(f"{provider.url}/api/admin/clients", json=body) as reply:
                assert reply.status == 201, await reply.text()
                client = await reply.json()
            if browser is None:
                browser = Browser(provider.url)
                stack.push_async_callback(browser.session.close)
            return RelyingParty(browser, metadata, client)

        yield make
