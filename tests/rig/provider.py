"""An identity provider in a process of its own, its administrator at the admin API, and a person with a browser."""

import json
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import requests
import tomlkit
import trustme
from rig.forms import forms_of
from rig.server import Server

from greatseal_users_file.edit import add

ADMINISTRATOR, USER, PASSWORD = "admin", "ada", "correct horse battery"
CALLBACK, LOGGED_OUT = "https://rp.example/callback", "https://rp.example/"
CONFIGURATION = """\
[server]
base_url = "{base_url}"
listen = "127.0.0.1:{port}"
{settings}

[plugins]
sets = ["{features}"]

[database]
url = "{database}"
migrate = "auto"

[cluster]
key_file = "{folder}/cluster.key"

[oauth]
allow_private_logout_hosts = true
{settings_of_features}

[users]
file = "{folder}/users.toml"

[[rbac.role]]
name = "administrator"
permissions = ["*"]
groups = ["administrators"]
"""
SETTINGS_OF_FEATURES = {
    "idp": "",
    "idp-all": """\
allow_private_notification_hosts = true

[[oauth.authorization_details]]
type = "payment"
sentence = "Pay {amount} EUR to {creditor}"
members.amount = { type = "decimal", required = true }
members.creditor = { required = true }
members.actions = { type = "list of text" }

[tokens]
device_interval = 1
ciba_interval = 1
""",
}
REGISTRATION_TOKEN = "let-the-programs-in-0123456789"


class Provider(Server):
    """``greatseal serve`` with the identity provider, an administrator and :data:`USER`; with an ``authority`` it serves https.

    ``features`` is ``idp`` or ``idp-all``.
    """

    def __init__(
        self, folder: Path, *, database: str | None = None, authority: trustme.CA | None = None, features: str = "idp-all"
    ) -> None:
        super().__init__(folder, [], database=database, authority=authority)
        files = {} if authority is None else {"tls_cert_file": f"{folder}/tls.pem", "tls_key_file": f"{folder}/tls.key"}
        settings = "\n".join(f'{key} = "{file}"' for key, file in files.items())
        self.configuration.write_text(
            CONFIGURATION.format(
                folder=folder,
                port=self.port,
                base_url=self.base_url,
                database=self.database,
                settings=settings,
                features=features,
                settings_of_features=SETTINGS_OF_FEATURES[features],
            )
        )
        add(folder / "users.toml", ADMINISTRATOR, PASSWORD, groups=("administrators",))
        add(folder / "users.toml", USER, PASSWORD, display_name="Ada Example", email="ada@example.org", groups=("staff",))
        handlers = [] if self.context is None else [urllib.request.HTTPSHandler(context=self.context)]
        self._admin = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()), *handlers)

    def open_registration(self, **settings: Any) -> None:
        """Let programs register themselves with :data:`REGISTRATION_TOKEN`, and change that; ``settings`` are of [registration]."""
        text = self.configuration.read_text()
        server = f'[server]\nregistration_token = "{REGISTRATION_TOKEN}"\nregistration_management = true\n'
        more = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        self.configuration.write_text(text.replace("[server]\n", server) + f"\n[registration]\n{more}")

    def trust(self, *issuers: Any) -> None:
        """Trust these issuers: tables of `[[jwt_bearer.issuers]]`. Before the start."""
        self.configuration.write_text(self.configuration.read_text() + "\n" + tomlkit.dumps({"jwt_bearer": {"issuers": issuers}}))

    @property
    def issuer(self) -> str:
        return self.base_url

    def register(self, **registration: Any) -> dict[str, Any]:
        """Register a client at the admin API. The answer has ``client_id`` and, where there is one, ``client_secret``."""
        self._post("/api/auth/login", {"username": ADMINISTRATOR, "password": PASSWORD})
        whole = {
            "client_name": "The application",
            "redirect_uris": [CALLBACK],
            "post_logout_redirect_uris": [LOGGED_OUT],
            "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
            "scopes": ["openid", "profile", "email", "groups", "offline_access"],
            "token_endpoint_auth_method": "client_secret_basic",
            "client_secret": "a-secret-of-forty-three-characters-01234567",
        }
        client: dict[str, Any] = self._post("/api/admin/clients", {**whole, **registration})
        return client

    def define_scope(self, name: str, description: str) -> None:
        """A scope of the administrator's."""
        self._post("/api/auth/login", {"username": ADMINISTRATOR, "password": PASSWORD})
        self._post(f"/api/admin/scopes/{name}", {"description": description, "claims": []}, method="PUT")

    def allow(self, **rule: Any) -> None:
        """An access rule of the administrator's."""
        self._post("/api/auth/login", {"username": ADMINISTRATOR, "password": PASSWORD})
        self._post("/api/admin/hbac", rule)

    def _post(self, path: str, body: dict[str, Any], *, method: str = "POST") -> Any:
        body = {name: value for name, value in body.items() if value is not None}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.base_url + path, json.dumps(body).encode(), headers, method=method)
        with self._admin.open(request, timeout=10) as answer:
            return json.load(answer)


class Person:
    """Somebody who signs in, allows and signs out: follows redirects and fills in forms, with cookies and without scripts."""

    def __init__(self, issuer: str, username: str = USER, password: str = PASSWORD) -> None:
        self.issuer = issuer
        self._answers = {**FILLED_IN, "login-form": {"username": username, "password": password}}
        self.session = requests.Session()
        self.session.headers["Accept"] = "text/html"

    def visit(self, url: str) -> str:
        """Where a URL of the provider leads in the end: the URL outside of it, or the last page."""
        form: dict[str, str] | None = None
        while url.startswith(self.issuer):
            headers = {} if form is None else {"Origin": self.issuer}
            method = "GET" if form is None else "POST"
            answer = self.session.request(method, url, data=form, headers=headers, allow_redirects=False, timeout=10)
            if answer.status_code in {302, 303}:
                url, form = urljoin(url, answer.headers["Location"]), None
                continue
            assert answer.status_code == 200, answer.text
            found = next((one for one in forms_of(answer.text).values() if one.id in self._answers), None)
            if found is None:
                break
            url, form = urljoin(url, found.action), {**found.fields, **self._answers[found.id]}
        return url


FILLED_IN: dict[str, dict[str, str]] = {
    "consent-form": {"decision": "approve"},
    "confirm-form": {"decision": "approve"},
    "logout-form": {"confirm": "yes"},
}
