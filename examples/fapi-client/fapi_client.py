"""A client of FAPI 2.0 in one file: private_key_jwt, PAR, PKCE, DPoP, and with --signing signed requests and signed answers.

Run ``uv run --script fapi_client.py keys`` once, register ``client.jwks.json``, then ``... sign-in ISSUER CLIENT_ID [--signing]``.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["joserfc>=1.8", "requests>=2.32"]
# ///

import json
import secrets
import sys
import time
from base64 import urlsafe_b64encode
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import requests
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

KEY, JWKS = Path("client.key.json"), Path("client.jwks.json")
PORT = 9001
CALLBACK = f"http://localhost:{PORT}/callback"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def b64url(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def keys() -> None:
    """Make the key of the client: the private half stays here, the public one is registered."""
    key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256", "kid": secrets.token_hex(4)})
    KEY.touch(mode=0o600)
    KEY.write_text(json.dumps(key.as_dict(private=True)))
    JWKS.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    print(f"{JWKS} is what you register")


class Client:
    """Speaks to one issuer. The key of its proofs is new each time: tokens are worth nothing without it."""

    def __init__(self, issuer: str, client_id: str, *, signing: bool) -> None:
        self.metadata = requests.get(f"{issuer}/.well-known/openid-configuration", timeout=10).json()
        self.client_id = client_id
        self.signing = signing
        self.key = ECKey.import_key(json.loads(KEY.read_text()))
        self.dpop = ECKey.generate_key("P-256")

    def signed(self, claims: dict[str, Any], **header: Any) -> str:
        return jwt.encode({"alg": "ES256", "kid": self.key.kid, **header}, claims, self.key)

    def assertion(self) -> dict[str, str]:
        """Who asks (RFC 7523). The audience is the issuer, as a text."""
        me, now = self.client_id, int(time.time())
        claims = {"iss": me, "sub": me, "aud": self.metadata["issuer"], "jti": secrets.token_urlsafe(), "iat": now, "exp": now + 60}
        return {"client_assertion_type": ASSERTION, "client_assertion": self.signed(claims)}

    def proof(self, method: str, url: str, token: str | None = None) -> dict[str, str]:
        """Who holds the key (RFC 9449)."""
        claims = {"jti": secrets.token_urlsafe(), "htm": method, "htu": url, "iat": int(time.time())}
        if token is not None:
            claims["ath"] = b64url(sha256(token.encode()).digest())
        header = {"alg": "ES256", "typ": "dpop+jwt", "jwk": self.dpop.as_dict(private=False)}
        return {"DPoP": jwt.encode(header, claims, self.dpop)}

    def post(self, endpoint: str, form: dict[str, str]) -> Any:
        url = self.metadata[endpoint]
        answer = requests.post(url, data={**form, **self.assertion()}, headers=self.proof("POST", url), timeout=10)
        if not answer.ok:
            sys.exit(f"{url}: {answer.text}")
        return answer.json()

    def begin(self, verifier: str, state: str, nonce: str) -> str:
        """Push the request (RFC 9126); the URL to open."""
        asked = {
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid profile offline_access",
            "state": state,
            "nonce": nonce,
            "code_challenge": b64url(sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        if self.signing:
            now = int(time.time())
            claims = {**asked, "response_mode": "jwt", "iss": self.client_id, "aud": self.metadata["issuer"], "nbf": now, "exp": now + 300}
            asked = {"client_id": self.client_id, "request": self.signed(claims, typ="oauth-authz-req+jwt")}
        pushed = self.post("pushed_authorization_request_endpoint", asked)
        query = urlencode({"client_id": self.client_id, "request_uri": pushed["request_uri"]})
        return f"{self.metadata['authorization_endpoint']}?{query}"

    def read(self, answer: dict[str, str], state: str) -> str:
        """The code, after the checks of RFC 9207, and of JARM s2.4 where it is signed."""
        if self.signing:
            answer = self.verified(answer["response"])
        if (answer.get("iss"), answer.get("state")) != (self.metadata["issuer"], state) or "code" not in answer:
            sys.exit(f"not for us, or refused: {answer.get('error')}")
        return answer["code"]

    def verified(self, token: str) -> dict[str, Any]:
        """The claims of a JWT that the issuer signed for us."""
        found = KeySet.import_key_set(requests.get(self.metadata["jwks_uri"], timeout=10).json())
        claims = jwt.decode(token, found, algorithms=["ES256"]).claims
        if (claims["iss"], claims["aud"]) != (self.metadata["issuer"], self.client_id) or claims["exp"] < time.time():
            sys.exit("a token of somebody else, or an old one")
        return claims


def answered() -> dict[str, str]:
    """What the browser brings back."""
    found: dict[str, str] = {}

    class Callback(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/callback":
                found.update(parse_qsl(parts.query))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"You can close this window.")

        def log_message(self, *_: Any) -> None:
            """Say nothing: the code stands in the path."""

    with HTTPServer(("localhost", PORT), Callback) as server:
        while not found:
            server.handle_request()
    return found


def sign_in(issuer: str, client_id: str, *, signing: bool) -> None:
    client = Client(issuer, client_id, signing=signing)
    verifier, state, nonce = (secrets.token_urlsafe(32) for _ in range(3))
    print(f"Open {client.begin(verifier, state, nonce)}", flush=True)
    code = client.read(answered(), state)
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": verifier}
    tokens = client.post("token_endpoint", form)
    if client.verified(tokens["id_token"])["nonce"] != nonce:
        sys.exit("an ID token of another sign-in")
    refreshed = client.post("token_endpoint", {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]})
    url, token = client.metadata["userinfo_endpoint"], refreshed["access_token"]
    headers = {"Authorization": f"DPoP {token}", **client.proof("GET", url, token)}
    print(json.dumps(requests.get(url, headers=headers, timeout=10).json(), indent=2))
    stolen = requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=10)
    print(f"Without the key: {stolen.status_code}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keys"]:
            keys()
        case ["sign-in", issuer, client_id, *more] if more in ([], ["--signing"]):
            sign_in(issuer, client_id, signing=bool(more))
        case _:
            sys.exit(__doc__)
