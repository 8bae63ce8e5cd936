"""Debian's mod_auth_openidc as a client with a certificate (RFC 8705) that signs its requests (RFC 9101).

Of version 2.4.12: ``tls_client_auth`` is ``none`` with a certificate. That is shown at /token alone, so UserInfo refuses it tokens
that are bound, and it takes the claims of the ID token. It signs with RSA keys, without ``typ``, ``nbf`` and ``exp``, and knows no
/par: FAPI is not for it.
"""

import contextlib
import html
import json
import os
import re
import shlex
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, urljoin, urlsplit

import pytest
import requests
from joserfc.jwk import RSAKey
from peers.test_peers_mtls import Reached, reached, visitor
from rig.apache import APACHE, MOD_AUTH_OPENIDC, apache
from rig.forms import forms_of
from rig.mtls import Own
from rig.provider import USER, Person
from rig.proxies import block

from greatseal.testing.service import free_port
from greatseal_client_auth_mtls.certificates import thumbprint_of

__all__ = ["reached", "visitor"]

KEY, STRANGE = (RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}) for _ in range(2))
DOCUMENTED = dict(shlex.split(line) for line in block("apache", 1).replace("/etc/apache2/", "{folder}/").splitlines())
OBJECT = json.loads(DOCUMENTED["OIDCRequestObject"])

pytestmark = pytest.mark.parametrize("reached", ["direct", "nginx"], indirect=True)

if (APACHE is None or not MOD_AUTH_OPENIDC.exists()) and not os.environ.get("CI"):
    pytest.skip("mod_auth_openidc is not installed: make peers", allow_module_level=True)


