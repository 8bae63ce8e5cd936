"""Our service as the one that relies on other providers: an application of ours, and somebody whose browser goes through all of them."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import requests
import tomlkit
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rig.forms import forms_of
from rig.provider import CALLBACK, FILLED_IN, LOGGED_OUT, PASSWORD, Provider

from greatseal.jose.compact import b64url_encode, parse_compact
from greatseal.jose.jwk import jwk_of, thumbprint_of
from greatseal.jose.strict import decode_object
from greatseal_users_file.edit import add

WEAK, STRONG = "urn:example:password", "urn:example:two-factors"
LADDER: Sequence[Mapping[str, Any]] = (
    {"value": WEAK, "level": 1, "satisfied_by": ["pwd"]},
    {"value": STRONG, "level": 2, "satisfied_by": ["hwk"]},
)
"""Nobody here reaches the second class by a code: only the word of a provider does."""
ESSENTIAL = json.dumps({"id_token": {"acr": {"essential": True, "values": [STRONG]}}})
"""The parameter claims of an application that takes nothing less."""
BACK, FRONT, SIGNED_OUT = "/backchannel/logout/{id}", "/frontchannel/logout/{id}", "/auth/external/{id}/signed-out"


class Relying(Provider):
    """A service whose people sign in with ``upstreams``, which are put into its configuration before it starts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._key = ec.generate_private_key(ec.SECP256R1())
        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self.client_key = folder / "partner.pem"
        self.client_key.write_bytes(pem)
        self.client_key.chmod(0o600)

    @property
    def jwks(self) -> dict[str, Any]:
        """The public half of ``client_key``."""
        key = self._key.public_key()
        return {"keys": [{**jwk_of(key), "kid": thumbprint_of(key)}]}

    def at(self, path: str, id: str) -> str:
        """A URL of ours that is registered at the provider."""
        return self.issuer + path.format(id=id)

    def rely_on(self, *upstreams: Mapping[str, Any]) -> None:
        """Before the start: each has its id, its issuer, and how we are known there."""
        usual = {"allow_private_hosts": True, "acr_values": [WEAK, STRONG], "default_acr": WEAK}
        tables = [{**usual, "realm": f"{one['id'].upper()}.EXAMPLE", **one} for one in upstreams]
        more = tomlkit.dumps({"federation": {"upstream_idps": tables}, "acr": list(LADDER)})
        self.configuration.write_text(f"{self.configuration.read_text()}\n{more}")


class Elsewhere(Provider):
    """Another Greatseal, with ``eve`` besides. A browser keeps its cookies apart, for its host has another name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        rungs = [{"value": WEAK, "level": 1, "satisfied_by": ["pwd"]}, {"value": STRONG, "level": 2, "satisfied_by": ["mfa"]}]
        self.configuration.write_text(f"{self.configuration.read_text()}\n{tomlkit.dumps({'acr': rungs})}")
        add(folder / "users.toml", "eve", PASSWORD)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Application:
    """One that people of our service use."""

    def __init__(self, service: Provider, **registration: Any) -> None:
        self._service = service
        self.client = service.register(consent="implicit", **registration)
        self._verifier = secrets.token_urlsafe(32)

    def request(self, **more: str) -> str:
        """The URL of an authorization request."""
        query = {
            "response_type": "code",
            "client_id": self.client["client_id"],
            "redirect_uri": CALLBACK,
            "scope": "openid profile email",
            "code_challenge": b64url_encode(sha256(self._verifier.encode()).digest()),
            "code_challenge_method": "S256",
            **more,
        }
        return f"{self._service.issuer}/authorize?{urlencode(query)}"

    def tokens(self, came: str) -> dict[str, Any]:
        """What the code in the URL is good for; the member ``claims`` has those of the ID token."""
        answered = parse_qs(urlsplit(came).query)
        assert "code" in answered, came
        form = {"grant_type": "authorization_code", "code": answered["code"][0], "redirect_uri": CALLBACK, "code_verifier": self._verifier}
        pair = (self.client["client_id"], self.client["client_secret"])
        answer = requests.post(f"{self._service.issuer}/token", data=form, auth=pair, timeout=10)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return {**found, "claims": decode_object(parse_compact(found["id_token"]).payload)}

    def logout(self, id_token: str) -> str:
        """The URL of a logout request."""
        query = {"id_token_hint": id_token, "post_logout_redirect_uri": LOGGED_OUT, "state": "s-1"}
        return f"{self._service.issuer}/logout?{urlencode(query)}"


class Traveller:
    """Somebody who signs in here ``through`` a provider: follows redirects and fills in forms on all ``sites``, without scripts.

    ``answers`` has what they fill in where they are asked for it, by the ids of forms. ``went`` has all URLs, ``page`` is the last page.
    """

    def __init__(self, service: Provider, through: str, *sites: str) -> None:
        self.service = service
        self.through = through
        self.sites = (service.issuer, *sites)
        self.answers: dict[str, Mapping[str, str]] = dict(FILLED_IN)
        self.went: list[str] = []
        self.page = ""
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Accept"] = "text/html"

    def visit(self, url: str) -> str:
        """Where a URL leads in the end: the URL outside of all sites, or the last page."""
        form: dict[str, str] | None = None
        while url.startswith(self.sites):
            self.went.append(url)
            site = "://".join(urlsplit(url)[:2])
            headers = {} if form is None else {"Origin": site}
            answer = self.session.request(
                "GET" if form is None else "POST", url, data=form, headers=headers, allow_redirects=False, timeout=10
            )
            for cookie in self.session.cookies:
                cookie.secure = False  # a browser takes loopback for secure
            if answer.status_code in {302, 303}:
                url, form = urljoin(url, answer.headers["Location"]), None
                continue
            assert answer.status_code == 200, f"{url}: {answer.status_code} {answer.text}"
            self.page = answer.text
            after = self._onward(url)
            if after is None:
                break
            url, form = after
        return url

    def is_signed_in(self) -> bool:
        """Whether the session at our service is live."""
        return self.is_signed_in_at(self.service.issuer)

    def is_signed_in_at(self, greatseal: str) -> bool:
        """The same of another one."""
        return self.session.get(f"{greatseal}/api/auth/me", timeout=10).status_code == 200

    def _onward(self, url: str) -> tuple[str, dict[str, str] | None] | None:
        if url.startswith(self.service.issuer):
            for id in (f"option-{self.through}", "another", "back"):
                if (link := re.search(rf'id="{id}" href="([^"]+)"', self.page)) is not None:
                    return urljoin(url, link[1].replace("&amp;", "&")), None
        forms = forms_of(self.page)
        found = next((form for id, form in forms.items() if id in self.answers), None)
        if found is None:
            return None
        said = {name: value for name, value in self.answers[found.id].items() if f'name="{name}"' in self.page}
        return urljoin(url, found.action), {**found.fields, **said}
