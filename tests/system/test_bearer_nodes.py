"""An assertion that is brought to several nodes gives one token: its jti names the node that decides (RFC 7523 s3)."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from rig.people import write_users

from greatseal.jose.jwk import jwk_of
from greatseal.testing.desk import Desk, forgetful
from greatseal.testing.trust import signed
from greatseal_idp import tables as t

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
KEY = ec.generate_private_key(ec.SECP256R1())
TRUSTED = {"issuers": [{"issuer": "https://ci.example", "jwks": {"keys": [jwk_of(KEY.public_key())]}, "subject": "username"}]}
SECRET = "s" * 43


async def test_an_assertion_at_two_nodes_at_once_gives_one_token(start_nodes: Any, tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.toml", "correct horse", {"admin": {}})
    sections = {
        "users": {"file": str(users)},
        "rbac": {"role": [{"name": "admin", "permissions": ["*"], "users": ["admin"]}]},
        "jwt_bearer": TRUSTED,
    }
    collections = [t.CLIENT, t.SESSION, t.SCOPE, t.CONSENT]
    nodes, services = await start_nodes("idp", "users-file", "resolver", "jwt-bearer", collections=collections, **sections)
    async with forgetful() as http:
        first, second = (Desk(service, http) for service in services.values())
        for desk, service in zip((first, second), services.values(), strict=True):
            desk.url = f"http://{service.addresses['main']}"
        client = {"client_name": "Jobs", "grant_types": [GRANT], "scopes": ["openid"], "client_secret": SECRET}
        cookie = (await first.login("admin", "correct horse")).cookie
        made = await first.post("/api/admin/clients", cookie=cookie, json={**client, "token_endpoint_auth_method": "client_secret_basic"})
        await nodes.settle()
        proof = {"Authorization": "Basic " + b64encode(f"{made.json['client_id']}:{SECRET}".encode()).decode()}
        now = first.service.kernel.clock.now() // 1_000_000

        async def bring(desk: Desk, jti: int) -> int:
            claims = {"iss": "https://ci.example", "sub": "admin", "aud": first.service.kernel.issuer, "exp": now + 60, "jti": str(jti)}
            answer = await desk.post("/token", data={"grant_type": GRANT, "assertion": signed(KEY, claims)}, headers=proof)
            return answer.status

        for jti in range(8):
            answers = await asyncio.gather(*(bring(desk, jti) for desk in (first, second) * 3))
            assert sorted(answers) == [200] + [400] * 5
        assert nodes.calls, "some were decided at the other node"