@contextlib.contextmanager
def site(
    reached: Reached, *, shows: Own, key: RSAKey = KEY, wraps: Any = OBJECT, method: str = "GET", **registration: Any
) -> Iterator[str]:
    """The base URL of an Apache that is a client of the provider, with that certificate and that key."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    signing = {"jwks": {"keys": [KEY.as_dict(private=False)]}, "request_object_signing_alg": "PS256", "require_signed_request_object": True}
    client = reached.registered(redirect_uris=[f"{base}/callback"], **signing, **registration)
    settings = {
        "OIDCProviderMetadataURL": f"{reached.provider.issuer}/.well-known/openid-configuration",
        "OIDCCABundlePath": "{folder}/authority.pem",
        "OIDCClientID": client["client_id"],
        "OIDCProviderAuthRequestMethod": method,
        "OIDCRedirectURI": f"{base}/callback",
        "OIDCCryptoPassphrase": "a passphrase of this server alone",
        "OIDCScope": "openid profile email offline_access",
        "OIDCPKCEMethod": "S256",
        "OIDCRemoteUserClaim": "preferred_username",
        "OIDCPassUserInfoAs": "json",
        **DOCUMENTED,
        "OIDCRequestObject": json.dumps(wraps),
    }
    files = {
        "authority.pem": reached.authority.read_bytes(),
        "wiki.pem": shows.certificate.read_bytes(),
        "wiki.key": shows.key.read_bytes(),
        "requests.key": key.as_pem(private=True),
        "requests.pem": key.as_pem(private=False),
    }
    if not wraps:
        del settings["OIDCRequestObject"]
    with apache(port, settings, files) as url:
        yield url


def asks(person: Person, base: str) -> tuple[dict[str, str], str]:
    """What the site asks the provider of somebody who is not signed in there, and the address where that goes on."""
    answer = person.session.get(f"{base}/private/", allow_redirects=False, timeout=10)
    if answer.status_code == 302:
        url = answer.headers["Location"]
        return dict(parse_qsl(urlsplit(url).query)), url
    (form,) = forms_of(answer.text).values()
    sent = person.session.post(form.action, form.fields, headers={"Origin": base}, allow_redirects=False, timeout=10)
    return form.fields, urljoin(form.action, sent.headers["Location"])


def sign_in(person: Person, base: str) -> tuple[dict[str, str], dict[str, str]]:
    """What the site asked the provider, and the texts of its private page by their ids."""
    asked, url = asks(person, base)
    return asked, shown(person.session.get(person.visit(url), timeout=10))


def shown(page: requests.Response) -> dict[str, str]:
    """The texts of the private page, by their ids."""
    return {name: html.unescape(text) for name, text in re.findall(r"<p id=(\w+)>(.*?)</p>", page.text)}


def part(token: str, number: int) -> Any:
    """Header (0) or claims (1) of a JWT."""
    return json.loads(urlsafe_b64decode(token.split(".")[number] + "=="))


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_it_signs_in_with_a_signed_request_and_gets_bound_tokens(reached: Reached, visitor: Person, method: str) -> None:
    def userinfo(certificate: tuple[str, str] | None) -> int:
        proof = {"Authorization": f"Bearer {page['token']}"}
        url = f"{reached.provider.issuer}/userinfo"
        return requests.get(url, headers=proof, cert=certificate, verify=str(reached.authority), timeout=10).status_code

    with site(reached, shows=reached.own, method=method) as base:
        asked, page = sign_in(visitor, base)

        assert sorted(asked) == ["client_id", "request", "response_type", "scope"]
        assert part(asked["request"], 0) == {"alg": "PS256", "kid": "one"}
        assert (page["user"], page["email"], page["name"]) == (USER, "ada@example.org", "Ada Example")
        assert part(page["token"], 1)["cnf"] == reached.cnf
        assert [userinfo(reached.own.pair), userinfo(reached.other.pair), userinfo(None)] == [200, 401, 401]

        private = quote(f"{base}/private/", safe="")
        refreshed = visitor.session.get(f"{base}/callback?refresh={private}&access_token={page['token']}", timeout=10)
        again = shown(refreshed)["token"]
        assert again != page["token"]
        assert part(again, 1)["cnf"] == reached.cnf


def test_the_keys_that_it_shows_can_be_registered(reached: Reached) -> None:
    with site(reached, shows=reached.own) as base:
        jwks = requests.get(f"{base}/callback?jwks=rsa", timeout=10).json()

    assert reached.registered(jwks=jwks, require_signed_request_object=True)["jwks"] == jwks
    assert [(one["kid"], one["n"]) for one in jwks["keys"]] == [("one", KEY.as_dict()["n"])]


def test_without_bound_tokens_it_asks_userinfo(reached: Reached, visitor: Person) -> None:
    with site(reached, shows=reached.own, tls_client_certificate_bound_access_tokens=False) as base:
        _, page = sign_in(visitor, base)

        assert "cnf" not in part(page["token"], 1)
        assert json.loads(page["userinfo"])["preferred_username"] == USER


@pytest.mark.parametrize("fault", ["certificate", "key", "unsigned"])
def test_it_is_refused(reached: Reached, visitor: Person, fault: str) -> None:
    """With the certificate or the key of somebody else, and without a signature."""
    shows, key = reached.other if fault == "certificate" else reached.own, STRANGE if fault == "key" else KEY
    with site(reached, shows=shows, key=key, wraps=None if fault == "unsigned" else OBJECT) as base:
        first, url = asks(visitor, base)
        assert ("request" in first) == (fault != "unsigned")

        if fault == "key":  # where to answer stands in the object, which is not believed
            assert refusal(visitor, url) == (400, "invalid_request_object")
            return
        back = visitor.visit(url)
        visitor.session.get(back, timeout=10)
        told = dict(parse_qsl(urlsplit(back).query))
        assert told.get("error") == ("invalid_request" if fault == "unsigned" else None)
        assert asks(visitor, base)[1].startswith(reached.provider.issuer), "nobody is signed in"


def test_objects_at_an_address_are_not_fetched(reached: Reached, visitor: Person) -> None:
    """What it does with request objects unless it is told otherwise."""
    with site(reached, shows=reached.own, wraps={**OBJECT, "request_object_type": "request_uri"}) as base:
        asked, url = asks(visitor, base)

        assert asked["request_uri"].startswith(f"{base}/callback?request_uri=")
        assert refusal(visitor, url) == (400, "request_uri_not_supported")


def refusal(person: Person, url: str) -> tuple[int, str]:
    """The status and the error of a page that the provider shows itself."""
    answer = person.session.get(url, headers={"Accept": "application/json"}, allow_redirects=False, timeout=10)
    return answer.status_code, answer.json()["error"]


def digits(serial: int) -> str:
    """As OpenSSL writes it: two digits for each byte."""
    return serial.to_bytes((serial.bit_length() + 7) // 8).hex().upper()


def test_it_guards_an_api_with_bound_tokens(reached: Reached) -> None:
    """It reads the token itself, and compares ``cnf`` with the thumbprint that Apache was told for a certificate: it computes none."""
    port, api = free_port(), reached.registered(redirect_uris=None, grant_types=["client_credentials"], scopes=["profile"])
    thumbprints = {
        f"SetEnvIfExpr \"%{{SSL_CLIENT_M_SERIAL}} == '{digits(one.serial)}'\"": f"TB_SSL_CLIENT_CERT_FINGERPRINT={thumbprint_of(one.der)}"
        for one in (reached.own, reached.other)
    }
    settings = {
        "SSLEngine": "on",
        "SSLCertificateFile": "{folder}/tls.pem",
        "SSLCertificateKeyFile": "{folder}/tls.key",
        "SSLSessionCache": "none",
        "SSLVerifyClient": "optional_no_ca",
        "SSLVerifyDepth": "10",
        **thumbprints,
        "OIDCCABundlePath": "{folder}/authority.pem",
        "OIDCCryptoPassphrase": "a passphrase of this server alone",
        "OIDCOAuthVerifyJwksUri": f"{reached.provider.issuer}/jwks",
        "OIDCOAuthAccessTokenBindingPolicy": "enforced",
        "OIDCOAuthRemoteUserClaim": "sub",
    }
    files = {
        "authority.pem": reached.authority.read_bytes(),
        "tls.pem": (reached.provider.folder / "tls.pem").read_bytes(),
        "tls.key": (reached.provider.folder / "tls.key").read_bytes(),
    }
    form = {"grant_type": "client_credentials", "client_id": api["client_id"], "scope": "profile"}
    verify = str(reached.authority)
    token = requests.post(f"{reached.provider.issuer}/token", form, cert=reached.own.pair, verify=verify, timeout=10).json()["access_token"]

    def call(certificate: tuple[str, str] | None) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(f"https://localhost:{port}/api/", headers=headers, cert=certificate, verify=verify, timeout=10).status_code

    with apache(port, settings, files):
        assert [call(reached.own.pair), call(reached.other.pair), call(None)] == [200, 401, 401]
