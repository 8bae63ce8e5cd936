"""MCP: the Python package mcp as client and as server (RFC 9728), with Greatseal as the authorization server of both."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from rig.documents import Documents, documents
from rig.provider import REGISTRATION_TOKEN, USER, Person, Provider

from greatseal.jose.jwk import jwk_of
from greatseal.testing.service import free_port

Library = Callable[[str, str], Any]
SERVER = Path(__file__).with_name("mcp_server.py")
BACK = "http://127.0.0.1:7777/callback"
SCOPE, WRITE = "mcp:tools", "mcp:write"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Documents]:
    with pytest.MonkeyPatch.context() as patch:
        async with documents(tmp_path_factory.mktemp("web"), patch) as web:
            yield web


@pytest.fixture(scope="module")
def resource() -> str:
    """The URL of the MCP server."""
    return f"http://127.0.0.1:{free_port()}/mcp"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory, web: Documents, resource: str) -> Iterator[Provider]:
    """With clients that register themselves, and scopes for the tools of the server."""
    provider = Provider(tmp_path_factory.mktemp("provider"))
    scopes = ["openid", "profile", "offline_access", SCOPE, WRITE]
    provider.open_registration(client_id_documents=True, allow_private_client_id_hosts=True, resources=[resource], scopes=scopes)
    with provider.configuration.open("a") as file:
        file.write('\n[resolver]\nhosts = { "client.example" = ["127.0.0.1"] }\n')
    with provider.forked():
        provider.define_scope(SCOPE, "Use the tools of the greeter")
        provider.define_scope(WRITE, "Change names by the greeter")
        yield provider


@pytest.fixture(scope="module")
def mcp_server(provider: Provider, resource: str, library: Library) -> Iterator[str]:
    """The URL of the MCP server, in a process of its own."""
    library("mcp", "mcp")
    with subprocess.Popen([sys.executable, SERVER, provider.issuer, resource, SCOPE], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any("Uvicorn running" in line for line in process.stderr)
            yield resource
        finally:
            process.terminate()
            process.communicate()


class Agent:
    """An MCP client of somebody; the person's browser is at hand."""

    def __init__(self, library: Library, person: Person, resource: str) -> None:
        self.library = library
        self.person = person
        self.resource = resource
        self.kept: dict[str, Any] = {"tokens": None, "client_info": None}
        self.sent: list[Any] = []

    async def get_tokens(self) -> Any:
        return self.kept["tokens"]

    async def set_tokens(self, tokens: Any) -> None:
        self.kept["tokens"] = tokens

    async def get_client_info(self) -> Any:
        return self.kept["client_info"]

    async def set_client_info(self, client_info: Any) -> None:
        self.kept["client_info"] = client_info

    async def go(self, url: str) -> None:
        self.kept["back"] = await asyncio.to_thread(self.person.visit, url)

    async def come_back(self) -> Any:
        found = {name: values[0] for name, values in parse_qs(urlsplit(self.kept["back"]).query).items()}
        shared = self.library("mcp.shared.auth", "mcp")
        return shared.AuthorizationCodeResult(code=found.get("code", ""), state=found.get("state"), iss=found.get("iss"))

    def provider(self, **more: Any) -> Any:
        """What signs the person in."""
        auth, shared = self.library("mcp.client.auth", "mcp"), self.library("mcp.shared.auth", "mcp")
        metadata = shared.OAuthClientMetadata(client_name="Agent", redirect_uris=[BACK], token_endpoint_auth_method="none")
        return auth.OAuthClientProvider(self.resource, metadata, self, self.go, self.come_back, **more)

    async def ask(self, auth: Any, *, token: str | None = None) -> str:
        """What the tool says; with ``token`` the registration is sent with it."""
        httpx, mcp = self.library("httpx2", "mcp"), self.library("mcp", "mcp")
        transport = self.library("mcp.client.streamable_http", "mcp")

        async def seen(request: Any) -> None:
            self.sent.append(request)
            if token is not None and request.url.path == "/register":
                request.headers["Authorization"] = f"Bearer {token}"

        async with (
            httpx.AsyncClient(auth=auth, event_hooks={"request": [seen]}, timeout=30) as http,
            transport.streamable_http_client(self.resource, http_client=http) as streams,
            mcp.ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
            return str((await session.call_tool("whoami", {})).content[0].text)


@pytest.fixture
def agent(library: Library, person: Person, mcp_server: str) -> Agent:
    return Agent(library, person, mcp_server)


def asked_for(agent: Agent, provider: Provider) -> list[str]:
    return [request.url.path for request in agent.sent if str(request.url).startswith(provider.issuer)]


async def test_an_agent_whose_id_is_a_url(provider: Provider, web: Documents, agent: Agent) -> None:
    url = web.url("/agent.json")
    scope = f"openid offline_access {SCOPE}"
    web.pages["/agent.json"] = {"client_id": url, "client_name": "Agent", "redirect_uris": [BACK], "scope": scope}

    said = await agent.ask(agent.provider(client_metadata_url=url))

    assert said == f"{USER}@LOCALHOST by {url}"
    assert "/register" not in asked_for(agent, provider)
    for token in ("", agent.kept["tokens"].access_token[:-4] + "AAAA", "x.y.z"):
        await refused(agent.resource, token)


async def test_an_agent_registers_itself_with_the_token(provider: Provider, agent: Agent) -> None:
    said = await agent.ask(agent.provider(), token=REGISTRATION_TOKEN)

    client = agent.kept["client_info"]
    assert said == f"{USER}@LOCALHOST by {client.client_id}"
    assert asked_for(agent, provider).count("/register") == 1
    form = {"grant_type": "refresh_token", "refresh_token": agent.kept["tokens"].refresh_token, "client_id": client.client_id}
    assert (await posted(f"{provider.issuer}/token", data={**form, "resource": agent.resource})).status_code == 200


async def test_an_agent_without_the_token_is_told_why(agent: Agent, library: Library) -> None:
    refusal = library("mcp.client.auth", "mcp").OAuthRegistrationError
    with pytest.raises(BaseExceptionGroup) as raised:
        await agent.ask(agent.provider())

    group: BaseException = raised.value
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    assert isinstance(group, refusal)
    assert "401" in str(group)
    assert "registration token" in str(group)


async def test_a_program_proves_itself_by_its_key(provider: Provider, agent: Agent, library: Library) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    client_id = program(provider, agent.resource, jwk_of(key.public_key()))["client_id"]
    extensions = library("mcp.client.auth.extensions.client_credentials", "mcp")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    signing = extensions.SignedJWTParameters(issuer=client_id, subject=client_id, signing_key=pem, signing_algorithm="ES256")
    auth = extensions.PrivateKeyJWTOAuthProvider(
        agent.resource, agent, client_id, signing.create_assertion_provider(), scope=SCOPE, issuer=provider.issuer
    )

    assert await agent.ask(auth) == f"{client_id} by {client_id}"
    await refused(agent.resource, await token_for_the_issuer(provider))


def program(provider: Provider, resource: str, key: Any) -> dict[str, Any]:
    """A client for a program without a person, with its public key as a JWK."""
    return provider.register(
        redirect_uris=None,
        post_logout_redirect_uris=None,
        grant_types=["client_credentials"],
        token_endpoint_auth_method="private_key_jwt",
        client_secret=None,
        scopes=[SCOPE],
        resources=[resource],
        jwks={"keys": [key]},
    )


async def token_for_the_issuer(provider: Provider) -> str:
    """A good access token with the scope, and not for the MCP server."""
    other = provider.register(redirect_uris=None, post_logout_redirect_uris=None, grant_types=["client_credentials"], scopes=[SCOPE])
    credentials = (other["client_id"], other["client_secret"])
    answer = await posted(f"{provider.issuer}/token", data={"grant_type": "client_credentials"}, auth=credentials)
    return str(answer.json()["access_token"])


async def posted(url: str, **more: Any) -> Any:
    return await asyncio.to_thread(requests.post, url, timeout=10, **more)


async def refused(resource: str, token: str) -> None:
    """The server does not take the token, and says where to get one."""
    answer = await posted(resource, headers={"Authorization": f"Bearer {token}"}, json={})

    assert answer.status_code == 401
    assert "resource_metadata" in answer.headers["WWW-Authenticate"]
