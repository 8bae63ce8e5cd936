"""An MCP server whose callers bring tokens of Greatseal: `python mcp_server.py ISSUER https://mcp.example.org/mcp mcp:tools`."""

import asyncio
import sys
from urllib.parse import urlsplit

import jwt
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

ISSUER, RESOURCE, SCOPE = sys.argv[1:4]


class Verifier(TokenVerifier):
    """Access tokens of the issuer for this server (RFC 9068), by the keys that the issuer publishes."""

    keys = jwt.PyJWKClient(f"{ISSUER}/jwks")

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            key = await asyncio.to_thread(self.keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(token, key, algorithms=["ES256"], issuer=ISSUER, audience=RESOURCE)
        except jwt.PyJWTError:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"],
            resource=RESOURCE,
            subject=claims["sub"],
            claims=claims,
        )


settings = {"issuer_url": ISSUER, "resource_server_url": RESOURCE, "required_scopes": [SCOPE], "validate_token_resource": True}
server = MCPServer("Greeter", token_verifier=Verifier(), auth=AuthSettings.model_validate(settings))


@server.tool()
def whoami() -> str:
    """Who calls."""
    token = get_access_token()
    return f"{token.subject} by {token.client_id}" if token else "nobody"


url = urlsplit(RESOURCE)
server.run("streamable-http", host=url.hostname or "", port=url.port or 443, streamable_http_path=url.path)
