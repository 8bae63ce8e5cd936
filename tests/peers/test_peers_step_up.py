"""An unmodified npm client that needs a stronger sign-in, and a person who gives one code for it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyotp
import pytest
import requests
from peers.test_peers_oidc_node import SCRIPTS, node
from rig.conversations import conversation
from rig.provider import CALLBACK, PASSWORD, USER, Person, Provider

ONE, TWO = "urn:example:password", "urn:example:two-factors"
LADDER = f"""
[[acr]]
value = "{ONE}"
level = 1
satisfied_by = ["pwd"]

[[acr]]
value = "{TWO}"
level = 2
satisfied_by = ["mfa"]
"""


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    provider = Provider(tmp_path)
    text = provider.configuration.read_text().replace("[plugins]", '[plugins]\nenabled = ["otp"]')
    provider.configuration.write_text(text + LADDER)
    with provider.forked():
        yield provider


class Enrolling(Person):
    """Somebody who adds an app after the first sign-in."""

    visits = 0

    def visit(self, url: str) -> str:
        if self.visits == 1:
            self._answers["login-form"] = {"code": self._add_app()}
        self.visits += 1
        return super().visit(url)

    def _add_app(self) -> str:
        """In another browser: the session that confirms an app is strong by that."""
        with requests.Session() as session:
            session.post(f"{self.issuer}/api/auth/login", json={"username": USER, "password": PASSWORD}, timeout=10)
            return self._confirmed(session)

    def _confirmed(self, session: requests.Session) -> str:
        mine = f"{self.issuer}/api/me/otp-tokens"
        made = session.post(mine, json={"label": "Phone"}, timeout=10).json()
        totp = pyotp.parse_uri(made["otpauth_uri"])
        assert isinstance(totp, pyotp.TOTP)
        now = int(time.time())
        # The step before confirms the app: that of now is good after it.
        confirmed = session.post(f"{mine}/{made['token_id']}/confirm", json={"otp_code": totp.at(now - 30)}, timeout=10)
        assert confirmed.status_code == 204, confirmed.text
        return str(totp.at(now))


def test_openid_client_steps_up(provider: Provider) -> None:
    registered = provider.register(consent="implicit")
    person = Enrolling(provider.issuer)
    settings: dict[str, Any] = {
        "issuer": provider.issuer,
        "client_id": registered["client_id"],
        "client_secret": registered["client_secret"],
        "redirect_uri": CALLBACK,
        "strong": TWO,
    }

    with person.session:
        found = conversation([node("openid-client"), SCRIPTS / "openid-client-step-up.mjs"], settings, person)

    assert found["supported"][:2] == [TWO, ONE]
    assert (found["weak"]["acr"], found["weak"]["amr"]) == (ONE, ["pwd"])
    assert (found["stepped"]["acr"], found["stepped"]["amr"]) == (TWO, ["pwd", "otp", "mfa"])
    assert (found["introspected"]["acr"], found["introspected"]["auth_time"]) == (TWO, found["stepped"]["auth_time"])
    assert found["stepped"]["sid"] == found["weak"]["sid"], "the session goes on"
    assert (found["silent"]["acr"], found["unmet"]) == (TWO, "unmet_authentication_requirements")
    assert person.visits == 4
