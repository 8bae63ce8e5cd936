"""PAGES, DIRECTORIES, NEGOTIATE, FAMILIES and AUTHORIZATIONS of unit tests keep what their Protocols promise."""

import msgspec
import pytest

from greatseal.api.authorization import Extension, Shown, Wish
from greatseal.api.clients import Client, ClientMatch, Proof, ProvenRequest
from greatseal.api.declarations import Secret
from greatseal.api.directory import DirectoryUnavailable, User
from greatseal.api.http import Parameters
from greatseal.api.identity import Continue
from greatseal.api.kerberos import Absent, Accepted, NegotiateRefused, PasswordVerdict, Unusable
from greatseal.api.problems import BadRequest, NotFound, PayloadTooLarge, Unavailable
from greatseal.api.store import Refuse
from greatseal.api.tokens import Authentication, Granted, InvalidScope
from greatseal.http.csrf import ForeignOrigin
from greatseal.testing.calls import FakeCall
from greatseal.testing.directories import FakeDirectories
from greatseal.testing.extensions import FakeAuthorizations
from greatseal.testing.negotiate import FakeNegotiator, FakeTickets
from greatseal.testing.pages import FakePages
from greatseal.testing.store import open_test_database
from greatseal.testing.tokens import FakeFamilies

# ---- PAGES

TEMPLATE = """{% extends "base.html" %}{% block title %}Device{% endblock %}
{% block main %}<form action="{{ prefix }}/device">{{ words }}<input name="form_token" value="{{ form_token }}"></form>{% endblock %}"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with the template device.html."""
    templates = tmp_path / "a_plugin_with_pages" / "templates"
    templates.mkdir(parents=True)
    (templates.parent / "__init__.py").touch()
    (templates / "device.html").write_text(TEMPLATE)
    monkeypatch.syspath_prepend(tmp_path)
    return templates.parent.name


def test_a_page_is_its_template_with_everything_escaped(package):
    pytest.importorskip("jinja2")
    pages = FakePages(prefix="/idp")

    reply = pages.page(FakeCall(), f"{package}/device.html", words="<b>", script="start()", form_targets=["https://a.example"])

    page = reply.body.decode()
    assert "&lt;b&gt;" in page
    assert '<form action="/idp/device">' in page
    assert f'value="{pages.token}"' in page
    assert "<script>start()</script>" in page
    assert "form-action 'self' https://a.example" in dict(reply.headers)["Content-Security-Policy"]
    assert pages.shown[f"{package}/device.html"] == {"words": "<b>"}


def test_a_value_or_a_template_that_is_missing_is_a_mistake(package):
    jinja2 = pytest.importorskip("jinja2")
    with pytest.raises(jinja2.UndefinedError):
        FakePages().page(FakeCall(), f"{package}/device.html")
    for template in (f"{package}/another.html", "no_such_package/a.html"):
        with pytest.raises(LookupError):
            FakePages().page(FakeCall(), template)


@pytest.mark.parametrize(
    ("headers", "token"),
    [((), "x"), ((), None), ((("Origin", "https://evil.example"),), "right"), ((("Sec-Fetch-Site", "cross-site"),), "right")],
)
def test_a_form_of_another_page_is_refused(headers, token):
    pages = FakePages()
    good = Parameters([("form_token", pages.form_token(FakeCall())[0])])
    pages.check_form(FakeCall("POST", headers=[("Origin", pages.origin)]), good)

    form = good if token == "right" else Parameters([] if token is None else [("form_token", token)])
    with pytest.raises(ForeignOrigin):
        pages.check_form(FakeCall("POST", headers=headers), form)


def test_a_refusal_is_said_as_the_caller_reads():
    pages, gone = FakePages(prefix="/idp"), NotFound("no device waits")

    assert pages.refusal(gone, {"Accept": "text/html,*/*"}).body == b"no device waits"
    assert msgspec.json.decode(pages.refusal(gone, {"Accept": "*/*"}).body) == {
        "error": "not_found",
        "error_description": "no device waits",
    }
    assert dict(pages.see_other("/login").headers)["Location"] == "/idp/login"


# ---- DIRECTORIES


async def test_people_and_groups_are_those_of_one_home():
    alice, bob = (User(username=name, realm="EXAMPLE", source="ipa", groups=("staff",)) for name in ("alice", "bob"))
    directories = FakeDirectories(bob, alice, hosts={"a.example": frozenset({"web"})}, managed={"host/a@EXAMPLE": frozenset({"b"})})

    assert [await directories.user(name) for name in ("alice", "alice@EXAMPLE", "alice@OTHER", "carol")] == [alice, alice, None, None]
    assert await directories.users("", 1) == [alice]
    assert (await directories.group("staff")).members == ("alice", "bob")
    assert await directories.group("admins") is None
    assert (await directories.hostgroups_of("a.example"), await directories.hostgroups("", 9)) == ({"web"}, ["web"])
    assert await directories.managed_by("host/a@EXAMPLE") == {"b"}
    directories.down = True
    for asked in (directories.user("alice"), directories.group("staff"), directories.hostgroups_of("a.example")):
        with pytest.raises(DirectoryUnavailable):
            await asked


# ---- NEGOTIATE


def negotiating(token, call=None):
    call = call or FakeCall()
    call.headers["Authorization"] = f"Negotiate {token}"
    return call


