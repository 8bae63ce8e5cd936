"""The token authority without Kerberos: who is answered what, and what a token says. Over HTTP: tests/system/test_tkauth_01.py."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from pyasn1.codec.der.decoder import decode as decode_der
from pyasn1_alt_modules import rfc9118

from greatseal.api.directory import DirectoryUnavailable
from greatseal.api.kerberos import NegotiateRefused, NotConfigured, Ready, Unusable
from greatseal.api.problems import BadRequest, Problem, Unauthenticated, Unavailable
from greatseal.attempts import TicketLimits
from greatseal.jose.compact import b64url_decode, parse_compact
from greatseal.testing import FakeClock
from greatseal.testing.calls import FakeCall
from greatseal.testing.directories import FakeDirectories
from greatseal.testing.negotiate import FakeNegotiator
from greatseal.testing.tokens import FakeTokens
from greatseal_token_authority.constraints import constraints, names_of
from greatseal_token_authority.plugin import Plugin
from greatseal_token_authority.routes import TokenEndpoint

GIVEN = json.loads((Path(__file__).parent / "vectors.json").read_text())
FINGERPRINT = GIVEN["negative"][0]["body"]["atc"]["fingerprint"]
ATC = {"tktype": "JWTClaimConstraints", "tkvalue": "", "fingerprint": FINGERPRINT}
ISSUER = "https://idp.chancery.test"
MALFORMED = (BadRequest, msgspec.DecodeError)
"""What the kernel answers with 400: tests/system/test_tkauth_01.py."""
HOST, PERSON = "host/bastion.chancery.test@CHANCERY.TEST", "alice@CHANCERY.TEST"
MANAGED = frozenset({"WEB2.chancery.test", "db1.chancery.test", "web1.chancery.test", "bastion.chancery.test"})


class Unlimited:
    """Limits that nothing reaches."""

    def hit(self, *_):
        return None

    def undo(self, *_):
        pass


class World:
    """The endpoint, and what it sees of a service."""

    def __init__(self, *, negotiator=None, down=False):
        self.negotiator = FakeNegotiator(HOST, PERSON, "HTTP/web2.chancery.test@CHANCERY.TEST", legs=["bob@CHANCERY.TEST"])
        self.directories = FakeDirectories(managed={HOST: MANAGED, PERSON: frozenset({"never.chancery.test"})})
        self.directories.down = down
        self.tokens = FakeTokens(issuer=ISSUER)
        self.clock, self.issuer, self.node_id, self.events = FakeClock(), ISSUER, "n1", []
        self.handles = SimpleNamespace(new_id=lambda: "0b0f0b0e-0000-8000-8000-000000000001")
        accepts = self.negotiator if negotiator is None else negotiator()
        self.endpoint = TokenEndpoint(self, self.tokens, self.directories, accepts, limits=TicketLimits(Unlimited(), "x", 0), seconds=900)

    async def audit_log(self, event):
        self.events.append(event)

    async def ask(self, principal=HOST, *, body=None, header=None, call=None, **atc):
        call = call or FakeCall("POST", f"{ISSUER}/at/account/whatever/token")
        if header is not False:
            call.headers["Authorization"] = header or f"Negotiate {principal}"
        call.headers["Content-Type"] = "application/json"
        call.content = json.dumps({"atc": {**ATC, **atc}}).encode() if body is None else body
        return await self.endpoint.issue(call)

    async def claims(self, principal=HOST, **atc):
        token = json.loads((await self.ask(principal, **atc)).body)["token"]
        jws = parse_compact(token)
        jws.verify(self.tokens.key.public_key())
        assert jws.header == {"alg": "ES256", "typ": "JWT"}
        return json.loads(jws.payload)


@pytest.mark.parametrize("vector", GIVEN["vectors"], ids=lambda one: one["case"])
def test_idp_323_idp_324_idp_325_the_constraints_are_those_of_the_vectors(vector):
    dns = vector["dns"] or []

    # the list of the long one is as it was given; elsewhere it is sorted
    made = constraints(vector["principal"], vector["issuer"], dns)

    assert made.hex() == vector["der_hex"]
    assert b64url_decode(vector["tkvalue"]) == made


@given(
    st.text(max_size=80).map(lambda name: f"{name}@EXAMPLE.TEST").filter(lambda name: name.isprintable()),
    st.lists(st.from_regex(r"[a-z]{1,60}\.example", fullmatch=True), max_size=12),
)
def test_idp_323_a_module_of_the_rfc_reads_what_is_made(principal, dns):
    found, rest = decode_der(constraints(principal, ISSUER, dns), asn1Spec=rfc9118.EnhancedJWTClaimConstraints())

    assert not rest
    assert [str(one) for one in found["mustInclude"]] == ["sub"]
    said = {str(one["claim"]): [str(value) for value in one[1]] for one in found["permittedValues"]}
    assert said == {"sub": [principal], "iss": [ISSUER], **({"dns": dns} if dns else {})}
    assert not found["mustExclude"].isValue or not len(found["mustExclude"])


async def test_idp_017_idp_314_idp_319_idp_320_idp_322_idp_326_idp_327_r69_a_host_gets_the_names_that_it_manages():
    world = World()

    reply = await world.ask()
    claims = await world.claims()

    dns = ["bastion.chancery.test", "db1.chancery.test", "web1.chancery.test", "web2.chancery.test"]
    vector = next(one for one in GIVEN["vectors"] if one["case"] == "host managing others")
    now = world.clock.now() // 1_000_000
    atc = {"tktype": "JWTClaimConstraints", "tkvalue": vector["tkvalue"], "fingerprint": FINGERPRINT, "ca": False}
    node, jti = claims.pop("jti").split("/")
    assert claims == {"iss": ISSUER, "iat": now, "exp": now + 900, "sub": HOST, "dns": dns, "atc": atc}
    assert node == "n1"
    assert UUID(jti)
    assert reply.status == 200
    assert dict(reply.headers)["Cache-Control"] == "no-store"
    assert dict(reply.headers)["WWW-Authenticate"] == "Negotiate done"


async def test_idp_328_a_person_gets_no_names_and_a_service_that_manages_nothing_neither():
    world = World()

    for principal, vector in ((PERSON, "user"), ("HTTP/web2.chancery.test@CHANCERY.TEST", "service, directory lookup found nothing")):
        claims = await world.claims(principal)
        expected = next(one for one in GIVEN["vectors"] if one["case"].startswith(vector))
        assert "dns" not in claims
        assert claims["sub"] == principal
        assert claims["atc"]["tkvalue"] == expected["tkvalue"]


async def test_s038_idp_316_idp_317_idp_318_what_is_asked_for_is_ignored_or_copied():
    world = World()
    other = GIVEN["vectors"][1]["tkvalue"]

    atc = (await world.claims(PERSON, tkvalue=other, fingerprint="anything", ca=True))["atc"]

    assert atc == {"tktype": "JWTClaimConstraints", "tkvalue": GIVEN["vectors"][0]["tkvalue"], "fingerprint": "anything", "ca": True}


async def test_a_token_is_told_to_the_audit_log():
    world = World()

    await world.ask(fingerprint="x\ny" * 200)

    (event,) = world.events
    assert (event.event_type, event.sub) == ("authority_token", HOST)
    assert re.fullmatch(r'jti=n1/[0-9a-f-]{36} fingerprint="x\\ny.*"\.\.\. ca=false', event.detail)
    assert event.detail.isprintable()


@pytest.mark.parametrize("case", GIVEN["negative"], ids=lambda one: one["case"])
async def test_s038_idp_315_idp_330_a_body_of_the_vectors_that_is_refused(case):
    world = World()

    with pytest.raises(MALFORMED):
        await world.ask(body=json.dumps(case["body"]).encode())
    assert not world.events
    assert case["status"] == BadRequest.status


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"atc": []}', b'{"atc": null}', b'{"atc": {"tktype": 1, "tkvalue": "", "fingerprint": ""}}',
     b'{"atc": {"tktype": "JWTClaimConstraints", "fingerprint": ""}}'],
)  # fmt: skip
async def test_idp_330_a_body_that_is_none(body):
    world = World()

    with pytest.raises(MALFORMED):
        await world.ask(body=body)
    assert not world.events


async def test_idp_312_idp_333_r67_without_a_credential_it_is_503_before_all_else():
    for state in (NotConfigured(), Unusable(reason="no keytab")):
        world = World()
        world.negotiator.state = state
        for header in (False, "Negotiate nobody", f"Negotiate {HOST}"):
            with pytest.raises(Unavailable) as refused:
                await world.ask(header=header, body=b"{")
            assert "keytab" not in refused.value.detail
        assert not world.endpoint.active
    world = World()
    world.endpoint._negotiator = None  # no feature brings one
    with pytest.raises(Unavailable):
        await world.ask()
    assert not world.endpoint.active


async def test_idp_331_without_negotiate_it_is_401_with_the_scheme():
    for header in (False, "Basic x", "Bearer x"):
        with pytest.raises(Unauthenticated) as refused:
            await World().ask(header=header, body=b"{")
        assert refused.value.headers["WWW-Authenticate"] == "Negotiate"


async def test_idp_332_r70_a_ticket_that_does_not_authenticate_is_403_before_the_body():
    for token in ("mallory@CHANCERY.TEST", "TlRMTVNTUAAB", "////", ""):
        with pytest.raises(NegotiateRefused) as refused:
            await World().ask(header=f"Negotiate {token}", body=b"{")
        assert refused.value.status == 403


async def test_r72_a_ticket_that_is_too_long_is_400():
    with pytest.raises(BadRequest):
        await World().ask(header=f"Negotiate {'x' * 60_000}")


async def test_an_exchange_of_two_legs_goes_on_with_the_token_of_the_first():
    world, call = World(), FakeCall("POST")

    first = await world.ask("bob@CHANCERY.TEST", call=call, body=b"")
    second = await world.ask("more", call=call)

    assert (first.status, dict(first.headers)["WWW-Authenticate"]) == (401, "Negotiate more")
    assert second.status == 200
    assert not [event for event in world.events if event.sub != "bob@CHANCERY.TEST"]


async def test_r93_a_directory_that_is_down_gives_no_token_without_names():
    world = World(down=True)

    with pytest.raises(DirectoryUnavailable) as refused:
        await world.ask()
    assert refused.value.status == 503
    assert not world.events
    assert (await world.ask(PERSON)).status == 200  # a person has no names, so nobody is asked


async def test_a_ticket_of_no_principal_gives_nothing():
    world = World()
    world.negotiator.principals |= {"host/@CHANCERY.TEST", "alice"}

    for principal in ("host/@CHANCERY.TEST", "alice"):
        with pytest.raises(NegotiateRefused):
            await world.ask(principal)
    assert not world.events


def test_r69_names_are_lower_case_once_and_sorted():
    assert names_of("b.example", ["C.example", "a.example", "c.example"]) == ["a.example", "b.example", "c.example"]
    assert names_of("b.example", []) == []


async def test_idp_186_the_metadata_are_read_again_when_tickets_can_be_accepted_and_when_not():
    world, told, plugin = World(), [], Plugin()
    host: Any = SimpleNamespace(
        issuer=ISSUER,
        settings=lambda struct: struct(),
        service=lambda _: None,
        optional_service=lambda _: world.negotiator,
        limits=Unlimited(),
        db=SimpleNamespace(write=lambda fn: Told(told).note(fn)),
    )
    oauth, openid, features = plugin.discovery(host)
    (job,) = plugin.jobs(host)
    world.negotiator.state = NotConfigured()

    await job.run()
    assert (told, oauth.members(), features.members()) == ([], {}, {"token_authority": False})
    for state, active in ((Ready(), True), (Unusable(reason="gone"), False)):
        world.negotiator.state = state
        await job.run()
        await job.run()
        assert told == [("oauth", ""), ("openid", ""), ("features", "")]
        assert features.members() == {"token_authority": active}
        endpoint = {"token_authority_endpoint": f"{ISSUER}/at/account/{{id}}/token"} if active else {}
        assert oauth.members() == openid.members() == endpoint
        told.clear()


class Told:
    """A transaction that notes what changed."""

    def __init__(self, told):
        self.changed = lambda *what: told.append(what)

    async def note(self, fn):
        fn(self)


async def test_every_problem_says_something():
    world = World()
    for refused in (world.ask(tktype="x"), world.ask(header=False)):
        with pytest.raises(Problem) as problem:
            await refused
        assert problem.value.detail
    assert isinstance(world.tokens.key, ec.EllipticCurvePrivateKey)
