"""The decisive lines of identity features, run against the fakes of greatseal.testing."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from architecture.stand_ins import host
from architecture.typing import (
    endpoints,
    extensions,
    identities,
    logins,
    operators,
    passkeys,
)

from greatseal.api.authorization import Answer, Ask
from greatseal.api.clients import Client
from greatseal.api.declarations import Secret
from greatseal.api.directory import User
from greatseal.api.http import Parameters
from greatseal.api.identity import (
    Attempted,
    Authenticated,
    Authenticator,
    Denied,
    LoggedIn,
    LoginContext,
    LoginOption,
    Password,
    PasswordAndCode,
    Upstream,
)
from greatseal.api.problems import BadRequest, NotFound
from greatseal.api.services import DIRECTORIES
from greatseal.api.store import Refuse
from greatseal.api.upstreams import NamedUpstream
from greatseal.testing.calls import FakeCall
from greatseal.testing.clients import ClientResolverContract
from greatseal.testing.directories import FakeDirectories
from greatseal.testing.extensions import ExtensionContract
from greatseal.testing.logins import FakeLogin, LoginOptionsContract, PasswordChangerContract
from greatseal.testing.passkeys import PasskeyStoreContract, some_passkey


class Passwords(Authenticator[Password]):
    """Everybody's is their name."""

    name = "passwords"
    credential = Password

    async def attempt(self, credential: Password, context: LoginContext) -> Attempted:
        assert credential.username == credential.password.value
        return Authenticated(username=credential.username, realm="EXAMPLE", amr=("pwd",))


class TestLocalChanger(PasswordChangerContract):
    username, old, refused = "ann", "wonderland", "short"

    @pytest.fixture(autouse=True)
    def _made(self) -> None:
        self._changer = logins.LocalChanger({"ann": "wonderland"}, shortest=8)

    def changer(self) -> Any:
        return self._changer


async def test_otp() -> None:
    used: set[str] = set()

    async def use(_subject: str, code: Secret) -> bool:
        return code.value not in used and not used.add(code.value)  # type: ignore[func-returns-value]

    login = FakeLogin(Passwords(), logins.OtpAuthenticator(use))
    typed = PasswordAndCode(username="ann", password=Secret("ann"), code=Secret("123456"))

    first = await login.attempt(FakeCall("POST"), typed)
    assert isinstance(first, Authenticated)
    assert first.amr == ("pwd", "otp", "mfa")
    with pytest.raises(Denied):
        await login.attempt(FakeCall("POST"), typed)


class TestRichAuthorization(ExtensionContract):
    parameters = (("authorization_details", '[{"type":"payment","actions":["pay"]}]'),)

    def extension(self) -> Any:
        return extensions.RichAuthorization()


async def test_jar() -> None:
    async def verified(_client: Client, _text: str) -> Any:
        return {"scope": "openid", "max_age": 60}

    async def sign(claims: Any) -> str:
        return msgspec.json.encode(claims).decode()

    client = Client(client_id="c1", token_endpoint_auth_method="none", more={"require_signed_request_object": True})
    sent = Parameters([("request", "a.b.c")])
    objects, plain = extensions.RequestObjects(verified), Parameters([("scope", "openid")])

    opened = await objects.open(Ask(at="authorize", client=client, given=sent, sent=sent, remote="192.0.2.1"))
    assert dict(opened) == {"scope": "openid", "max_age": "60"}
    with pytest.raises(BadRequest):
        await objects.ask(Ask(at="par", client=client, given=plain, sent=plain, remote="192.0.2.1"))
    answer = Answer(client=client, response_mode="jwt", members={"code": "x"})
    assert await extensions.SignedAnswers(sign).answer(answer) == {"response": '{"code":"x","aud":"c1"}'}


class TestSaml(LoginOptionsContract):
    hinted = "ann"

    def login_options(self) -> Any:
        ann = User(username="ann", realm="EXAMPLE", source="ipa", upstream="other")
        option = LoginOption(id="other", display_name="Other place", url="/auth/external/other")
        return endpoints.Saml(host({DIRECTORIES: FakeDirectories(ann)}), [option])


async def test_a_sign_out_elsewhere() -> None:
    login = FakeLogin()
    authenticated = Authenticated(username="ann", realm="EXAMPLE", amr=(), upstream=Upstream(id="cas", subject="x"))
    completed = await login.complete(FakeCall(), authenticated, None)

    assert isinstance(completed, LoggedIn)
    assert await endpoints.Cas().leads_to(completed.session, "https://app.example/") == (
        "https://cas.example/logout?service=https%3A%2F%2Fapp.example%2F"
    )


async def test_a_registry_of_providers() -> None:
    ann = User(username="ann", realm="EXAMPLE", source="registry")
    registry = endpoints.Registry([NamedUpstream(id="state", display_name="State", client_id="x")], {("state", "7"): ann})

    (found,) = registry.upstreams()
    assert await registry.person(found.id, "7") is ann
    assert await registry.person(found.id, "8") is None


class TestPublished(ClientResolverContract):
    client_id = "https://rp.example/entity"

    def resolver(self) -> Any:
        return identities.Published()


class TestIpaPasskeys(PasskeyStoreContract):
    subject, source = "ann@EXAMPLE", "ipa"
    values: dict[str, list[str]]

    async def store(self) -> Any:
        if "values" not in vars(self):
            self.values = {"ann": []}
        return passkeys.IpaPasskeys(Ran(), "EXAMPLE", self.search, self.modify)  # type: ignore[arg-type]

    async def search(self, query: str) -> Any:
        name, _, value = query.strip("()").partition("=")
        if name == "uid":
            return {value: self.values.get(value, [])}
        return {uid: [one for one in values if one.startswith(value.rstrip("*"))] for uid, values in self.values.items()}

    async def modify(self, change: str, uid: str, value: str) -> bool:
        values = self.values.setdefault(uid, [])
        if change == "delete":
            values.remove(value)
            return True
        if any(one.split(",")[0] == value.split(",", maxsplit=1)[0] for one in values):
            return False
        values.append(value)
        return True


class Ran:
    """A database whose transactions have nothing."""

    async def write(self, fn: Any) -> None:
        try:
            fn(None)
        except Refuse as refused:
            raise refused.problem from None


class TestRegistryPasskeys(PasskeyStoreContract):
    subject, source = "ann@EXAMPLE", None
    held = (some_passkey("ann@EXAMPLE"),)

    async def store(self) -> Any:
        return passkeys.RegistryPasskeys({self.subject: self.held})


async def test_a_part_of_the_account_page() -> None:
    login = FakeLogin()
    await login.complete(FakeCall(), Authenticated(username="ann", realm="EXAMPLE", amr=("pwd",)), None)
    (session,) = login.sessions.values()

    assert [line.title for line in await passkeys.Devices().lines(session)] == ["The phone of ann"]


async def test_webui(tmp_path: Path) -> None:
    (tmp_path / "app.js").write_text("start()")
    web = operators.WebInterface(tmp_path)
    call = FakeCall()

    call.path = {"name": "app.js"}
    assert (await web.file(call)).body == b"start()"
    call.path = {"name": "../secret"}
    with pytest.raises(NotFound):
        await web.file(call)
    assert [one.members() for one in web.discovery()] == [{"webui": True}]
