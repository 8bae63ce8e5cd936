"""MCP: the npm packages @modelcontextprotocol/client, and /server, which asks Greatseal about every token (RFC 7662)."""

import asyncio
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from joserfc.jwk import ECKey
from peers.test_peers_mcp import BACK, SCOPE, WRITE, program, provider, refused, resource, token_for_the_issuer, web  # noqa: F401  # fixtures
from peers.test_peers_oidc_node import SCRIPTS, Run, node, run  # noqa: F401  # a fixture
from rig.documents import Documents
from rig.provider import REGISTRATION_TOKEN, USER, Provider

Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]
CLIENT, SERVER = "@modelcontextprotocol/client", "@modelcontextprotocol/server"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def mcp_server(provider: Provider, resource: str) -> Iterator[str]:  # noqa: F811  # the fixtures
    """The URL of the MCP server: a client whose resource is that URL, and who therefore may ask about tokens for it."""
    api = provider.register(redirect_uris=None, post_logout_redirect_uris=None, grant_types=["client_credentials"], resources=[resource])
    command = [node(SERVER), SCRIPTS / "mcp-server.mjs", provider.issuer, resource, api["client_id"], api["client_secret"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"serves {resource}\n"
            yield resource
        finally:
            process.terminate()


@pytest.fixture
def ask(run: Run, mcp_server: str) -> Ask:  # noqa: F811  # the fixture
    """``ask(script, registered)``: what the script of the client found out, while the test serves documents."""

    async def ask(script: str, registered: dict[str, Any], **more: Any) -> dict[str, Any]:
        return await asyncio.to_thread(run, CLIENT, registered, script=script, resource=mcp_server, redirect_uri=BACK, **more)

    return ask


def requests_for_tokens(found: dict[str, Any], resource: str) -> list[str]:  # noqa: F811  # no fixture here
    """The grant types of the requests for tokens, all of which name the resource (RFC 8707)."""
    forms = [form for path, form in found["sent"] if path == "/token"]
    assert {form["resource"] for form in [*forms, *found["asked"]]} == {resource}
    return [form["grant_type"] for form in forms]


async def test_an_agent_whose_id_is_a_url(provider: Provider, web: Documents, ask: Ask, mcp_server: str) -> None:  # noqa: F811  # fixtures
    """Its access token is revoked: it refreshes. A tool needs another scope: the person allows that too."""
    url = web.url("/agent.json")
    scope = f"openid offline_access {SCOPE} {WRITE}"
    web.pages["/agent.json"] = {"client_id": url, "client_name": "Agent", "redirect_uris": [BACK], "scope": scope}

    found = await ask("mcp-agent", {"client_id": ""}, client_metadata_url=url)

    assert found["said"] == found["refreshed"] == f"{USER}@LOCALHOST by {url}"
    assert found["renamed"] == f"renamed {found['said']}"
    assert [asked["scope"] for asked in found["asked"]] == [f"{SCOPE} offline_access", f"{SCOPE} offline_access {WRITE}"]
    assert found["scope"] == f"{SCOPE} offline_access {WRITE}"
    assert requests_for_tokens(found, mcp_server) == ["authorization_code", "refresh_token", "authorization_code"]
    assert "/register" not in [path for path, _ in found["sent"]]
    assert found["resourceMetadata"]["authorization_servers"] == [provider.issuer]
    for token in ("", "x.y.z", await token_for_the_issuer(provider)):
        await refused(mcp_server, token)


async def test_an_agent_registers_itself_with_the_token(ask: Ask, mcp_server: str) -> None:
    """With the scopes that the MCP server asked for by then; it gets no other one later."""
    found = await ask("mcp-agent", {"client_id": "", "token": REGISTRATION_TOKEN})

    assert found["said"] == found["refreshed"] == f"{USER}@LOCALHOST by {found['client']['client_id']}"
    assert [path for path, _ in found["sent"]].count("/register") == 1
    assert found["client"]["scope"] == found["scope"] == f"{SCOPE} offline_access"
    assert found["renamed"] == "UnauthorizedError"
    assert requests_for_tokens(found, mcp_server) == ["authorization_code", "refresh_token", "authorization_code"]


async def test_an_agent_without_the_token_is_told_why(ask: Ask) -> None:
    found = await ask("mcp-agent", {"client_id": ""})

    status, problem = found["rejected"]
    assert (status, problem["error"]) == (401, "invalid_token")
    assert "registration token" in problem["error_description"]
    assert [path for path, _ in found["sent"]] == ["/.well-known/oauth-authorization-server", "/register"]


async def test_a_program_proves_itself_by_its_key(provider: Provider, ask: Ask, mcp_server: str) -> None:  # noqa: F811  # the fixture
    key = ECKey.generate_key("P-256")
    registered = program(provider, mcp_server, key.as_dict(private=False))

    found = await ask("mcp-program", registered, key=key.as_dict(private=True), algorithm="ES256")

    assert found == {"said": f"{registered['client_id']} by {registered['client_id']}", "scope": SCOPE}
