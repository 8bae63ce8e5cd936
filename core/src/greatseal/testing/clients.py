"""What every client authentication method and resolver of clients must do, as test classes to inherit; and a CLIENTS for unit tests."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, ClassVar

import msgspec
import pytest

from greatseal.api.audit import AuditEvent
from greatseal.api.clients import (
    Also,
    Client,
    ClientAuthMethod,
    ClientMatch,
    ClientRequest,
    ClientResolver,
    InvalidClient,
    InvalidClientMetadata,
    InvalidRedirectUri,
    ProvenRequest,
    Registered,
    Registration,
    StoredSecret,
)
from greatseal.api.declarations import Secret
from greatseal.api.http import Call, Parameters
from greatseal.api.store import Refuse
from greatseal.principals import Pattern
from greatseal.testing.calls import FakeCall

__all__ = ["ClientAuthMethodContract", "ClientResolverContract", "FakeClients"]

TOKEN_URL = "https://issuer.example/token"  # noqa: S105
AUDIENCES = ("https://issuer.example", TOKEN_URL)
NO_CLIENTS = ("", " ", "nobody", "0193a8c0-0000-8000-8000-000000000001", "https://", "https:///", "//x", "\0", "ä", "x" * 5_000)
UNKNOWN = "the client or its credentials are not known"
JUNK = ("", " ", "x", "=", "!!!", "bm9ib2R5", "bm9ib2R5OmFueXRoaW5n", "/////w==", "a.b.c", "e30.e30.", "\0", "ä", "x" * 5_000)
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
SENT: Mapping[str, tuple[str, str]] = {
    "client_secret_basic": ("Authorization", "Basic {}"),
    "client_secret_post": ("", "client_secret"),
    "an assertion": ("", "client_assertion"),
    "Negotiate": ("Authorization", "Negotiate {}"),
    "an access token": ("Authorization", "Bearer {}"),
}
"""How clients send credentials: a header with its value, or a member of the form."""
FIELDS = frozenset(Client.__struct_fields__) | frozenset(Registration.__struct_fields__)


class ClientAuthMethodContract(ABC):
    """Inherit, say how to make the method, who the client is and how it proves itself, and the rest is tested.

    .. code-block:: python

        class TestPost(ClientAuthMethodContract):
            def method(self):
                return ClientSecretPost(...)

            def client(self):
                return Client(client_id="c1", token_endpoint_auth_method="client_secret_post", secret=...)

            def send(self, call, form, *, right):
                form["client_id"], form["client_secret"] = "c1", "the secret" if right else "a guess"
    """

    proves: ClassVar[bool] = True
    """Whether the client has to prove anything; ``none`` does not."""
    refused: ClassVar[Sequence[Registration]] = ()
    """Registrations with this method that :meth:`ClientAuthMethod.check` refuses."""

    @abstractmethod
    def method(self) -> ClientAuthMethod[Any]:
        """One that works at ``https://issuer.example``; the same one until the test ends, where it remembers anything."""

    @abstractmethod
    def client(self) -> Client:
        """A client that is registered for it."""

    @abstractmethod
    def send(self, call: FakeCall, form: dict[str, str], *, right: bool) -> None:
        """Put the credentials of :meth:`client` into a request, or with ``right`` False those that look like them and are not."""

    def _request(self, *, right: bool = True) -> ClientRequest:
        call, form = FakeCall("POST", TOKEN_URL), {"grant_type": "client_credentials"}
        self.send(call, form, right=right)
        return _request(call, form)

    async def _authenticate(self, request: ClientRequest, client: Client) -> ClientMatch | None:
        """As the token endpoint does, with that one client registered."""
        method, clients = self.method(), FakeClients(client)
        credentials = method.credentials(request)
        if credentials is None:
            return None
        proven = await method.prove(credentials)
        found = await method.find(clients, proven)
        return None if found is None else await method.verify(proven, found)

    def test_declares_itself(self) -> None:
        method = self.method()

        assert re.fullmatch(r"[a-z0-9_.:\-]+", method.method)
        assert self.client().token_endpoint_auth_method == method.method
        assert isinstance(method.open_registration, bool)
        assert isinstance(method.ambient, bool)
        assert method.fields <= FIELDS, "fields are members of Client or Registration"
        assert method.secret_form in {None, "digest", "sealed"}

    def test_a_request_without_credentials_brings_nothing(self) -> None:
        assert self.method().credentials(_request(FakeCall("POST", TOKEN_URL), {"grant_type": "client_credentials"})) is None

    def test_credentials_are_read_alike_each_time_and_name_the_client_or_nobody(self) -> None:
        method, request = self.method(), self._request()
        credentials = method.credentials(request)

        assert isinstance(credentials, msgspec.Struct), f"credentials returned {credentials!r} for a good request; it returns a Struct"
        assert method.credentials(request) == credentials
        assert method.client_id(credentials) in {None, self.client().client_id}

    def test_credentials_that_other_methods_send_are_left_to_them(self) -> None:
        method = self.method()
        if method.ambient:
            pytest.skip("what is there unasked counts only when no other method answered")

        answered = [how for how in SENT if _is_read(method, _sent(how, JUNK[5])) or _is_read(method, _sent(how, JUNK[6]))]

        assert len(answered) <= 1, f"it takes {' and '.join(answered)}: with one of them another method answers too (RFC 6749 s2.3)"

    async def test_the_right_credentials_prove_the_client(self) -> None:
        match = await self._authenticate(self._request(), self.client())

        assert isinstance(match, ClientMatch), f"{match!r}"
        assert match.subject
        assert all(isinstance(name, str) and isinstance(value, str) for name, value in (*match.headers, *match.proven.items()))
        if match.events is not None:
            assert all(isinstance(event, AuditEvent) for event in match.events(["openid"]))

    async def test_wrong_credentials_are_refused_as_invalid_client(self) -> None:
        if not self.proves:
            pytest.skip("the client proves nothing")

        with pytest.raises(InvalidClient):
            await self._authenticate(self._request(right=False), self.client())

    async def test_a_client_that_was_given_nothing_to_prove_is_not_proven(self) -> None:
        if not self.proves:
            pytest.skip("the client proves nothing")
        bare = Client(client_id=self.client().client_id, token_endpoint_auth_method=self.method().method)

        with suppress(InvalidClient):
            assert await self._authenticate(self._request(), bare) is None

    @pytest.mark.parametrize("how", SENT)
    async def test_what_cannot_be_read_is_refused_and_no_error(self, how: str) -> None:
        for value in JUNK:
            try:
                match = await self._authenticate(_sent(how, value, self.client().client_id), self.client())
            except InvalidClient:
                continue
            assert match is None or not self.proves, f"{how} {value!r} proved the client"

    def test_a_client_that_may_be_stored_is_stored_and_stays_itself(self) -> None:
        asked = Registration(client=self.client(), open=self.method().open_registration)

        stored = self.method().check(asked)

        assert (stored.client_id, stored.token_endpoint_auth_method) == (asked.client.client_id, asked.client.token_endpoint_auth_method)
        assert self.method().check(msgspec.structs.replace(asked, client=stored)) == stored

    def test_a_registration_that_breaks_its_rules_is_refused(self) -> None:
        for registration in self.refused:
            with pytest.raises(InvalidClientMetadata) as refused:
                self.method().check(registration)
            assert refused.value.detail


