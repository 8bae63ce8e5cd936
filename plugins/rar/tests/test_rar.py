"""What may be asked for, what the person reads, and what tokens say. Over HTTP: tests/system/test_rar.py."""

import itertools
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greatseal.api.authorization import Ask, Granting, Terms
from greatseal.api.clients import Client, InvalidClientMetadata, Registration
from greatseal.api.details import InvalidAuthorizationDetails, is_less
from greatseal.api.http import Parameters
from greatseal.testing.details import DetailTypeContract
from greatseal.testing.extensions import ExtensionContract, wish_of
from greatseal_rar.declared import Declared
from greatseal_rar.extension import Details, RichAuthorization
from greatseal_rar.matching import is_covered
from greatseal_rar.settings import Declaration, DetailSettings

PAYMENT = {
    "type": "payment",
    "sentence": "Pay {amount.value} {amount.currency} to {creditor}",
    "lines": ["For: {purpose}", "You may: {actions}"],
    "members": {
        "amount": {
            "type": "object",
            "required": True,
            "members": {
                "value": {"type": "decimal", "required": True},
                "currency": {"required": True, "values": ["EUR", "CHF"]},
                "rate": {"type": "integer"},
            },
        },
        "creditor": {"required": True},
        "purpose": {},
        "instant": {"type": "boolean"},
        "actions": {"type": "list of text", "values": ["start", "cancel", "status"]},
        "locations": {"type": "list of text"},
    },
}
LOGS = {
    "type": "logs",
    "sentence": "Read logs",
    "members": {"days": {"type": "integer"}, "actions": {"type": "list of text"}},
    "without_person": True,
}
PLAIN = {"type": "payment", "amount": {"value": "12.50", "currency": "EUR"}, "creditor": "Bob"}
WHOLE = {
    **PLAIN,
    "amount": {"value": "0.1", "currency": "CHF", "rate": -3},
    "purpose": "rent",
    "instant": True,
    "actions": ["start", "cancel"],
    "locations": ["https://bank.example/"],
}
CLIENT = Client(
    client_id="c1",
    token_endpoint_auth_method="client_secret_basic",
    scopes=("openid",),
    more={"authorization_details_types": ["payment", "logs"]},
)


def declaration(**changes):
    return msgspec.convert({**PAYMENT, **changes}, Declaration)


class FakeHost:
    """A host with components alone."""

    def __init__(self, *types):
        self.types = {one.name: one for one in types}

    def components(self, _contract):
        return self.types


def rar(*declarations):
    found = declarations or (PAYMENT, LOGS)
    return RichAuthorization(FakeHost(*(Declared(msgspec.convert(one, Declaration)) for one in found)))


class TestDeclared(DetailTypeContract):
    good = (PLAIN, WHOLE)
    refused = (
        {"type": "payment"},
        {**PLAIN, "amount": {"value": "12.50"}},
        {**PLAIN, "amount": {"value": "12.50", "currency": "USD"}},
        {**PLAIN, "amount": {"value": "12.50", "currency": "EUR", "more": 1}},
        {**PLAIN, "amount": {"value": 12.5, "currency": "EUR"}},
        {**PLAIN, "amount": {"value": "-1", "currency": "EUR"}},
        {**PLAIN, "amount": {"value": "1e3", "currency": "EUR"}},
        {**PLAIN, "amount": {"value": "1", "currency": "EUR", "rate": True}},
        {**PLAIN, "amount": {"value": "1", "currency": "EUR", "rate": 2**53}},
        {**PLAIN, "amount": [{"value": "12.50", "currency": "EUR"}]},
        {**PLAIN, "creditor": ""},
        {**PLAIN, "creditor": "Bob\u202egnp.exe"},
        {**PLAIN, "creditor": "Bob\nPay 1"},
        {**PLAIN, "creditor": "x" * 501},
        {**PLAIN, "instant": 1},
        {**PLAIN, "actions": []},
        {**PLAIN, "actions": None},
        {**PLAIN, "actions": ["start", "start"]},
        {**PLAIN, "actions": ["delete"]},
        {**PLAIN, "locations": [1]},
        {**PLAIN, "locations": [str(number) for number in range(101)]},
        {**PLAIN, "iban": "DE1"},
    )
    less = (({**PLAIN, "actions": ["cancel"]}, {**PLAIN, "actions": ["start", "cancel"]}),)

    def detail_type(self):
        return Declared(declaration())


class TestRichAuthorization(ExtensionContract):
    parameters = (("authorization_details", json.dumps([PLAIN, {"type": "logs", "days": 3}])),)
    client = CLIENT

    def extension(self):
        return rar()


