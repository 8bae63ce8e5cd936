"""Keycloak as it is given out, on loopback and in memory, with one realm: its people have a password and a one-time code."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from rig.provider import PASSWORD, USER
from rig.relying import BACK, FRONT, SIGNED_OUT, STRONG, WEAK, Relying

from greatseal.testing.service import free_port

KEY = "a-key-of-twenty-byte"
"""Of the one-time codes of :data:`USER`."""
PATIENCE = 300.0
"""Seconds until it must be ready, on a machine that has much else to do. It was put together when it was fetched: that takes longest."""


class Keycloak:
    """The distribution in ``found`` is copied below ``folder``, for it writes into itself."""

    def __init__(self, found: Path, folder: Path) -> None:
        self._home = folder / found.name
        shutil.copytree(found, self._home)
        self._log = folder / "keycloak.log"
        self._port = free_port()
        self.issuer = f"http://localhost:{self._port}/realms/main"

    @contextmanager
    def running(self, service: Relying, *ids: str) -> Iterator[None]:
        """``ids``, of ``back`` and ``front``, are how our service calls it, and how it is called there."""
        imports = self._home / "data" / "import"
        imports.mkdir(parents=True)
        (imports / "main-realm.json").write_text(json.dumps(realm(service, ids)))
        command = [str(self._home / "bin" / "kc.sh"), "start", "--optimized", "--import-realm", "--http-enabled=true"]
        command += [f"--hostname=http://localhost:{self._port}", "--http-host=127.0.0.1"]
        environ = {**os.environ, "JAVA_OPTS_APPEND": "-Xmx512m -XX:TieredStopAtLevel=1"}
        with self._log.open("wb") as log:
            process = subprocess.Popen([*command, f"--http-port={self._port}"], stdout=log, stderr=log, env=environ, start_new_session=True)
        try:
            self._wait_until_ready(process)
            yield
            process.terminate()
            process.wait(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            try:
                requests.get(f"{self.issuer}/.well-known/openid-configuration", timeout=5).raise_for_status()
            except requests.RequestException:
                time.sleep(0.2)
            else:
                return
        raise RuntimeError(f"Keycloak is not ready:\n{self._log.read_text(errors='replace')}")


def realm(service: Relying, ids: Sequence[str]) -> dict[str, Any]:
    """The realm to import."""
    code = {"subType": "totp", "digits": 6, "counter": 0, "period": 30, "algorithm": "HmacSHA1"}
    return {
        "realm": "main",
        "enabled": True,
        "browserFlow": "by level",
        "authenticationFlows": FLOWS,
        "authenticatorConfig": [{"alias": alias, "config": config} for alias, config in CONFIGURED.items()],
        "users": [
            {
                "username": USER,
                "enabled": True,
                "email": "ada@partner.example",
                "emailVerified": True,
                "firstName": "Ada",
                "lastName": "Example",
                "credentials": [
                    {"type": "password", "value": PASSWORD},
                    {"type": "otp", "secretData": json.dumps({"value": KEY}), "credentialData": json.dumps(code)},
                ],
            }
        ],
        "clients": [client(service, id) for id in ids],
    }


def client(service: Relying, id: str) -> dict[str, Any]:
    """Our service: with a key, PKCE and pushed requests, and told of sign-outs in the back, or in a frame of the page there."""
    told = {
        "back": {"backchannel.logout.url": service.at(BACK, id), "backchannel.logout.session.required": "true"},
        "front": {"frontchannel.logout.url": service.at(FRONT, id), "frontchannel.logout.session.required": "true"},
    }
    attributes = {
        "use.jwks.url": "true",
        "jwks.url": service.at("/auth/external/{id}/jwks", id),
        "token.endpoint.auth.signing.alg": "ES256",
        "pkce.code.challenge.method": "S256",
        "require.pushed.authorization.requests": "true",
        "post.logout.redirect.uris": service.at(SIGNED_OUT, id),
        **told[id],
        "acr.loa.map": json.dumps({WEAK: "1", STRONG: "2"}),
    }
    return {
        "clientId": id,
        "frontchannelLogout": id == "front",
        "clientAuthenticatorType": "client-jwt",
        "redirectUris": [service.at("/internal/callback/{id}", id)],
        "attributes": attributes,
        "protocolMappers": [
            {"name": "amr", "protocol": "openid-connect", "protocolMapper": "oidc-amr-mapper", "config": {"id.token.claim": "true"}}
        ],
    }


def _flow(alias: str, *steps: dict[str, Any], top: bool = False) -> dict[str, Any]:
    executions = [{"requirement": "REQUIRED", "priority": number, **step} for number, step in enumerate(steps)]
    return {"alias": alias, "providerId": "basic-flow", "topLevel": top, "builtIn": False, "authenticationExecutions": executions}


def _level(number: int, form: str, method: str) -> dict[str, Any]:
    reached = {"authenticator": "conditional-level-of-authentication", "authenticatorConfig": f"level {number}"}
    return _flow(f"to level {number}", reached, {"authenticator": form, "authenticatorConfig": method})


FLOWS = [
    _flow(
        "by level",
        {"authenticator": "auth-cookie", "requirement": "ALTERNATIVE"},
        {"authenticatorFlow": True, "flowAlias": "forms", "requirement": "ALTERNATIVE"},
        top=True,
    ),
    _flow(
        "forms",
        {"authenticatorFlow": True, "flowAlias": "to level 1", "requirement": "CONDITIONAL"},
        {"authenticatorFlow": True, "flowAlias": "to level 2", "requirement": "CONDITIONAL"},
    ),
    _level(1, "auth-username-password-form", "pwd"),
    _level(2, "auth-otp-form", "otp"),
]
"""A password is level 1, and a code after it level 2, for that request alone."""
CONFIGURED = {
    "level 1": {"loa-condition-level": "1", "loa-max-age": "36000"},
    "level 2": {"loa-condition-level": "2", "loa-max-age": "0"},
    "pwd": {"default.reference.value": "pwd", "default.reference.maxAge": "3600"},
    "otp": {"default.reference.value": "otp", "default.reference.maxAge": "3600"},
}