class ClientResolverContract(ABC):
    """Inherit, say how to make the resolver and whom it knows, and the rest is tested."""

    client_id: str
    """The id of a client that it has."""
    unknown: Sequence[str] = ()
    """Ids of the kind that it has, of nobody."""

    @abstractmethod
    def resolver(self) -> ClientResolver:
        """A new one."""

    def test_declares_itself(self) -> None:
        assert self.resolver().name

    async def test_a_client_is_found_by_its_id_and_is_the_same_each_time(self) -> None:
        found = await self.resolver().resolve(self.client_id)

        assert isinstance(found, Client), f"{found!r}"
        assert found.client_id == self.client_id
        assert found.token_endpoint_auth_method
        assert (found.created_at, found.updated_at) == (0, 0), "moments are those of rows of the registry"
        assert found == await self.resolver().resolve(self.client_id)

    async def test_an_id_of_another_kind_is_nobody_and_no_error(self) -> None:
        for client_id in (*NO_CLIENTS, *self.unknown):
            assert await self.resolver().resolve(client_id) is None, client_id


def _request(call: FakeCall, form: Mapping[str, str]) -> ClientRequest:
    return ClientRequest(call=call, form=Parameters(form.items()), audiences=AUDIENCES)


def _sent(how: str, value: str, client_id: str = "nobody") -> ClientRequest:
    header, member = SENT[how]
    call, form = FakeCall("POST", TOKEN_URL), {"grant_type": "client_credentials", "client_id": client_id}
    if header:
        call.headers[header] = member.format(value)
    elif value:
        form |= {member: value, **({"client_assertion_type": JWT_BEARER} if member == "client_assertion" else {})}
    return _request(call, form)


