"""``greatseal ctl`` as an administrator uses it, against a server that was started as a user starts it."""

import base64
import hashlib
import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

import pytest
from rig import warm
from rig.server import Server

CONFIGURATION = """\
[server]
base_url = "http://localhost:{port}"
listen = "127.0.0.1:{port}"

[plugins]
sets = ["idp"]

[database]
url = "{database}"
migrate = "auto"

[cluster]
key_file = "{folder}/cluster.key"

[users]
file = "{folder}/users.toml"

[[rbac.role]]
name = "administrator"
permissions = ["*"]
groups = ["administrators"]
"""


class Desk:
    """A server and the terminal of its administrator."""

    def __init__(self, folder: Path, database: str) -> None:
        self.server = Server(folder, [])
        self.server.configuration.write_text(CONFIGURATION.format(folder=folder, port=self.server.port, database=database))
        self.session = folder / "session.json"
        self.environ = {**os.environ, "GREATSEAL_SESSION": str(self.session), "GREATSEAL_SERVER": self.server.base_url}

    def run(self, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        return warm.run("ctl", *arguments, given=given, env=self.environ)

    def ctl(self, *arguments: str, given: str = "") -> Any:
        """The JSON that a command prints; it must succeed."""
        result = self.run("--json", *arguments, given=given)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def login(self) -> Any:
        """With the password that the first start printed."""
        found = re.search(r"^ +password +(\S+)$", self.server.log(), re.MULTILINE)
        assert found is not None, self.server.log()
        return self.ctl("login", "admin", "--password-file", "-", given=found.group(1))

    def post(self, path: str, form: dict[str, str], **headers: str) -> tuple[int, Any]:
        data = urllib.parse.urlencode(form).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.server.base_url + path, data, headers), timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def redirected(self, path: str, query: dict[str, str]) -> HTTPMessage:
        """The headers of a redirect that is not followed; the session's cookie goes along."""
        cookie = json.loads(self.session.read_text())["cookie"]
        url = f"{self.server.base_url}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"Cookie": cookie})
        with pytest.raises(urllib.error.HTTPError) as redirect:
            urllib.request.build_opener(Stay()).open(request, timeout=10)
        with redirect.value as error:
            assert error.code in {302, 303}, error.read()
            return error.headers

    def refresh_token(self, client_id: str) -> str:
        """Sign the administrator in at a client that asks for no consent."""
        verifier = "v" * 43
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": "http://localhost/cb",
            "scope": "openid offline_access",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        location = urllib.parse.urlsplit(self.redirected("/authorize", asked)["Location"])
        code = urllib.parse.parse_qs(location.query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "client_id": client_id, "code_verifier": verifier}
        status, tokens = self.post("/token", {**form, "redirect_uri": "http://localhost/cb"})
        assert status == 200, tokens
        return str(tokens["refresh_token"])


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@contextmanager
def serving(folder: Path, database: str) -> Any:
    desk = Desk(folder, database)
    with desk.server.forked():
        yield desk


@pytest.fixture
def desk(database_url, tmp_path):
    with serving(tmp_path, database_url) as desk:
        desk.login()
        yield desk


def test_sign_in_look_around_and_sign_out(desk):
    assert json.loads(desk.session.read_text())["server"] == desk.server.base_url
    me = desk.ctl("whoami")
    assert (me["username"], me["permissions"]) == ("admin", ["*"])
    assert [user["username"] for user in desk.ctl("users", "list")] == ["admin"]
    assert desk.ctl("users", "show", "admin")["groups"] == ["administrators"]
    assert desk.ctl("groups", "show", "administrators")["members"] == ["admin"]
    assert [group["name"] for group in desk.ctl("groups", "list")] == ["administrators"]
    assert [node["self"] for node in desk.ctl("nodes")] == [True]
    assert "login_success" in {event["event_type"] for event in desk.ctl("audit")}

    assert desk.run("logout").returncode == 0

    assert (desk.run("whoami").returncode, desk.session.exists()) == (1, False)


def test_a_client_from_its_registration_to_its_end(desk):
    made = desk.ctl("clients", "create", "--name", "Batch", "--scope", "groups", "--method", "client_secret_post")
    form = {"grant_type": "client_credentials", "client_id": made["client_id"], "client_secret": made["client_secret"]}
    assert desk.post("/token", form)[0] == 200

    changed = desk.ctl("clients", "update", made["client_id"], "--name", "Nightly batch")
    assert (changed["client_name"], changed["token_endpoint_auth_method"]) == ("Nightly batch", "client_secret_post")
    again = desk.ctl("clients", "update", made["client_id"], "--generate-secret")
    assert desk.post("/token", form)[0] == 401
    assert desk.post("/token", {**form, "client_secret": again["client_secret"]})[0] == 200
    table = desk.run("clients", "list").stdout
    assert made["client_id"] in table
    assert "Nightly batch" in table
    bad = desk.run("clients", "update", made["client_id"], "--redirect-uri", "http://evil.example/cb")
    assert (bad.returncode, "invalid_redirect_uri" in bad.stderr, len(bad.stderr.splitlines())) == (1, True, 1)

    assert desk.run("clients", "delete", made["client_id"], "--yes").returncode == 0

    assert desk.ctl("clients", "list") == []
    assert desk.run("clients", "show", made["client_id"]).returncode == 1
    assert desk.post("/token", {**form, "client_secret": again["client_secret"]})[0] == 401


