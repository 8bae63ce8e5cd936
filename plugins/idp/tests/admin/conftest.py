"""An administrator who is signed in."""

import msgspec
import pytest

from greatseal.api.tokens import Authentication, Granted

ROOT = {"name": "root", "permissions": ["*"], "users": ["alice"]}


class Administrator:
    """Requests to the admin API with the session of one person. ``desk`` is the service."""

    def __init__(self, desk, cookie):
        self.desk = desk
        self.cookie = cookie

    async def ask(self, method, path, body=msgspec.UNSET, **more):
        if body is not msgspec.UNSET:
            more["json"] = body
        return await self.desk.ask(method, f"/api/admin/{path}", cookie=self.cookie, **more)

    async def get(self, path, **more):
        return await self.ask("GET", path, **more)

    async def post(self, path, body=msgspec.UNSET, **more):
        return await self.ask("POST", path, body, **more)

    async def put(self, path, body=msgspec.UNSET, **more):
        return await self.ask("PUT", path, body, **more)

    async def delete(self, path, **more):
        return await self.ask("DELETE", path, **more)

    async def client(self, **fields):
        """A new client, a public one unless the fields say otherwise."""
        body = {
            "client_name": "App",
            "redirect_uris": ["https://app.example/cb"],
            "scopes": ["openid", "offline_access"],
            "token_endpoint_auth_method": "none",
            **fields,
        }
        answer = await self.post("clients", {name: value for name, value in body.items() if value is not msgspec.UNSET})
        assert answer.status == 201, answer.text
        return answer.json

    async def family(self, *, subject="bob@LOCALHOST", client_id="c1", scopes=("openid", "offline_access"), session_id=None):
        """A refresh family with its first token, as the token endpoint opens it."""
        seen = Authentication(auth_time=1, amr=("pwd",), acr=None, session_id=session_id)
        granted = Granted(subject=subject, client_id=client_id, scopes=scopes, authentication=seen, may_refresh=True)
        return await self.write(self.desk.provider.families.open, granted)

    async def write(self, fn, *args):
        return await self.desk.service.host("idp").db.write(fn, *args)


@pytest.fixture
def open_admin(open_idp):
    """``await open_admin(server=...)``: a service whose alice may do everything, and she is signed in."""

    async def start(*features, role=(), **sections):
        desk = await open_idp(*features, rbac={"role": [ROOT, *role]}, **sections)
        return Administrator(desk, await desk.cookie("alice"))

    return start


@pytest.fixture
async def admin(open_admin):
    return await open_admin()
