"""The identity provider under load: documents, tokens, introspection, refreshes on durable SQLite."""

import statistics
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import requests
from bench import strict
from bench.measure import Row, Sample, row
from bench.wrk import Measured, Target, Workload, fresh_forms, run
from rig.provider import CALLBACK, Person, Provider

ROUNDS = 3
SECONDS = 2
FAMILIES = 80
"""Refresh tokens of a round: wrk asks for one more than it has connections, and what is under way at the end is lost."""
REPEATED = 100
MOST = 6000
"""Requests of a second at most, where each is prepared."""
CREDENTIALS = ("grant_type=client_credentials",)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
DEVICE = {"grant_types": ["authorization_code", "refresh_token", "client_credentials", DEVICE_CODE]}
BEGIN_DEVICE = ("scope=openid",)
REFRESH = "grant_type=refresh_token&refresh_token="
FORMATS: dict[str, dict[str, str]] = {
    "opaque": {"access_token_format": "opaque"},
    "ES256": {"access_token_format": "jwt", "access_token_signed_response_alg": "ES256"},
    "RS256": {"access_token_format": "jwt", "access_token_signed_response_alg": "RS256"},
}
GOALS = {
    "client_credentials, ES256": 5000,
    "introspection of fresh tokens": 4000,
    "introspection of repeated tokens": 10_000,
    "refresh with ID token": 3000,
}
"""Operations of one core in a second."""