def _is_read(method: ClientAuthMethod[Any], request: ClientRequest) -> bool:
    """Whether the method takes the credentials as its own, unreadable ones too."""
    try:
        return method.credentials(request) is not None
    except InvalidClient:
        return True


class FakeClients:
    """CLIENTS (:class:`greatseal.api.clients.Clients`) in memory: ``clients`` by id, and in ``secrets`` those that have one.

    A client proves itself by ``client_id`` and ``client_secret`` in the form. Registrations keep no rule but those for which a plugin must
    be ready: ``scopes`` are the defined ones, a redirect URI with a fragment is refused, and clients do not administer themselves.
    """

    def __init__(self, *clients: Client, secrets: Mapping[str, str] | None = None, scopes: Sequence[str] = ("openid", "email")) -> None:
        self.clients = {client.client_id: client for client in clients}
        self.secrets = dict(secrets or {})
        self.scopes = scopes
        self.tx: Any = None
        """The transaction that ``also`` is given."""
        self._registered = 0

    async def authenticate(self, call: Call) -> ProvenRequest:
        """By the form alone."""
        form = Parameters.parse(await call.raw())
        client = self.clients.get(form.get("client_id", ""))
        if client is None or self.secrets.get(client.client_id) != form.get("client_secret"):
            raise InvalidClient(UNKNOWN)
        return ProvenRequest(call=call, form=form, client=client, match=ClientMatch(subject=client.client_id))

    async def register(self, registration: Registration, *, by: str) -> Registered:  # noqa: ARG002  nothing is audited
        """With a secret, unless the method is ``none`` or one with keys."""
        self._check(registration)
        self._registered += 1
        id, secret = f"registered-{self._registered}", None
        client = msgspec.structs.replace(registration.client, client_id=id, source="dynamic" if registration.open else "admin")
        if client.token_endpoint_auth_method.startswith("client_secret_"):
            secret = registration.client_secret or Secret(f"secret of {id}")
            self.secrets[id] = secret.value
            client = msgspec.structs.replace(client, secret=_stored(secret, sealed=client.token_endpoint_auth_method.endswith("_jwt")))
        self.clients[id] = client
        return Registered(client=client, client_secret=secret)

    async def register_body(self, body: Mapping[str, Any], *, open: bool, by: str, also: Also | None = None) -> Registered:
        """As the contract says; ``also`` gets ``tx``."""
        members = self._opened(body) if open else dict(body)
        members.setdefault("token_endpoint_auth_method", "private_key_jwt")
        secret = members.pop("client_secret", None)
        made = await self.register(
            Registration(client=_client({"client_id": ""}, members), open=open, client_secret=Secret(secret) if secret else None), by=by
        )
        self._also(also, made.client.client_id)
        return made

    async def read_body(self, client_id: str, body: Mapping[str, Any], *, source: str) -> Client:
        """As the contract says."""
        client = _client({"client_id": client_id, "source": source}, self._opened(body))
        self._check(Registration(client=client, open=True))
        return client

    async def replace_body(self, client_id: str, body: Mapping[str, Any], *, by: str, also: Also | None = None) -> Registered | None:  # noqa: ARG002  nothing is audited
        """As the contract says; ``also`` gets ``tx``."""
        before = self.clients.get(client_id)
        if before is None:
            return None
        client = _client({name: getattr(before, name) for name in (*_OWN, *_ADMINISTERED)} | {"more": {}}, self._opened(body))
        self._check(Registration(client=client, open=True))
        self._also(also, client_id)
        self.clients[client_id] = client
        return Registered(client=client, client_secret=None)

    async def update(self, client_id: str, body: Mapping[str, Any], *, by: str) -> Client | None:  # noqa: ARG002  nothing is audited
        """As the contract says."""
        before = self.clients.get(client_id)
        if before is None:
            return None
        client = _client(msgspec.structs.asdict(before), body)
        self._check(Registration(client=client, open=False))
        self.clients[client_id] = client
        return client

    async def delete(self, client_id: str, *, by: str, also: Also | None = None) -> bool:  # noqa: ARG002  nothing is audited
        """As the contract says; ``also`` gets ``tx``."""
        if client_id in self.clients:
            self._also(also, client_id)
        self.secrets.pop(client_id, None)
        return self.clients.pop(client_id, None) is not None

    async def get(self, client_id: str) -> Client | None:
        """As the contract says."""
        return self.clients.get(client_id)

    async def of_principal(self, principal: str) -> Sequence[Client]:
        """As the contract says."""
        exact = [one for one in self.clients.values() if one.kerberos_principal == principal]
        patterns = [one for one in self.clients.values() if one.kerberos_principal_pattern is not None]
        return (exact or [one for one in patterns if Pattern(one.kerberos_principal_pattern or "").matches(principal)])[:2]

    def secret(self, client: Client) -> Secret:
        """The one in ``secrets``, of a client whose own is sealed."""
        if client.secret is None or client.secret.form != "sealed" or client.client_id not in self.secrets:
            raise InvalidClient(UNKNOWN)
        return Secret(self.secrets[client.client_id])

    def _also(self, also: Also | None, client_id: str) -> None:
        """A refusal undoes nothing here that was done before."""
        if also is None:
            return
        try:
            also(self.tx, client_id)
        except Refuse as refused:
            raise refused.problem from None

    def _opened(self, body: Mapping[str, Any]) -> dict[str, Any]:
        members = dict(body)
        scope = members.pop("scope", None)
        if not isinstance(scope, str | None):
            raise InvalidClientMetadata("scope: expected scopes separated by spaces")
        members["scopes"] = [one for one in (scope or "").split() if one in {*self.scopes, "introspect"}]
        members.setdefault("token_endpoint_auth_method", "client_secret_basic")
        if given := sorted(_ADMINISTERED & members.keys()):
            raise InvalidClientMetadata(f"{given[0]}: only an administrator sets this")
        return members

    def _check(self, registration: Registration) -> None:
        client = registration.client
        if unknown := sorted(set(client.scopes) - set(self.scopes)):
            raise InvalidClientMetadata(f"scopes: {unknown[0]} is not defined")
        if registration.open and "introspect" in client.scopes:
            raise InvalidClientMetadata("scopes: introspect is given by an administrator")
        if any("#" in uri for uri in client.redirect_uris):
            raise InvalidRedirectUri("redirect_uris: a URI without a fragment is expected")


_ADMINISTERED = frozenset({"allow_token_exchange_actor", "kerberos_principal", "kerberos_principal_pattern", "spiffe_id", "workload_type"})
_OWN = frozenset({"client_id", "secret", "source", "created_at", "updated_at", "more"})
"""Fields of a record that no body sets."""


def _stored(secret: Secret, *, sealed: bool) -> StoredSecret:
    value = secret.value.encode()
    return StoredSecret(form="sealed", value=b"sealed") if sealed else StoredSecret(form="sha256", value=sha256(value).digest())


def _client(before: Mapping[str, Any], body: Mapping[str, Any]) -> Client:
    """The record with the members of a body: null clears one, and what has no field is kept in ``more``."""
    members, more = dict(before), dict(before.get("more", {}))
    for name, value in body.items():
        if name in _OWN:
            continue
        into = members if name in Client.__struct_fields__ else more
        if value is None:
            into.pop(name, None)
        else:
            into[name] = value
    try:
        return msgspec.convert({**members, "more": more}, Client)
    except msgspec.ValidationError as error:
        raise InvalidClientMetadata(str(error)) from None