async def ask(text, *, at="authorize", client=CLIENT):
    given = Parameters([("authorization_details", text if isinstance(text, str) else json.dumps(text))])
    wish = await wish_of(rar(), Ask(at=at, client=client, given=given, sent=given, remote="192.0.2.1"))
    return wish.kept.details


def granted(kept, asked, *, basis="authorization", exchanged=None, client=CLIENT, extension=None):
    granting = Granting(
        grant_type="authorization_code", client=client, subject="ada", cnf=None, proven={}, basis=basis,
        exchanged={} if exchanged is None else {"authorization_details": exchanged},
    )  # fmt: skip
    held, wanted = (None if one is None else Details(details=tuple(one)) for one in (kept, asked))
    terms = (extension or rar()).grant(held, wanted, Terms(scopes=(), claims={"act": 1}, members={"x": 1}), granting)
    assert terms.claims.pop("act") == terms.members.pop("x") == 1
    assert terms.claims == terms.members
    return list(terms.claims.get("authorization_details", ()))


# ---- What a request may say


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "an array of objects"),
        ("[1]", "an array of objects"),
        ("[[]]", "an array of objects"),
        ("[]", "1 to 100 objects"),
        (json.dumps([{"type": "logs"}] * 101), "1 to 100 objects"),
        ("[", "not JSON"),
        ('[{"type":"logs","type":"payment"}]', "a member twice"),
        ('[{"type":"logs","days":NaN}]', "not JSON"),
        ('[{"type":"logs","days":1e999}]', "range of a double"),
        ('[{"type":"logs","days":99999999999999999999}]', "64 bits"),
        ('[{"type":"logs","actions":["\\ud800"]}]', "lone surrogate"),
        (f'[{{"type":"logs","days":{"[" * 8}{"]" * 8}}}]', "deeper than 9"),
        (f'[{{"type":"logs"{" " * 33_000}}}]', "at most 32768 bytes"),
        ("[{}]", "[0]: type is required"),
        ('[{"type":1}]', "[0]: type is required"),
        ('[{"type":"logs"},{"type":"zq7"}]', "[1]: the type is not offered here (RFC 9396 s5)"),
        ('[{"type":"logs","zq7":1}]', "[0]: it has a member that the type does not declare"),
        ('[{"type":"logs","days":"zq7"}]', "[0]: days: expected an integer"),
        ('[{"type":"payment","creditor":"zq7","amount":{"value":"1"}}]', "[0]: amount.currency is required"),
        ('[{"type":"payment","creditor":"zq7","amount":{"value":"1","currency":"zq7"}}]', "amount.currency: expected one of EUR, CHF"),
        ('[{"type":"payment","creditor":"x","amount":{"value":"1","currency":"EUR","zq7":1}}]', "[0]: amount has a member"),
    ],
)
@pytest.mark.parametrize("at", ["par", "token"])
async def test_what_no_type_declares_is_refused_by_its_rule_and_repeats_nothing(text, said, at):
    with pytest.raises(InvalidAuthorizationDetails) as refused:
        await ask(text, at=at)

    assert said in refused.value.detail
    assert "zq7" not in refused.value.detail
    assert refused.value.error == "invalid_authorization_details"


@pytest.mark.parametrize("detail", TestDeclared.refused)
def test_a_detail_that_breaks_its_declaration_is_refused(detail):
    with pytest.raises(InvalidAuthorizationDetails, match=r"\(RFC 9396 s5\)"):
        Declared(declaration()).check(detail, CLIENT)


async def test_who_asks_for_no_details_gets_none():
    nothing = Parameters([("scope", "openid")])

    assert await wish_of(rar(), Ask(at="token", client=CLIENT, given=nothing, sent=nothing, remote="192.0.2.1")) is None


async def test_a_client_asks_for_the_types_that_it_is_registered_for():
    for types in (["payment"], []):
        client = msgspec.structs.replace(CLIENT, more={"authorization_details_types": types})
        with pytest.raises(InvalidAuthorizationDetails, match=r"authorization_details_types of this client \(RFC 9396 s10\)"):
            await ask([{"type": "logs"}], client=client)


def test_a_client_is_registered_with_types_that_are_offered():
    def check(*types, of=False):
        client = msgspec.structs.replace(CLIENT, more={"authorization_details_types": list(types)})
        rar().check(Registration(client=client, open=of))

    check("payment", "logs")
    check("payment", of=True)
    with pytest.raises(InvalidClientMetadata, match="not offered here"):
        check("payment", "other")
    with pytest.raises(InvalidClientMetadata, match="only an administrator"):
        check("logs", of=True)


texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
)
names = st.sampled_from(["type", "amount", "creditor", "purpose", "instant", "actions", "locations", "days"]) | texts
details = st.dictionaries(names, st.sampled_from(["payment", "logs", ["start"], PLAIN["amount"], 1, True]) | values)


@pytest.mark.timeout(600)  # 10,000 texts in make test-faults
@given(
    st.lists(details | values, max_size=4).map(json.dumps)
    | st.text()
    | st.lists(st.just(PLAIN) | st.just(WHOLE), min_size=1).map(json.dumps)
)
async def test_any_text_is_read_or_refused(text):
    """What is read is read again from what rests with the code, is told to the person, and is no more than itself."""
    try:
        found = await ask(text) if text else ()
    except InvalidAuthorizationDetails as problem:
        found, said = (), problem.detail
        assert said.startswith("authorization_details")
    kept = msgspec.json.decode(msgspec.json.encode(Details(details=found)), type=Details)
    assert list(kept.details) == json.loads(text) if found else not kept.details
    shown = await rar().shown(kept, "ada")
    assert all(line.isprintable() for one in shown for line in (one.title, *one.lines))
    assert granted(kept.details, None) == granted(kept.details, found or None) == list(found)


# ---- What the person reads


async def test_the_person_reads_every_value_in_words_each_time():
    plain, whole = await rar().shown(Details(details=(PLAIN, WHOLE)), "ada")

    assert (plain.title, plain.lines, plain.remember) == ("Pay 12.50 EUR to “Bob”", (), None)
    assert whole.title == "Pay 0.1 CHF to “Bob”"
    assert whole.lines == (
        "For: “rent”", "You may: start, cancel", "amount.rate: -3", "instant: yes", "locations: “https://bank.example/”",
    )  # fmt: skip


async def test_a_value_is_neither_a_place_nor_a_part_of_the_sentence():
    detail = {**PLAIN, "creditor": "{amount.value} {0.__class__} %s ${x}” for free", "purpose": "{creditor}"}

    (shown,) = await rar().shown(Details(details=(detail,)), "ada")

    assert shown.title == 'Pay 12.50 EUR to “{amount.value} {0.__class__} %s ${x}" for free”'
    assert shown.lines == ("For: “{creditor}”",)


async def test_a_type_that_is_gone_while_the_request_waits_refuses_it():
    with pytest.raises(InvalidAuthorizationDetails, match="not offered any more"):
        await rar(LOGS).shown(Details(details=(PLAIN,)), "ada")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sentence": "Pay {nobody}"}, r"sentence: \{nobody\} is no value"),
        ({"sentence": "Pay {amount}"}, r"sentence: \{amount\} is no value"),
        ({"sentence": "Pay {creditor.name}"}, "is no value"),
        ({"sentence": "Pay {amount.rate}"}, r"sentence: \{amount.rate\} is not required"),
        ({"sentence": "For {purpose}"}, "is not required"),
        ({"sentence": "Pay {"}, "a brace that is no place"),
        ({"sentence": "Pay {creditor!r}"}, "a brace that is no place"),
        ({"sentence": "Pay\nmore"}, "one line"),
        ({"lines": ["always"]}, "lines: each has a place"),
        ({"lines": ["{nobody}"]}, "is no value"),
        ({"members": {"type": {}}, "sentence": "x", "lines": []}, "type is always there"),
        ({"members": {"a b": {}}, "sentence": "x", "lines": []}, "letters, digits"),
        ({"members": {"a": {"type": "object"}}, "sentence": "x", "lines": []}, "and for no other"),
        ({"members": {"a": {"members": {"b": {}}}}, "sentence": "x", "lines": []}, "and for no other"),
        ({"members": {"a": {"type": "object", "members": {"b.c": {}}}}, "sentence": "x", "lines": []}, "letters, digits"),
        ({"members": {"actions": {}}, "sentence": "x", "lines": []}, 'actions has the type "list of text"'),
        ({"members": {"a": {"type": "boolean", "values": ["x"]}}, "sentence": "x", "lines": []}, "values: given for"),
        ({"members": {"a": {"values": ["x\ny"]}}, "sentence": "x", "lines": []}, "values: expected texts in one line"),
        (
            {"members": {"a": {"type": "object", "members": {"b": {"type": "integer", "values": ["1"]}}}}, "sentence": "x", "lines": []},
            "values: given for",
        ),
    ],
)
def test_a_declaration_that_cannot_be_told_is_refused_at_the_start(changes, said):
    with pytest.raises(msgspec.ValidationError, match=said):
        declaration(**changes)


def test_a_type_is_declared_once():
    with pytest.raises(ValueError, match="'logs' is declared twice"):
        DetailSettings(authorization_details=(msgspec.convert(LOGS, Declaration), msgspec.convert(LOGS, Declaration)))