class Ours:
    """This server with a client for each format, and its workloads."""

    def __init__(self, provider: Provider, pid: int, folder: Path) -> None:
        self.provider = provider
        self.target = Target(provider.base_url, pid)
        self.folder = folder
        self.logins = {name: self._register(format_) for name, format_ in FORMATS.items()}

    def _register(self, format_: Mapping[str, Any]) -> tuple[str, str]:
        registered = self.provider.register(**format_)
        login = registered["client_id"], registered["client_secret"]
        # The first proof of a chosen secret is slow on purpose, and 32 at once are too many attempts.
        requests.post(f"{self.provider.issuer}/token", CREDENTIALS[0], auth=login, headers=FORM, timeout=10).raise_for_status()
        return login

    @cached_property
    def device(self) -> tuple[str, str]:
        """A client of the device flow, where that is on."""
        return self._register(DEVICE)

    @cached_property
    def keyed(self) -> str:
        """A client that proves itself by a key."""
        return str(self.provider.register(token_endpoint_auth_method="private_key_jwt", client_secret=None, jwks=strict.JWKS)["client_id"])

    @cached_property
    def exchanger(self) -> tuple[str, str]:
        """A client of token exchange."""
        return self._register({"grant_types": ["authorization_code", "refresh_token", "client_credentials", strict.EXCHANGE]})

    @cached_property
    def introspector(self) -> tuple[str, str]:
        """A client that gets opaque tokens, and signed answers about them."""
        return self._register({**FORMATS["opaque"], "introspection_signed_response_alg": "ES256"})

    def documents(self) -> dict[str, Workload]:
        return {
            "discovery": Workload(path="/.well-known/openid-configuration", expected='"token_endpoint"'),
            "jwks": Workload(path="/jwks", expected='"kty"'),
        }

    def credentials(self, format_: str) -> Workload:
        return self.credentials_of(self.logins[format_])

    def credentials_of(self, login: tuple[str, str]) -> Workload:
        return Workload(path="/token", expected='"access_token"', bodies=CREDENTIALS, login=login)

    def introspection(self, format_: str, *, repeated: bool = False, seconds: int = SECONDS) -> Workload:
        """Of tokens made now."""
        forms = fresh_forms(self.target, self.credentials(format_), 1 if repeated else 3 * seconds, self.folder)
        return Workload(
            path="/introspect",
            expected='"active":true',
            bodies=forms[:REPEATED] if repeated else forms,
            login=self.logins[format_],
            mode="cycle" if repeated else "once",
        )

    def polls(self) -> Workload:
        """The first poll of devices whose person has not decided yet."""
        begin = Workload(path="/device_authorization", expected='"device_code"', bodies=BEGIN_DEVICE, login=self.device)
        forms = fresh_forms(self.target, begin, 2 * SECONDS, self.folder)
        return Workload(path="/token", expected='"authorization_pending"', status=400, bodies=forms, login=self.device, mode="once")

    def assertions(self) -> Workload:
        """client_credentials by private_key_jwt, each assertion once."""
        forms = strict.assertions(self.keyed, self.provider.issuer, MOST * SECONDS)
        return Workload(path="/token", expected='"access_token"', bodies=forms, mode="once")

    def proofs(self) -> Workload:
        """client_credentials with a DPoP proof each."""
        forms = strict.proofs(f"{self.provider.issuer}/token", CREDENTIALS[0], MOST * SECONDS)
        return Workload(path="/token", expected='"DPoP"', bodies=forms, login=self.logins["ES256"], mode="once")

    def exchanges(self) -> Workload:
        """A token of a person for another one, an ES256 JWT for an ES256 JWT."""
        person, login = Person(self.provider.issuer), self.exchanger
        forms = [strict.exchanged(self.signed_in(login, person, "access_token")) for _ in range(FAMILIES)]
        return Workload(path="/token", expected='"issued_token_type"', bodies=forms, login=login)

    def signed_introspection(self) -> Workload:
        """Signed answers about opaque tokens that were never asked about."""
        forms = fresh_forms(self.target, self.credentials_of(self.introspector), 3 * SECONDS, self.folder)
        return Workload(path="/introspect", expected="eyJ", bodies=forms, login=self.introspector, mode="once", accept=strict.SIGNED)

    def refreshes(self) -> Workload:
        """Of families that a person began now."""
        login, person = self.logins["ES256"], Person(self.provider.issuer)
        bodies = [REFRESH + self.signed_in(login, person) for _ in range(FAMILIES)]
        return Workload(path="/token", expected='"id_token"', bodies=bodies, login=login, mode="follow")

    def signed_in(self, login: tuple[str, str], person: Person, wanted: str = "refresh_token") -> str:
        """The code flow; its refresh token, or another one."""
        asked = {"response_type": "code", "client_id": login[0], "redirect_uri": CALLBACK, "scope": "openid offline_access", "state": "s"}
        back = person.visit(f"{self.provider.issuer}/authorize?{urlencode(asked)}")
        code = dict(parse_qsl(urlsplit(back).query))["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        answer = requests.post(f"{self.provider.issuer}/token", form, auth=login, timeout=10)
        token: str = answer.json()[wanted]
        return token


def token_rows(folder: Path) -> list[Row]:
    """All rows, in rounds that take turns."""
    provider = Provider(folder)
    with provider.running() as process:
        ours = Ours(provider, process.pid, folder)
        found: dict[str, list[tuple[Sample, Measured]]] = {}
        for number in range(-1, ROUNDS):
            for name, workload in _workloads(ours):
                seconds = 1 if number < 0 else SECONDS
                measured = run(ours.target, workload, seconds, folder)
                if number >= 0:
                    found.setdefault(name, []).append(measured)
    return [_row(name, measured) for name, measured in found.items()]


def _workloads(ours: Ours) -> Iterator[tuple[str, Workload]]:
    """Each is made when its turn has come: tokens and families are fresh."""
    yield from ours.documents().items()
    for format_ in FORMATS:
        yield f"client_credentials, {format_}", ours.credentials(format_)
    yield "introspection of fresh tokens", ours.introspection("ES256")
    yield "introspection of repeated tokens", ours.introspection("ES256", repeated=True)
    yield "introspection of fresh opaque tokens", ours.introspection("opaque")
    yield "refresh with ID token", ours.refreshes()
    yield "device poll", ours.polls()
    yield "client_credentials, private_key_jwt", ours.assertions()
    yield "client_credentials, DPoP", ours.proofs()
    yield "token exchange", ours.exchanges()
    yield "signed introspection", ours.signed_introspection()


def _row(name: str, measured: list[tuple[Sample, Measured]]) -> Row:
    made = row(name, [sample for sample, _ in measured])
    made.p50_ms = statistics.median(each.p50_ms for _, each in measured)
    made.p99_ms = statistics.median(each.p99_ms for _, each in measured)
    if name in GOALS and made.cpu_us_per_op:
        core = 1e6 / made.cpu_us_per_op
        made.note = f"{core:,.0f}/s of one core, goal {GOALS[name]:,}: {'kept' if core >= GOALS[name] else 'MISSED'}"
    return made
