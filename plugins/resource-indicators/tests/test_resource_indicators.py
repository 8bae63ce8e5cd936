"""What a request may name, and what its tokens are for. Over HTTP: tests/system/oidc."""

import msgspec
import pytest

from greatseal.api.authorization import Ask, Granting, Terms
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.http import Parameters
from greatseal.api.tokens import InvalidTarget
from greatseal.testing.extensions import ExtensionContract, wish_of
from greatseal_resource_indicators.resources import ResourceIndicators, Resources

ISSUER = "https://id.example"
API, LOGS, OTHER = "https://api.example/", "urn:example:logs", "https://other.example/"
CLIENT = Client(client_id="c1", token_endpoint_auth_method="client_secret_basic", more={"resources": [API, LOGS]})
EXTENSION = ResourceIndicators(ISSUER)


async def ask(*resources, at="authorize", client=CLIENT):
    given = Parameters(("resource", one) for one in resources)
    wish = await wish_of(EXTENSION, Ask(at=at, client=client, given=given, sent=given, remote="192.0.2.1"))
    return wish.kept if wish else None


def grant(kept, asked, *, basis="authorization", audiences=(), client=CLIENT):
    granting = Granting(grant_type="authorization_code", client=client, subject="ada", cnf=None, proven={}, basis=basis)
    terms = Terms(scopes=("openid",), audiences=audiences)
    return EXTENSION.grant(kept, asked, terms, granting).audiences


def named(*uris):
    return Resources(uris=uris)


class TestResourceIndicators(ExtensionContract):
    parameters = (("resource", API), ("resource", LOGS))
    client = CLIENT

    def extension(self):
        return ResourceIndicators(ISSUER)


@pytest.mark.parametrize("at", ["authorize", "par", "device", "backchannel", "token"])
async def test_what_is_named_is_kept_once_and_in_its_order(at):
    assert await ask(LOGS, API, LOGS, at=at) == named(LOGS, API)
    assert await ask(at=at) is None, "nothing to keep: who names nothing needs no extension later"


async def test_the_issuer_may_be_named_by_every_client():
    assert await ask(ISSUER, client=msgspec.structs.replace(CLIENT, more={})) == named(ISSUER)


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        (OTHER, "not registered"),
        ("https://api.example", "not registered"),
        ("HTTPS://api.example/", "not registered"),
        ("https://api.example/#part", "absolute URI"),
        ("/relative", "absolute URI"),
        ("api", "absolute URI"),
        ("https://api.example/a b", "absolute URI"),
        ("https://api.example/\n", "absolute URI"),
        ("https://äpi.example/", "absolute URI"),
    ],
)
async def test_another_resource_is_an_invalid_target(resource, said):
    with pytest.raises(InvalidTarget, match=said) as refused:
        await ask(API, resource)

    assert refused.value.error == "invalid_target"


@pytest.mark.parametrize("resource", ["api", "https://api.example/#part", "https://api.example/ ", ""])
def test_a_client_is_registered_with_absolute_uris(resource):
    for resources, good in (([API, LOGS], True), ([API, resource], False)):
        registration = Registration(client=msgspec.structs.replace(CLIENT, more={"resources": resources}), open=False)
        if good:
            EXTENSION.check(registration)
        else:
            with pytest.raises(InvalidClientMetadata, match="resources"):
                EXTENSION.check(registration)


@pytest.mark.parametrize(
    ("kept", "asked", "basis", "audiences"),
    [
        (named(API, LOGS), named(LOGS), "authorization", (LOGS,)),
        (named(API, LOGS), None, "authorization", (API, LOGS)),
        (None, None, "authorization", ()),
        (None, named(API), "client", (API,)),
        (None, None, "client", ()),
        (None, named(API), "exchange", (API,)),
    ],
)
def test_a_token_is_for_what_was_authorized_or_less(kept, asked, basis, audiences):
    assert grant(kept, asked, basis=basis) == audiences


@pytest.mark.parametrize("kept", [None, named(API), named(ISSUER)])
def test_a_token_request_widens_nothing(kept):
    with pytest.raises(InvalidTarget, match="authorization request"):
        grant(kept, named(LOGS))


def test_audiences_of_the_grant_stay():
    assert grant(None, named(API), basis="exchange", audiences=(OTHER, API)) == (OTHER, API)


def test_a_resource_that_was_taken_from_the_client_is_in_no_new_token():
    left = msgspec.structs.replace(CLIENT, more={"resources": [LOGS]})

    assert grant(named(API, LOGS), None, client=left) == (LOGS,)
    with pytest.raises(InvalidTarget, match="any more"):
        grant(named(API), None, client=left)
