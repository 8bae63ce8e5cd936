"""The checks of a binding, in the order of the interface document, and what a good one gives."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import select

from greatseal.api.acme import BindingRequest, Unauthorized
from greatseal.api.problems import BadRequest, Conflict, Problem
from greatseal.db.tables import insert_new
from greatseal.jose.compact import BadJws, b64url_decode, b64url_encode
from greatseal.jose.jwk import jwk_of
from greatseal.jose.strict import decode_json
from greatseal.testing.acme import AccountBindingContract
from greatseal.testing.parsers import ParserContract
from greatseal.testing.store import audit
from greatseal_eab import tables as t
from greatseal_eab.jws import HASHES, is_by_key, is_for_key, read_binding

URL = "https://ca.example/acme/new-account"
KEY = bytes(range(32))
ANOTHER = orjson.dumps(jwk_of(ec.generate_private_key(ec.SECP256R1()).public_key()))


class TestExternalAccountBinding(AccountBindingContract):
    @pytest.fixture(autouse=True)
    async def _desk(self, open_desk: Any) -> None:
        self.desk: Any = await open_desk()
        self.number = 0
        self.wrong = self.desk.sent("nobody").value

    def binding(self) -> Any:
        return self.desk.binding

    def database(self) -> Any:
        return self.desk.db

    async def sent(self, request: BindingRequest) -> Any:
        self.number += 1
        await self.desk.give(f"kid-{self.number}")
        return self.desk.flattened({"alg": "HS256", "kid": f"kid-{self.number}", "url": request.url}, orjson.dumps(request.jwk), KEY)


async def events(desk: Any) -> list[tuple[str, str, str | None]]:
    """What was audited of bindings."""
    rows = await desk.db.read(lambda tx: tx.all(select(audit).order_by(audit.c.id)))
    found = [row for row in rows if row.event_type in {"eab.use", "eab.reject", "security.violation"}]
    assert all((row.service, row.sub) == ("ca", "kid-1") for row in found)
    return [(row.event_type, row.outcome, row.detail) for row in found]


async def refused(desk: Any, request: BindingRequest) -> Problem:
    with pytest.raises(Problem) as found:
        await desk.bind(request)
    return found.value


async def test_ca_013_ca_014_ca_098_ca_124_ca_197_a_good_binding_uses_the_key_and_gives_what_it_grants(shared: Any) -> None:
    await shared.db.write(lambda tx: tx.put(t.KEY, "kid-1", profile_grants='["one","two"]', bound_principal="alice@EXAMPLE.ORG"))
    request = shared.sent()

    bound = await shared.bind(request)

    assert (bound.profile_grants, bound.kerberos_principal) == (("one", "two"), "alice@EXAMPLE.ORG")
    assert bound.echo == request.value
    key = await shared.db.read(shared.keys.find, "kid-1")
    assert key is not None
    assert key.used_at is not None
    assert await events(shared) == [("eab.use", "success", None)]


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
async def test_ca_119_each_mac_has_its_hash(desk: Any, alg: str) -> None:
    assert (await desk.bind(desk.sent(alg=alg))).profile_grants is None


async def test_ca_122_the_payload_may_order_its_members_as_it_likes(desk: Any) -> None:
    request = desk.sent()
    turned = orjson.dumps(dict(reversed(request.jwk.items()))) + b" "

    assert await desk.bind(
        msgspec.structs.replace(request, value=desk.flattened({"alg": "HS256", "kid": "kid-1", "url": URL}, turned, KEY))
    )


WRONG: Mapping[str, tuple[dict[str, Any], type[Problem], str]] = {
    "no kid": ({"kid": None}, BadRequest, "no kid"),
    "an empty kid": ({"kid": ""}, BadRequest, "no kid"),
    "a number as kid": ({"kid": 7}, BadRequest, "no kid"),
    "unknown kid": ({"kid": "kid-2"}, Unauthorized, "unknown"),
    "no alg of ours": ({"alg": "none"}, BadRequest, "HS256, HS384, HS512"),
    "a signature": ({"alg": "RS256"}, BadRequest, "HS256, HS384, HS512"),
    "another hash": ({"alg": "HS1"}, BadRequest, "HS256, HS384, HS512"),
    "alg in lower case": ({"alg": "hs256"}, BadRequest, "HS256, HS384, HS512"),
    "another url": ({"url": f"{URL}/"}, Unauthorized, "url"),
    "no url": ({"url": None}, Unauthorized, "url"),
    "a nonce": ({"nonce": "AAAA"}, BadRequest, "nonce"),
    "another key": ({"payload": ANOTHER}, Unauthorized, "payload"),
    "no key": ({"payload": b"{}"}, Unauthorized, "payload"),
    "no JSON": ({"payload": b"x"}, Unauthorized, "payload"),
    "another HMAC key": ({"key": b"x" * 32}, Unauthorized, "MAC"),
    "the empty HMAC key": ({"key": b""}, Unauthorized, "MAC"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_s111_ca_117_ca_120_ca_121_ca_122_r6_what_is_wrong_binds_nobody_and_uses_nothing_up(desk: Any, what: str) -> None:
    changes, kind, said = WRONG[what]

    problem = await refused(desk, desk.sent(**changes))

    assert type(problem) is kind
    assert problem.detail.startswith("externalAccountBinding: ")
    assert said in problem.detail
    assert await desk.bind(desk.sent())


@pytest.mark.parametrize("value", ["x", 7, [], True, {}, {"protected": "e30", "payload": "", "signature": ""}])
async def test_a_member_that_is_no_jws_is_malformed(desk: Any, value: Any) -> None:
    problem = await refused(desk, msgspec.structs.replace(desk.sent(), value=value))

    assert isinstance(problem, BadRequest)
    assert problem.detail.startswith("externalAccountBinding: ")


async def test_ca_122_a_private_key_is_no_public_one(desk: Any) -> None:
    request = desk.sent()
    private = orjson.dumps({**request.jwk, "d": "AAAA"})
    changed = msgspec.structs.replace(request, value=desk.flattened({"alg": "HS256", "kid": "kid-1", "url": URL}, private, KEY))

    assert isinstance(await refused(desk, changed), Unauthorized)


@pytest.mark.parametrize("cut", [0, 1, 16, 31])
async def test_s111_ca_123_ca_198_ca_199_r5_a_mac_that_is_cut_is_told_to_the_audit_log(desk: Any, cut: int) -> None:
    request = desk.sent()
    mac = b64url_encode(b64url_decode(request.value["signature"])[:cut])

    problem = await refused(desk, msgspec.structs.replace(request, value={**request.value, "signature": mac}))

    assert isinstance(problem, Unauthorized)
    assert await events(desk) == [
        ("eab.reject", "failure", None),
        ("security.violation", "failure", "the EAB HMAC verification failed"),
    ]
    assert await desk.bind(request)


async def test_r5_other_refusals_are_no_events(desk: Any) -> None:
    for changes, _, said in WRONG.values():
        if said != "MAC":
            await refused(desk, desk.sent(**changes))

    assert await events(desk) == []


ORDER: tuple[dict[str, Any], ...] = (
    {"kid": "kid-2"}, {"alg": "none"}, {"url": "x"}, {"payload": b"{}"}, {"key": b"x" * 32},
)  # fmt: skip
"""What one may get wrong, in the order of the checks."""


async def test_ca_118_ca_125_ca_204_the_first_check_that_fails_answers(desk: Any) -> None:
    said = [(await refused(desk, desk.sent(**one))).detail for one in ORDER]
    assert len(set(said)) == len(ORDER)
    for first, detail in enumerate(said):
        mixed = {name: value for later in ORDER[first:] for name, value in later.items()}
        assert (await refused(desk, desk.sent(**mixed))).detail == detail

    place = {"table": "eab_key", "row": "kid-1", "field": "hmac_key_b64u"}
    await desk.db.write(lambda tx: tx.put(t.KEY, "kid-1", hmac_key_b64u=desk.host.keys.seal(b"not base64!", **place)))
    unreadable = await refused(desk, desk.sent(alg="none", url="x", payload=b"{}", key=b"x" * 32))
    assert isinstance(unreadable, BadRequest)
    assert "cannot be read" in unreadable.detail


async def test_s111_ca_013_ca_117_r4_a_key_that_was_used_is_good_for_nobody(shared: Any) -> None:
    request = shared.sent()
    await shared.bind(request)

    for again in (request, shared.sent(), shared.sent(key=b"x" * 32)):
        problem = await refused(shared, again)
        assert isinstance(problem, Unauthorized)
        assert "used" in problem.detail
    assert [one[0] for one in await events(shared)] == ["eab.use"]


async def test_ca_100_ca_205_r4_what_lost_inside_of_the_transaction_is_a_conflict(shared: Any) -> None:
    """The row of the key has not heard yet that it was used; the row of the use decides."""
    await shared.db.write(lambda tx: tx.run(insert_new(t.use), kid="kid-1", used_at=tx.now))

    problem = await refused(shared, shared.sent())

    assert isinstance(problem, Conflict)
    assert problem.status == 409
    assert await events(shared) == []


async def test_s111_fifty_accounts_at_once_and_one_is_bound(shared: Any) -> None:
    answers = await asyncio.gather(*(shared.bind(shared.sent()) for _ in range(50)), return_exceptions=True)

    lost = [one for one in answers if isinstance(one, Exception)]
    assert len(lost) == 49
    assert {type(one) for one in lost} <= {Unauthorized, Conflict}
    assert await events(shared) == [("eab.use", "success", None)]


async def test_the_kid_names_the_node_that_decides(desk: Any) -> None:
    assert desk.binding.owner(desk.sent()) == desk.host.node_id
    assert desk.binding.owner(msgspec.structs.replace(desk.sent(), value={"protected": "e30"})) is None


@pytest.mark.parametrize("required", [True, False])
async def test_whether_a_binding_is_needed_is_a_setting(open_desk: Any, required: bool) -> None:
    assert (await open_desk(external_account_required=required)).binding.required is required


class TestAnyBinding(ParserContract):
    """The protected header, the payload and the MAC."""

    valid = (orjson.dumps({"alg": "HS256", "kid": "kid-1", "url": URL}), ANOTHER, bytes(32))
    refusals = BadJws

    def read(self, *parts: bytes) -> None:
        """It is a binding or no JWS; what it is for and who made it can be asked of every binding."""
        value = dict(zip(("protected", "payload", "signature"), map(b64url_encode, parts), strict=True))
        kid, jws = read_binding(value)
        assert kid
        assert kid == jws.header["kid"]
        assert not is_for_key(jws, "t" * 43)
        assert jws.alg not in HASHES or not is_by_key(jws, b"x" * 32)


class TestAnyMember(ParserContract):
    """The member as JSON, of any shape."""

    valid = (orjson.dumps({"protected": b64url_encode(b'{"alg":"HS256","kid":"kid-1"}'), "payload": "e30", "signature": "AAAA"}),)
    refusals = (BadJws, ValueError)

    def read(self, *parts: bytes) -> None:
        read_binding(decode_json(parts[0]))
