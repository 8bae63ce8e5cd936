"""Providers that we did not write sign people in here: with the plugin federation, and with no word of ours in them."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pyotp
import pytest
import requests
from peers.test_peers_oidc_node import SCRIPTS, node
from rig.browser import CHROMIUM, Page
from rig.provider import LOGGED_OUT, PASSWORD, USER
from rig.relying import BACK, ESSENTIAL, FRONT, SIGNED_OUT, STRONG, WEAK, Application, Elsewhere, Relying, Traveller

from greatseal.testing.service import free_port

CODE = "246810"


class Node:
    """oidc-provider in a process of its own: our client proves itself with a key, and pushes its requests."""

    def __init__(self) -> None:
        self.issuer = f"http://localhost:{free_port()}"

    def client(self, service: Relying) -> dict[str, Any]:
        return {
            "client_id": "greatseal",
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_signing_alg": "ES256",
            "jwks_uri": service.at("/auth/external/{id}/jwks", "node"),
            "redirect_uris": [service.at("/internal/callback/{id}", "node")],
            "post_logout_redirect_uris": [service.at(SIGNED_OUT, "node")],
            "backchannel_logout_uri": service.at(BACK, "node"),
            "backchannel_logout_session_required": True,
        }

    def seen(self) -> Any:
        return requests.get(f"{self.issuer}/seen", timeout=10).json()


@pytest.fixture(scope="module")
def partner() -> Node:
    return Node()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    other = Elsewhere(tmp_path_factory.mktemp("other"))
    with other.forked():
        yield other


@pytest.fixture(scope="module")
def service(partner: Node, other: Elsewhere, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relying]:
    """It is known to the other Greatseal twice: told of sign-outs in the back, and in the front."""
    service = Relying(tmp_path_factory.mktemp("service"))
    key = {"client_key": str(service.client_key)}
    service.rely_on(
        {"id": "node", "issuer": partner.issuer, "client_id": "greatseal", **key},
        {"id": "back", "issuer": other.issuer, "client_id": known_to(other, service, "back")["client_id"], **key},
        {"id": "front", "issuer": other.issuer, **known_to(other, service, "front")},
    )
    with service.forked():
        yield service


def known_to(other: Elsewhere, service: Relying, id: str) -> dict[str, str]:
    """Our name there, and our secret where we have one."""
    ways: dict[str, dict[str, Any]] = {
        "back": {
            "token_endpoint_auth_method": "private_key_jwt",
            "client_secret": None,
            "jwks": service.jwks,
            "require_pushed_authorization_requests": True,
            "backchannel_logout_uri": service.at(BACK, id),
        },
        "front": {"frontchannel_logout_uri": service.at(FRONT, id)},
    }
    made = other.register(
        redirect_uris=[service.at("/internal/callback/{id}", id)],
        post_logout_redirect_uris=[service.at(SIGNED_OUT, id)],
        grant_types=["authorization_code"],
        consent="implicit",
        **ways[id],
    )
    return {name: made[name] for name in ("client_id", "client_secret") if name in made}


@pytest.fixture(scope="module")
def application(service: Relying) -> Application:
    return Application(service)


@pytest.fixture(scope="module")
def running(partner: Node, service: Relying) -> Iterator[Node]:
    settings = {"issuer": partner.issuer, "client": partner.client(service), "classes": [WEAK, STRONG], "code": CODE}
    command = [str(node("oidc-provider")), str(SCRIPTS / "oidc-provider.mjs"), json.dumps(settings)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield partner
        process.communicate(timeout=30)


@pytest.fixture
def ada(running: Node, service: Relying) -> Iterator[Traveller]:
    ada = Traveller(service, "node", running.issuer)
    ada.answers |= {"theirs": {"login": "ada", "code": CODE}, "op.logoutForm": {"logout": "yes"}}
    with ada.session:
        yield ada


def test_oidc_provider_signs_somebody_in_by_a_key_and_a_pushed_request(running: Node, application: Application, ada: Traveller) -> None:
    claims = application.tokens(ada.visit(application.request()))["claims"]

    assert (claims["sub"], claims["acr"], claims["amr"]) == ("ada@NODE.EXAMPLE", WEAK, ["fed", "pwd"])
    pushed = running.seen()["pushed"][-1]
    assert {"nonce", "state", "code_challenge", "client_assertion"} <= pushed.keys()
    assert (pushed["code_challenge_method"], pushed["method"]) == ("S256", "private_key_jwt")
    assert "acr_values" not in pushed


def test_oidc_provider_steps_up(running: Node, application: Application, ada: Traveller) -> None:
    first = application.tokens(ada.visit(application.request()))["claims"]
    asked = running.seen()["interactions"]

    stepped = application.tokens(ada.visit(application.request(claims=ESSENTIAL)))["claims"]

    assert (first["acr"], stepped["acr"], stepped["amr"]) == (WEAK, STRONG, ["fed", "pwd", "otp", "mfa"])
    assert stepped["sub"] == first["sub"]
    seen = running.seen()
    assert seen["interactions"] == asked + 1, "they are asked again, though they are signed in there"
    assert (seen["pushed"][-1]["acr_values"], seen["pushed"][-1]["prompt"]) == (STRONG, "login")


def test_oidc_provider_ends_its_session_when_somebody_signs_out_here(running: Node, application: Application, ada: Traveller) -> None:
    tokens = application.tokens(ada.visit(application.request()))

    left = ada.visit(application.logout(tokens["id_token"]))

    assert left == f"{LOGGED_OUT}?state=s-1"
    assert any(url.startswith(f"{running.issuer}/session/end/confirm") for url in ada.went)
    assert not ada.is_signed_in()
    asked = running.seen()["interactions"]
    ada.visit(application.request())
    assert running.seen()["interactions"] == asked + 1, "the session there has ended too"


def test_oidc_provider_ends_the_session_here_when_somebody_signs_out_there(running: Node, application: Application, ada: Traveller) -> None:
    ada.visit(application.request())
    assert ada.is_signed_in()

    ada.visit(f"{running.issuer}/session/end")

    assert not ada.is_signed_in()
    told = running.seen()["told"][-1]
    assert (told["url"], told["status"]) == (ada.service.issuer + BACK.format(id="node"), 200)
    assert told["seconds"] < 1


@pytest.fixture
def visitor(other: Elsewhere, service: Relying) -> Iterator[Traveller]:
    """Somebody of the other Greatseal."""
    visitor = Traveller(service, "back", other.issuer)
    visitor.answers["login-form"] = {"username": USER, "password": PASSWORD}
    with visitor.session:
        yield visitor


def add_app(other: Elsewhere, username: str) -> str:
    """Give somebody an authenticator app there, in another browser; a code that is good now."""
    with requests.Session() as session:
        session.post(f"{other.issuer}/api/auth/login", json={"username": username, "password": PASSWORD}, timeout=10)
        return confirmed_app(f"{other.issuer}/api/me/otp-tokens", session)


def confirmed_app(mine: str, session: requests.Session) -> str:
    made = session.post(mine, json={"label": "Phone"}, timeout=10).json()
    totp = pyotp.parse_uri(made["otpauth_uri"])
    assert isinstance(totp, pyotp.TOTP)
    now = int(time.time())
    # The step before confirms the app: that of now is good after it.
    confirmed = session.post(f"{mine}/{made['token_id']}/confirm", json={"otp_code": totp.at(now - 30)}, timeout=10)
    assert confirmed.status_code == 204, confirmed.text
    return str(totp.at(now))


def test_another_greatseal_signs_somebody_in_by_a_key_and_steps_up(other: Elsewhere, application: Application, visitor: Traveller) -> None:
    visitor.answers["login-form"] = {"username": "eve", "password": PASSWORD}
    first = application.tokens(visitor.visit(application.request()))["claims"]
    pushed = [url for url in visitor.went if url.startswith(f"{other.issuer}/authorize?") and "request_uri=" in url]
    visitor.answers["code-form"] = {"code": add_app(other, "eve")}

    stepped = application.tokens(visitor.visit(application.request(claims=ESSENTIAL)))["claims"]

    assert (first["sub"], first["acr"], first["amr"]) == ("eve@BACK.EXAMPLE", WEAK, ["fed", "pwd"])
    assert len(pushed) == 1
    assert (stepped["sub"], stepped["acr"], stepped["amr"]) == (first["sub"], STRONG, ["fed", "pwd", "otp", "mfa"])


def test_another_greatseal_ends_its_session_when_somebody_signs_out_here(
    other: Elsewhere, application: Application, visitor: Traveller
) -> None:
    tokens = application.tokens(visitor.visit(application.request()))
    assert visitor.is_signed_in_at(other.issuer)

    left = visitor.visit(application.logout(tokens["id_token"]))

    assert left == f"{LOGGED_OUT}?state=s-1"
    assert (visitor.is_signed_in(), visitor.is_signed_in_at(other.issuer)) == (False, False)


def test_another_greatseal_ends_the_session_here_within_a_second(other: Elsewhere, application: Application, visitor: Traveller) -> None:
    visitor.visit(application.request())
    assert visitor.is_signed_in()

    visitor.visit(f"{other.issuer}/logout")
    ended = time.monotonic()

    assert not visitor.is_signed_in_at(other.issuer)
    while visitor.is_signed_in():
        assert time.monotonic() - ended < 1


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="the package chromium is not installed")
async def test_a_page_of_another_greatseal_ends_the_session_here_in_a_frame(other: Elsewhere, service: Relying, page: Page) -> None:
    await page.goto(f"{service.issuer}/account")
    await page.click("#option-front", to=other.issuer)
    await page.fill("#username", USER)
    await page.fill("#password", PASSWORD)
    assert await page.click("#sign-in", to=f"{service.issuer}/") == f"{service.issuer}/account"
    await page.goto(f"{other.issuer}/logout")

    await page.click("#sign-out", to=f"{other.issuer}/logout")

    assert (await page.goto(f"{service.issuer}/account")).startswith(f"{service.issuer}/ui/auth/login")
