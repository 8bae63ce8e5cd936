"""Keycloak signs people in here, by its preset. Its distribution is too large for every run: `make peers-all` fetches it."""

import re
from base64 import b32encode
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pyotp
import pytest
from rig.keycloak import KEY, Keycloak
from rig.provider import LOGGED_OUT, PASSWORD, USER
from rig.relying import ESSENTIAL, STRONG, WEAK, Application, Relying, Traveller

FOUND = sorted(Path(__file__).with_name("java").glob("keycloak/target/keycloak-*"))


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Keycloak:
    if not FOUND:
        pytest.skip("Keycloak is not there: make peers-all, which needs Maven")
    return Keycloak(FOUND[-1], tmp_path_factory.mktemp("keycloak"))


@pytest.fixture(scope="module")
def service(keycloak: Keycloak, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relying]:
    service = Relying(tmp_path_factory.mktemp("service"))
    known = {"preset": "keycloak", "issuer": keycloak.issuer, "client_key": str(service.client_key)}
    service.rely_on(*({"id": id, "client_id": id, **known} for id in ("back", "front")))
    with service.forked(), keycloak.running(service, "back", "front"):
        yield service


@pytest.fixture(scope="module")
def application(service: Relying) -> Application:
    return Application(service)


@pytest.fixture
def ada(keycloak: Keycloak, service: Relying, request: pytest.FixtureRequest) -> Iterator[Traveller]:
    ada = Traveller(service, getattr(request, "param", "back"), keycloak.issuer)
    code = pyotp.TOTP(b32encode(KEY.encode()).decode()).now()
    ada.answers |= {"kc-form-login": {"username": USER, "password": PASSWORD}, "kc-otp-login-form": {"otp": code}}
    with ada.session:
        yield ada


# It takes a minute to start, which no run in CI waits for.
def test_keycloak_signs_somebody_in_and_steps_up(application: Application, ada: Traveller) -> None:
    first = application.tokens(ada.visit(application.request()))["claims"]

    stepped = application.tokens(ada.visit(application.request(claims=ESSENTIAL)))["claims"]

    assert (first["sub"], first["acr"], first["amr"]) == (f"{USER}@BACK.EXAMPLE", WEAK, ["fed", "pwd"])
    assert (stepped["sub"], stepped["acr"], stepped["amr"]) == (first["sub"], STRONG, ["fed", "pwd", "otp"])


def test_keycloak_ends_its_session_when_somebody_signs_out_here(keycloak: Keycloak, application: Application, ada: Traveller) -> None:
    tokens = application.tokens(ada.visit(application.request()))

    left = ada.visit(application.logout(tokens["id_token"]))

    assert left == f"{LOGGED_OUT}?state=s-1"
    assert not ada.is_signed_in()
    del ada.answers["kc-form-login"]
    assert ada.visit(application.request()).startswith(keycloak.issuer), "the session there has ended too"


def test_keycloak_ends_the_session_here_when_somebody_signs_out_there(keycloak: Keycloak, application: Application, ada: Traveller) -> None:
    ada.visit(application.request())
    assert ada.is_signed_in()
    ada.answers[""] = {"confirmLogout": "Logout"}

    ada.visit(f"{keycloak.issuer}/protocol/openid-connect/logout")

    # Keycloak tells before it answers.
    assert not ada.is_signed_in()


@pytest.mark.parametrize("ada", ["front"], indirect=True)
def test_a_page_of_keycloak_ends_the_session_here_in_a_frame(keycloak: Keycloak, application: Application, ada: Traveller) -> None:
    ada.visit(application.request())
    ada.answers[""] = {"confirmLogout": "Logout"}
    ada.visit(f"{keycloak.issuer}/protocol/openid-connect/logout")
    (frame,) = re.findall(r'<iframe src="([^"]+)"', ada.page)
    assert ada.is_signed_in()

    answer = ada.session.get(unescape(frame), timeout=10)

    assert answer.status_code == 200
    assert not ada.is_signed_in()