def test_a_field_that_no_client_has_is_refused_with_the_nearest_name(desk):
    fields = ("--method", "none", "--redirect-uri", "http://localhost/cb", "--set", 'consent="implicit"')
    made = desk.ctl("clients", "create", *fields, "--set", 'backchannel_logout_uri="https://app.example/out"')
    wrong = ("--set", 'consnet="explicit"', "--set", 'backchannel_logout_url="https://x.example/"', "--clear", "backchanel_logout_uri")

    refused = desk.run("clients", "update", made["client_id"], "--name", "New", *wrong)

    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert "--set consnet: no client has this field; did you mean 'consent'?" in refused.stderr
    assert refused.stderr.count("did you mean 'backchannel_logout_uri'?") == 2
    assert desk.ctl("clients", "show", made["client_id"]) == made
    assert desk.run("clients", "create", *fields, *wrong).returncode == 2
    assert desk.ctl("clients", "list") == [made]
    cleared = desk.ctl("clients", "update", made["client_id"], "--clear", "backchannel_logout_uri", "--clear", "consent")
    assert (cleared["backchannel_logout_uri"], cleared["consent"]) == (None, None)


def test_refresh_families_are_listed_and_revoked(desk):
    client = desk.ctl(
        *("clients", "create", "--method", "none", "--redirect-uri", "http://localhost/cb"),
        *("--scope", "openid", "--scope", "offline_access", "--set", 'consent="implicit"'),
    )
    form = {"grant_type": "refresh_token", "client_id": client["client_id"]}
    status, tokens = desk.post("/token", {**form, "refresh_token": desk.refresh_token(client["client_id"])})
    assert status == 200, tokens
    (family,) = desk.ctl("families", "list", "--client-id", client["client_id"])
    assert (family["generation"], family["scope"]) == (2, "openid offline_access")

    assert desk.run("families", "revoke", family["family_id"]).returncode == 0

    assert desk.ctl("families", "list") == []
    assert desk.post("/token", {**form, "refresh_token": tokens["refresh_token"]})[1]["error"] == "invalid_grant"
    (event,) = desk.ctl("audit", "--type", "refresh_family_revoked")
    assert event["sub"] == family["sub"]


def test_scopes_are_set_and_deleted_but_not_those_of_the_system(desk):
    desk.ctl("scopes", "set", "payroll", "--description", "See pay", "--claim", "salary")
    assert {"name": "payroll", "description": "See pay", "claims": ["salary"], "is_system": False} in desk.ctl("scopes", "list")

    assert desk.run("scopes", "delete", "payroll").returncode == 0
    refused = desk.run("scopes", "delete", "openid")

    assert (refused.returncode, len(desk.ctl("scopes", "list"))) == (1, 8)
    assert "system scope" in refused.stderr


def test_keys_rotate_and_the_service_starts_again_under_the_new_cluster_key(database_url, tmp_path):
    with serving(tmp_path, database_url) as desk:
        desk.login()
        made = desk.ctl("keys", "rotate")
        assert desk.run("keys", "revoke", made["previous_kid"]).returncode == 0
        assert desk.run("keys", "revoke", made["previous_kid"]).returncode == 1
        before = desk.ctl("cluster-key", "show")
        sealed = desk.ctl("clients", "create", "--method", "client_secret_jwt", "--scope", "groups")
        after = desk.ctl("cluster-key", "rotate")
        assert before["key_id"] != after["key_id"]
        key = base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
        after = desk.ctl("cluster-key", "rotate", "--key-file", "-", given=key)

    assert key in (tmp_path / "cluster.key").read_text()
    with desk.server.forked():
        assert desk.ctl("cluster-key", "show") == after
        states = {key["kid"]: key["status"] for key in desk.ctl("keys", "list")}
        assert states[made["kid"]] == "active"
        assert made["previous_kid"] not in states
        assert desk.ctl("clients", "show", sealed["client_id"])["has_secret"] is True
        assert len(desk.ctl("audit", "--type", "cluster_key_rotated")) == 2


def test_the_clients_of_a_keycloak_realm_move_in_once_with_their_secrets(desk):
    export = str(Path(__file__).parents[2] / "plugins/idp/tests/data/keycloak-26-realm.json")
    outcomes = {row["name"]: row["outcome"] for row in desk.ctl("clients", "import-keycloak", export)}
    assert (outcomes["wiki"], outcomes["api"], desk.ctl("clients", "list")) == ("would be registered", "left out", [])

    first = desk.run("--json", "clients", "import-keycloak", "--apply", export)
    again = desk.run("--json", "clients", "import-keycloak", "--apply", export)

    assert first.returncode == 1, "a scheme of a phone's own is off"
    assert "some clients were refused; the others are registered" in first.stderr
    rows = {row["name"]: row for row in json.loads(first.stdout)}
    assert "redirect_uris" in rows["phone-app"]["notes"][0]
    assert {name for name, row in rows.items() if row["outcome"] == "registered"} == {"bank", "batch", "hmac", "wiki"}
    form = {"grant_type": "refresh_token", "refresh_token": "none"}
    basic = base64.b64encode(f"{rows['wiki']['client_id']}:wiki-secret-wiki-secret-wiki-secret".encode()).decode()
    status, refused = desk.post("/token", form, Authorization=f"Basic {basic}")
    assert (status, refused["error"]) == (400, "invalid_grant"), "the secret of there is good here"
    second = {row["name"]: row for row in json.loads(again.stdout)}
    assert (second["wiki"]["outcome"], second["wiki"]["client_id"]) == ("here already", rows["wiki"]["client_id"])
    assert len(desk.ctl("clients", "list")) == 4
