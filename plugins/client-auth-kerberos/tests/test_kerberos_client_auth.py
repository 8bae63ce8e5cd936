"""kerberos_client_auth by the contract of client authentication methods. Over HTTP: tests/system/test_kerberos_clients.py."""

from types import SimpleNamespace

import msgspec
import pytest
import structlog

from greatseal.api.clients import Client, ClientRequest, InvalidClient, Registration
from greatseal.api.http import Parameters
from greatseal.api.kerberos import NotConfigured, Ready, Unusable
from greatseal.api.problems import BadRequest, Unavailable
from greatseal.testing.calls import FakeCall
from greatseal.testing.clients import ClientAuthMethodContract, FakeClients
from greatseal.testing.negotiate import FakeNegotiator
from greatseal_client_auth_kerberos.methods import KerberosClientAuth, is_of
from greatseal_client_auth_kerberos.plugin import health

REALM = "CHANCERY.TEST"
WEB, OTHER = f"host/web1.chancery.test@{REALM}", f"host/web2.chancery.test@{REALM}"
EXACT = Client(client_id="c1", token_endpoint_auth_method="kerberos_client_auth", kerberos_principal=WEB)


def method(*principals):
    return KerberosClientAuth(FakeNegotiator(*principals), lambda: None, structlog.get_logger())


class Tickets(ClientAuthMethodContract):
    refused = tuple(
        Registration(client=msgspec.structs.replace(EXACT, kerberos_principal=exact, kerberos_principal_pattern=pattern), open=False)
        for exact, pattern in (
            (None, None), (WEB, f"host/*@{REALM}"),
            (f"alice@{REALM}", None), ("host/a", None), ("host/@R", None), (f"{'x' * 2_000}/y@R", None),
            (None, "host/*"), (None, "a*b*c*d*@R"), (None, "host/\n@R"),
        )
    )  # fmt: skip

    def method(self):
        return method(WEB, OTHER)

    def send(self, call, form, *, right):
        form["client_id"] = "c1"
        call.headers["Authorization"] = f"Negotiate {WEB if right else OTHER}"


class TestExact(Tickets):
    def client(self):
        return EXACT


class TestPattern(Tickets):
    def client(self):
        return Client(
            client_id="c1", token_endpoint_auth_method="kerberos_client_auth", kerberos_principal_pattern=f"*/web1.chancery.test@{REALM}"
        )


def request(principal, **form):
    call = FakeCall("POST", "https://issuer.example/token", headers=[("Authorization", f"Negotiate {principal}")])
    return ClientRequest(call=call, form=Parameters(form.items()), audiences=())


CELLS = [
    (f"host/*@{REALM}", WEB, True),
    (f"host/*@{REALM}", f"host/a/b@{REALM}", True),
    (f"host/*@{REALM}", "host/web1.chancery.test@EVIL.TEST", False),
    (f"host/*@{REALM}", f"host/x@EVIL.TEST@{REALM}", False),
    (f"host/*@{REALM}", f"host/x\\@EVIL.TEST@{REALM}", False),
    (f"host/*.chancery.test@{REALM}", f"host/web1xchancery.test@{REALM}", False),
    (f"*/web1.chancery.test@{REALM}", f"HTTP/web1.chancery.test@{REALM}", True),
    ("*@*", f"alice@{REALM}", True),
    (f"HTTP/*@{REALM}", f"http/web1.chancery.test@{REALM}", False),
    (f"a*b*c*@{REALM}", f"axbxcx@{REALM}", True),
]


@pytest.mark.parametrize(("pattern", "principal", "match"), CELLS)
async def test_idp_045_idp_346_a_pattern_says_which_principals(pattern, principal, match):
    client = Client(client_id="t", token_endpoint_auth_method="kerberos_client_auth", kerberos_principal_pattern=pattern)
    asked = method(principal)
    clients = FakeClients(client)

    found = await asked.find(clients, await asked.prove(asked.credentials(request(principal))))

    assert is_of(client, principal) is match
    assert (found is not None) is match


@pytest.mark.parametrize(
    "principal", [WEB.upper(), WEB.lower(), WEB.replace("host", "HOST"), WEB.replace("web1", "WEB1"), WEB.replace("t/", "t\\/")]
)
def test_s086_an_exact_principal_is_compared_to_the_letter(principal):
    assert is_of(EXACT, WEB)
    assert not is_of(EXACT, principal)


async def test_idp_346_another_principal_and_a_client_without_any_are_refused():
    asked = method(WEB, OTHER)

    basic = FakeCall(headers=[("Authorization", "Basic eDp5")])
    assert asked.credentials(ClientRequest(call=basic, form=Parameters(()), audiences=())) is None
    for principal, client in ((OTHER, EXACT), (WEB, msgspec.structs.replace(EXACT, kerberos_principal=None))):
        with pytest.raises(InvalidClient):
            await asked.verify(await asked.prove(asked.credentials(request(principal))), client)


async def test_a_malformed_principal_is_refused_before_it_is_compared():
    asked = method(f"host/@{REALM}", "host/a@R\n")

    for principal in (f"host/@{REALM}", "host/a@R\n"):
        with pytest.raises(InvalidClient):
            await asked.prove(asked.credentials(request(principal)))


async def test_idp_350_idp_351_the_event_says_who_and_for_what():
    template = Client(client_id="t", token_endpoint_auth_method="kerberos_client_auth", kerberos_principal_pattern=f"host/*@{REALM}")
    for client, subject in ((EXACT, "c1"), (template, WEB)):
        asked = method(WEB)
        brought = request(WEB)

        match = await asked.verify(await asked.prove(asked.credentials(brought)), client)

        (event,) = match.events(["read", "write"])
        assert (match.subject, match.principal) == (subject, WEB)
        assert (event.event_type, event.sub, event.client_id, event.detail) == ("kerberos_client_auth", WEB, client.client_id, "read write")
        assert brought.call.promised == (("WWW-Authenticate", "Negotiate done"),)


async def test_r72_too_long_a_token_is_400_and_no_keytab_503():
    asked = method(WEB)
    with pytest.raises(BadRequest):
        await asked.prove(asked.credentials(request("x" * 50_000)))
    asked._negotiator.state = SimpleNamespace()
    with pytest.raises(Unavailable):
        await asked.prove(asked.credentials(request(WEB)))


@pytest.mark.parametrize(
    ("state", "ok", "cause"),
    [(Ready(), True, ""), (NotConfigured(), False, ""), (Unusable(reason="cannot be read"), False, "cannot be read"), (None, False, "")],
)
def test_doctor_says_whether_tickets_can_be_accepted(state, ok, cause):
    negotiator = FakeNegotiator()
    negotiator.state = state
    found = health(SimpleNamespace(optional_service=lambda _: negotiator if state else None))

    assert (found.ok, found.cause or "") == (ok, cause)
    assert "kerberos_client_auth" in found.detail


@pytest.mark.parametrize(("pattern", "warned"), [("*@*", True), (f"host/*@*.{REALM}", True), (f"host/*@{REALM}", False)])
def test_a_pattern_of_every_realm_is_warned_of(pattern, warned):
    client = Client(client_id="c1", token_endpoint_auth_method="kerberos_client_auth", kerberos_principal_pattern=pattern)

    with structlog.testing.capture_logs() as lines:
        method().check(Registration(client=client, open=False))

    assert [line["pattern"] for line in lines] == ([pattern] if warned else [])