# ---- What narrows, and what tokens say


@pytest.mark.parametrize(
    ("part", "whole", "less"),
    [
        ({"a": [1, 2]}, {"a": [2, 1, 3]}, True),
        ({"a": []}, {"a": []}, True),
        ({"a": []}, {"a": [1]}, False),
        ({"a": [1, 1]}, {"a": [1]}, False),
        ({}, {"a": [1]}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1.0}, {"a": 1}, False),
        ({"a": [True]}, {"a": [1, 2]}, False),
        ({"a": {"b": [1]}}, {"a": {"b": [1, 2]}}, False),
        ({"a": {"b": [1]}}, {"a": {"b": [1]}}, True),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, False),
        ({"a": "x"}, {"a": ["x"]}, False),
    ],
)
def test_less_is_the_same_but_for_lists(part, whole, less):
    assert is_less(part, whole) is less


def test_one_that_was_granted_stands_for_one_that_is_asked_for():
    types = {"logs": Declared(msgspec.convert(LOGS, Declaration))}
    both, read, write = ({"type": "logs", "actions": actions} for actions in (["r", "w"], ["r"], ["w"]))

    assert is_covered([read, both], [both, both], types)
    assert not is_covered([both, both], [both], types), "one payment would become two"
    assert not is_covered([read, write], [both], types)
    for asked in itertools.permutations([read, write, both]):
        assert is_covered(asked, [both, both, both], types)
        assert is_covered(asked, [both, write, read], types)
        assert not is_covered(asked, [write, write, both], types)


@pytest.mark.parametrize(
    ("kept", "asked", "basis", "exchanged", "said"),
    [
        ([PLAIN, WHOLE], None, "authorization", None, [PLAIN, WHOLE]),
        ([PLAIN, WHOLE], [PLAIN], "authorization", None, [PLAIN]),
        ([WHOLE], [{**WHOLE, "actions": ["start"]}], "authorization", None, [{**WHOLE, "actions": ["start"]}]),
        (None, None, "authorization", None, []),
        (None, [{"type": "logs"}], "client", None, [{"type": "logs"}]),
        (None, None, "client", None, []),
        (None, None, "exchange", [PLAIN, WHOLE], [PLAIN, WHOLE]),
        (None, [PLAIN], "exchange", [PLAIN, WHOLE], [PLAIN]),
        (None, None, "exchange", None, []),
        (None, None, "exchange", "[]", []),
        (None, None, "exchange", [PLAIN, 1, {"type": "other"}, {"type": "payment"}, {}], [PLAIN]),
    ],
)
def test_a_token_says_what_was_authorized_or_less(kept, asked, basis, exchanged, said):
    assert granted(kept, asked, basis=basis, exchanged=exchanged) == said


@pytest.mark.parametrize(
    ("kept", "asked", "basis", "exchanged"),
    [
        (None, [PLAIN], "authorization", None),
        ([PLAIN], [WHOLE], "authorization", None),
        ([PLAIN], [PLAIN, PLAIN], "authorization", None),
        ([{**PLAIN, "actions": ["start"]}], [{**PLAIN, "actions": ["start", "cancel"]}], "authorization", None),
        ([PLAIN], [{**PLAIN, "amount": {"value": "12.51", "currency": "EUR"}}], "authorization", None),
        (None, [PLAIN], "exchange", None),
        (None, [PLAIN], "exchange", [WHOLE]),
    ],
)
def test_no_token_request_widens(kept, asked, basis, exchanged):
    with pytest.raises(InvalidAuthorizationDetails, match="or less of it"):
        granted(kept, asked, basis=basis, exchanged=exchanged)


def test_what_needs_a_person_no_client_gets_for_itself():
    with pytest.raises(InvalidAuthorizationDetails, match="needs a person"):
        granted(None, [{"type": "logs"}, PLAIN], basis="client")


def test_what_was_taken_from_the_client_is_in_no_new_token():
    fewer = msgspec.structs.replace(CLIENT, more={"authorization_details_types": ["logs"]})

    for changes in ({"client": fewer}, {"extension": rar(LOGS)}):
        assert granted([PLAIN, {"type": "logs"}], None, **changes) == [{"type": "logs"}]
        with pytest.raises(InvalidAuthorizationDetails, match="any more"):
            granted([PLAIN], None, **changes)
        with pytest.raises(InvalidAuthorizationDetails, match="or less of it"):
            granted([PLAIN, {"type": "logs"}], [PLAIN], **changes)
        assert granted(None, None, basis="exchange", exchanged=[PLAIN], **changes) == []
