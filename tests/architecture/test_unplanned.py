"""What nobody plans, run: the examples of typing/unplanned.py in a service, and a validator against the fakes of the kit."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from architecture.typing.unplanned import DeviceAttest01, Statement, TwoFactors

from greatseal.api.acme import VALID, Identifier
from greatseal.api.problems import IncorrectResponse
from greatseal.api.services import CLIENTS
from greatseal.api.tokens import GrantQuestion
from greatseal.testing.desk import bearer
from greatseal.testing.distributions import install
from greatseal.testing.subjects import GrantCheckContract
from greatseal.testing.validators import attempt_for

PLUGIN = """
from architecture.typing.unplanned import Assertion, SamlServiceProvider, Scim
from greatseal import hookimpl
from greatseal.api.services import DIRECTORIES, LOGIN

def read(response):
    name, _, id = response.decode().partition(" ")
    return Assertion(id=id, name_id=name, session=None, not_after=4_102_444_800_000_000) if id else None

class Plugin:
    requires = (DIRECTORIES, LOGIN)

    @hookimpl
    def scopes(self):
        return [Scim.scope]

    @hookimpl
    def routes(self, host):
        return [*SamlServiceProvider(host, read, {"a@idp.example": "alice"}).routes(), *Scim(host).routes()]
"""


@pytest.fixture
async def desk(open_people: Any, tmp_path: Path) -> Any:
    """A provider with the SAML service provider and SCIM."""
    return await open_people("idp", install(tmp_path / "installed", "greatseal-unplanned", PLUGIN))


async def test_an_assertion_makes_a_session_once(desk: Any):
    async def consume(response: str) -> Any:
        return await desk.post("/saml/acs", data={"SAMLResponse": b64encode(response.encode()).decode()})

    first, again = await consume("a@idp.example 1"), await consume("a@idp.example 1")
    unsigned, unknown = await consume("a@idp.example"), await consume("b@idp.example 2")

    assert first.status == 303
    assert (await desk.get("/api/auth/me", cookie=first.cookie)).status == 200
    assert [answer.status for answer in (again, unsigned, unknown)] == [400, 400, 403]


async def test_people_are_read_by_scim_with_a_token_for_it(desk: Any):
    clients = desk.service.kernel.service(CLIENTS)
    body = {"client_name": "HR", "grant_types": ["client_credentials"], "scope": "scim.read"}
    made = await clients.register_body({**body, "token_endpoint_auth_method": "client_secret_post"}, open=True, by="test")
    form = {"grant_type": "client_credentials", "client_id": made.client.client_id, "client_secret": made.client_secret.value}
    token = (await desk.post("/token", data=form)).json["access_token"]

    listed = await desk.get("/scim/v2/Users", headers=bearer(token))

    assert [one["userName"] for one in listed.json["Resources"]] == ["alice", "bob"]
    assert (await desk.get("/scim/v2/Users/alice", headers=bearer(token))).json["id"] == "alice@LOCALHOST"
    assert (await desk.get("/scim/v2/Users/nobody", headers=bearer(token))).status == 404
    assert (await desk.get("/scim/v2/Users")).status == 401


async def test_a_statement_is_of_one_device_and_key():
    def validator(device: str) -> DeviceAttest01:
        return DeviceAttest01(lambda statement: (device, statement))

    device = Identifier("permanent-identifier", "SN-1")
    key_authorization = attempt_for(validator("SN-1"), device).key_authorization
    attempt = attempt_for(validator("SN-1"), device, kept=Statement(sha256(key_authorization.encode()).digest()))

    assert await validator("SN-1").validate(attempt) is VALID
    with pytest.raises(IncorrectResponse):
        await validator("SN-2").validate(attempt)


def question(*scopes: str, amr: tuple[str, ...]) -> GrantQuestion:
    return GrantQuestion(phase="token", subject="alice@LOCALHOST", client=None, scopes=frozenset(scopes), remote="192.0.2.1", amr=amr)


class TestTwoFactors(GrantCheckContract):
    allowed = question("openid", "payments", amr=("pwd", "otp", "mfa"))
    denied = question("payments", amr=("pwd",))

    def check(self) -> TwoFactors:
        return TwoFactors(frozenset({"payments"}))


async def test_one_factor_leaves_the_scopes_that_are_not_guarded():
    left = await TwoFactors(frozenset({"payments"})).check(question("openid", "payments", amr=("pwd",)))

    assert left == {"openid"}
