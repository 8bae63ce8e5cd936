"""What nobody plans: SAML, SCIM, scopes for two factors alone, attested devices, users of Entra without LDAP, staples of OCSP for a proxy.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from greatseal.api.acme import VALID, Attempt, Challenge, ChallengeValidator, Verdict
from greatseal.api.declarations import Job, ScopeDefinition, Secret
from greatseal.api.directory import AccountState, Directories, Directory, DirectoryUnavailable, Group, Tier, User
from greatseal.api.http import Bearer, Call, Handler, Parameters, Reply, Route
from greatseal.api.identity import AccessDenied, Authenticated, LoggedIn, Login, Upstream
from greatseal.api.problems import BadRequest, Forbidden, IncorrectResponse, NotFound
from greatseal.api.services import DIRECTORIES, LOGIN
from greatseal.api.store import Tx
from greatseal.api.tokens import GrantCheck, GrantQuestion
from greatseal.host import Host
from greatseal.http.csrf import FORM
from greatseal.net import NameResolver, fetch

# ---- A SAML service provider


class Assertion(msgspec.Struct, frozen=True):
    """What a signed response says; its reading is a matter of its own library."""

    id: str
    name_id: str
    session: str | None
    not_after: int


class SamlServiceProvider:
    """The assertion consumer service (SAML bindings s3.5): a signed form makes a session like any other way in."""

    def __init__(self, host: Host, read: Callable[[bytes], Assertion | None], accounts: Mapping[str, str]) -> None:
        self._host = host
        self._read = read
        self._accounts = accounts

    def routes(self) -> Sequence[Route]:
        proven = Handler("the assertion in the form is what proves the caller")
        return [Route("POST", "/saml/acs", self.consume, style="page", auth=proven, content_types=(FORM,))]

    async def consume(self, call: Call) -> Reply:
        form = Parameters(parse_qsl((await call.raw()).decode()))
        assertion = self._read(b64decode(form.get("SAMLResponse", "")))
        if assertion is None:
            raise BadRequest("the response is not signed by the identity provider that is configured")
        if not await self._host.strikes.take("saml-assertion", assertion.id, assertion.not_after):
            raise BadRequest("the assertion was used before")
        local = self._accounts.get(assertion.name_id)
        if local is None:
            raise Forbidden("this identity has no account here")
        upstream = Upstream(id="saml", subject=assertion.name_id, session=assertion.session)
        known = Authenticated(username=local, realm=self._host.realm, amr=("fed",), upstream=upstream)
        return await self.finish(self._host.service(LOGIN), call, known, form.get("RelayState"))

    async def finish(self, login: Login, call: Call, known: Authenticated, return_to: str | None) -> Reply:
        completed = await login.complete(call, known, return_to)
        if not isinstance(completed, LoggedIn):
            raise Forbidden("this account needs another factor; sign in by password")
        return Reply(status=303, headers=(("Location", completed.return_to), *completed.headers))


# ---- SCIM (RFC 7644), as far as it reads


class Scim:
    """People of all directories for programs with a token."""

    scope = ScopeDefinition("scim.read", "Read people by SCIM.")

    def __init__(self, host: Host) -> None:
        self._directories: Directories = host.service(DIRECTORIES)

    def routes(self) -> Sequence[Route]:
        rule = Bearer("scim.read")
        return [
            Route("GET", "/scim/v2/Users", self.listed, style="api", auth=rule),
            Route("GET", "/scim/v2/Users/{id}", self.shown, style="api", auth=rule),
        ]

    async def listed(self, call: Call) -> Reply:
        found = await self._directories.users("", 100)
        resources = [resource(user) for user in found]
        schemas = ["urn:ietf:params:scim:api:messages:2.0:ListResponse"]
        return Reply.json({"schemas": schemas, "totalResults": len(found), "Resources": resources})

    async def shown(self, call: Call) -> Reply:
        user = await self._directories.user(call.path["id"])
        if user is None:
            raise NotFound("nobody has this id")
        return Reply.json(resource(user))


def resource(user: User) -> dict[str, Any]:
    return {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "id": user.subject,
        "userName": user.username,
        "displayName": user.display_name,
    }


# ---- Scopes that want two factors


class TwoFactors(GrantCheck):
    """Some scopes are for people who signed in with two factors; a program that asks for nothing else is refused."""

    name = "two-factors"

    def __init__(self, guarded: frozenset[str]) -> None:
        self._guarded = guarded

    async def check(self, question: GrantQuestion) -> frozenset[str]:
        if question.phase == "login" or "mfa" in question.amr:
            return question.scopes
        left = question.scopes - self._guarded
        if not left and question.scopes:
            raise AccessDenied("these scopes are for a sign-in with two factors")
        return left


# ---- Attested devices (draft-acme-device-attest); their type of identifier is one of identifier_types.py's kind


class Statement(msgspec.Struct, frozen=True):
    """What the device signed."""

    statement: bytes


class DeviceAttest01(ChallengeValidator):
    """The client brings the statement with its answer, so that nobody is asked."""

    type = "device-attest-01"
    identifier_types = frozenset({"permanent-identifier"})
    kept_as = Statement

    def __init__(self, attested: Callable[[bytes], tuple[str, bytes] | None]) -> None:
        self._attested = attested

    def accept(self, tx: Tx, challenge: Challenge, payload: Mapping[str, object]) -> Statement:
        statement = payload.get("attObj")
        if not isinstance(statement, str):
            raise BadRequest("attObj is missing")
        return Statement(b64decode(statement))

    async def validate(self, attempt: Attempt) -> Verdict:
        found = self._attested(attempt.kept.statement)
        expected = attempt.identifier.value, sha256(attempt.key_authorization.encode()).digest()
        if found != expected:
            raise IncorrectResponse("the statement is not of this device and key authorization")
        return VALID


# ---- Users of Entra, over its API


class Entra(Directory):
    """Users over HTTPS; an outage is raised, never an empty answer."""

    name = "entra"
    tier = Tier.DIRECTORY

    def __init__(self, host: Host, resolver: NameResolver, token: Callable[[], Secret]) -> None:
        self._host = host
        self._resolver = resolver
        self._token = token

    @property
    def realm(self) -> str:
        return self._host.realm

    async def user(self, username: str) -> User | None:
        found = await self._asked(f"users/{quote(username, safe='')}")
        if found is None:
            return None
        state = AccountState() if found["accountEnabled"] else AccountState(disabled=True)
        return User(username=username, realm=self.realm, source=self.name, display_name=found.get("displayName"), state=state)

    async def group(self, name: str) -> Group | None:
        found = await self._asked(f"groups/{quote(name, safe='')}?$expand=members")
        if found is None:
            return None
        return Group(name=name, realm=self.realm, source=self.name, members=tuple(one["id"] for one in found["members"]))

    async def _asked(self, path: str) -> Any:
        bearer = {"Authorization": f"Bearer {self._token().value}"}
        answer = await fetch(f"https://graph.example/v1.0/{path}", resolver=self._resolver, headers=bearer)
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise DirectoryUnavailable("the directory gives no answer now", cause=f"entra: {answer.status}")
        return msgspec.json.decode(answer.body)


# ---- Staples for a proxy (RFC 6960 A.1, RFC 6066 s8)


class Stapler:
    """Keeps the OCSP response of a certificate in a file for the proxy in front."""

    def __init__(self, host: Host, resolver: NameResolver, certificate: x509.Certificate, issuer: x509.Certificate, file: Path) -> None:
        self._host = host
        self._resolver = resolver
        self._request = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, hashes.SHA1()).build()
        self._file = file

    def jobs(self, responder: str) -> Sequence[Job]:
        return [Job(name="stapler", every=3600.0, jitter=60.0, run=lambda: self.renew(responder))]

    async def renew(self, responder: str) -> None:
        encoded = quote(b64encode(self._request.public_bytes(Encoding.DER)), safe="")
        answer = await fetch(f"{responder}/{encoded}", resolver=self._resolver)
        if ocsp.load_der_ocsp_response(answer.body).response_status is ocsp.OCSPResponseStatus.SUCCESSFUL:
            await self._host.blocking.run("stapler", self._file.write_bytes, answer.body)