async def test_a_token_is_the_name_of_a_principal():
    negotiator = FakeNegotiator("alice@EXAMPLE", legs=["bob@EXAMPLE"], indicators=("otp",))

    assert await negotiator.accept(FakeCall()) == Absent()
    accepted = await negotiator.accept(negotiating("alice@EXAMPLE"))
    assert (accepted.principal, accepted.indicators) == ("alice@EXAMPLE", ("otp",))
    call = negotiating("bob@EXAMPLE")
    assert isinstance(await negotiator.accept(call), Continue)
    assert isinstance(await negotiator.accept(negotiating("more", call)), Accepted)


async def test_what_does_not_authenticate_is_refused():
    negotiator = FakeNegotiator("alice@EXAMPLE", legs=["bob@EXAMPLE"])
    proxied = negotiating("bob@EXAMPLE")
    proxied.connection.trusted_proxy = True

    assert await negotiator.accept(proxied) == Continue(headers=(("WWW-Authenticate", "Negotiate"),))
    for call in (negotiating("carol@EXAMPLE"), negotiating("more"), negotiating("more", proxied)):
        with pytest.raises(NegotiateRefused):
            await negotiator.accept(call)
    with pytest.raises(PayloadTooLarge):
        await negotiator.accept(negotiating("x" * 50_000))
    negotiator.state = Unusable(reason="no keytab")
    with pytest.raises(Unavailable):
        await negotiator.accept(negotiating("alice@EXAMPLE"))


# ---- TICKETS


async def test_the_kdc_says_what_it_was_told():
    tickets = FakeTickets({"alice@EXAMPLE": "right"}, {"frank@EXAMPLE": PasswordVerdict.REVOKED})

    said = [
        await tickets.password(*one)
        for one in (("alice@EXAMPLE", Secret("right")), ("alice@EXAMPLE", Secret("x")), ("bob@EXAMPLE", Secret("x")))
    ]
    assert said == [PasswordVerdict.RIGHT, PasswordVerdict.WRONG, PasswordVerdict.UNKNOWN]
    assert await tickets.password("frank@EXAMPLE", Secret("any")) is PasswordVerdict.REVOKED
    assert tickets.credentials("ldap@localhost") is not None


async def test_a_kdc_that_is_down_says_nothing():
    tickets = FakeTickets({"alice@EXAMPLE": "right"})
    tickets.down = True

    with pytest.raises(Unavailable):
        await tickets.password("alice@EXAMPLE", Secret("right"))
    with pytest.raises(Unavailable):
        tickets.credentials("ldap@localhost")


# ---- FAMILIES


def granted(subject, client_id, session=None):
    signed_in = None if session is None else Authentication(auth_time=0, amr=("pwd",), acr=None, session_id=session)
    return Granted(subject=subject, client_id=client_id, scopes=("openid",), authentication=signed_in)


async def test_families_are_opened_and_ended_in_transactions(tmp_path):
    families = FakeFamilies()
    async with open_test_database(f"sqlite:///{tmp_path}/families.db") as store:

        def undone(tx):
            families.open(tx, granted("alice", "c1"))
            raise Refuse(BadRequest("undone"))

        with pytest.raises(BadRequest):
            await store.write(undone)
        assert families.live == {}

        one, two, three = [
            await store.write(families.open, granted(*who)) for who in (("alice", "c1"), ("alice", "c2", "s1"), ("bob", "c2"))
        ]
        assert set(families.live) == {one.id, two.id, three.id}
        assert [await store.write(lambda tx: families.revoke(tx, one.id, event_type="token_revoked")) for _ in range(2)] == [True, False]
        await store.write(lambda tx: families.revoke_of(tx, client_id="c2", session_id="s1"))
        assert set(families.live) == {three.id}
        with pytest.raises(TypeError):
            await store.write(families.revoke_of)
        assert len({one.refresh_token, two.refresh_token, three.refresh_token}) == 3


# ---- AUTHORIZATIONS


class Colour(msgspec.Struct, frozen=True):
    name: str


class Colours(Extension[Colour]):
    name = "colours"
    kept_as = Colour
    repeatable = frozenset({"shade"})

    async def ask(self, ask):
        colour = ask.given.get("colour")
        return None if colour is None else Wish(kept=Colour(colour), acr=("high",), max_age=60, scopeless=True)

    async def shown(self, kept, subject):
        return [Shown(title=f"{kept.name} for {subject}")]


def asking(form):
    client = Client(client_id="c1", token_endpoint_auth_method="none", scopes=("openid", "email"))
    proof = Proof(confirmation="jkt", value="k")
    proven = {proof.confirmation: proof.value}
    match = ClientMatch(subject="c1")
    return ProvenRequest(call=FakeCall("POST"), form=Parameters.parse(form), client=client, match=match, proofs=(proof,), proven=proven)


async def test_a_request_is_read_with_its_extensions():
    authorizations = FakeAuthorizations(Colours())

    plain = await authorizations.read(asking(b"scope=openid+admin"), "device")
    coloured = await authorizations.read(asking(b"colour=red&shade=1&shade=2"), "device")

    assert (plain.client_id, plain.scopes, plain.more) == ("c1", ("openid",), {})
    assert (coloured.scopes, coloured.acr, coloured.max_age, coloured.more) == ((), (("high",),), 60, {"colours": {"name": "red"}})
    assert await authorizations.shown(coloured, "alice") == [Shown(title="red for alice")]
    assert await authorizations.shown(plain, "alice") == []
    with pytest.raises(InvalidScope):
        await authorizations.read(asking(b"scope=admin"), "device")
    with pytest.raises(BadRequest, match="given twice"):
        await authorizations.read(asking(b"colour=red&colour=blue"), "device")
