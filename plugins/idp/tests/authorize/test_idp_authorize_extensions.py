"""Extensions of the authorization request: every promise of their phases, two at once, and what becomes of one that is gone."""

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote, urlencode

import msgspec
import pytest

from greatseal.api.authorization import Extension, ResponseMode, Shown, Wish
from greatseal.api.clients import Client, InvalidClientMetadata, Proof
from greatseal.api.http import Discovery, Handler, Parameters, Reply, Route
from greatseal.api.problems import BadRequest, StartProblem
from greatseal.api.services import AUTHORIZATIONS, CLIENTS
from greatseal.api.tokens import Grant, Granted, InvalidGrant, InvalidTarget, TokenBinding
from greatseal.testing import FakeClock
from greatseal.testing.desk import CALLBACK, members_of
from greatseal.testing.extensions import ExtensionContract
from greatseal_idp import tables as t


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    colours: tuple[str, ...]


class ColourFields(msgspec.Struct, frozen=True, kw_only=True):
    colours_allowed: tuple[str, ...] = ("red", "green", "blue")


class Colours(Extension[Kept]):
    """What the token may be painted with: authorized, shown, and narrowed at the token endpoint."""

    name = "colours"
    kept_as = Kept
    fields = ColourFields
    repeatable = frozenset({"colour"})
    claims = frozenset({"colours"})

    async def ask(self, ask: Any) -> Any:
        named = ask.given.all("colour")
        allowed = ask.client.more.get("colours_allowed", ("red", "green", "blue"))
        if not set(named) <= set(allowed):
            raise InvalidTarget("this colour is not to be had")
        return Wish(kept=Kept(colours=named)) if named else None

    async def shown(self, kept: Kept, subject: str) -> Any:
        if "blue" in kept.colours:
            raise InvalidTarget(f"nothing is blue for {subject}")
        return [Shown(title="<Paint>", lines=(one,), remember=None if one == "red" else one) for one in kept.colours]

    def grant(self, kept: Kept | None, asked: Kept | None, terms: Any, granting: Any) -> Any:
        authorized = kept.colours if kept else ()
        named = asked.colours if asked else authorized
        if granting.basis == "authorization" and not set(named) <= set(authorized):
            raise InvalidTarget("this colour was not authorized")
        if not named:
            return terms
        scopes = tuple(scope for scope in terms.scopes if scope != "profile") if "green" in named else terms.scopes
        said = {"colours": list(named)}
        return msgspec.structs.replace(terms, scopes=scopes, claims={**terms.claims, **said}, members={**terms.members, **said})


class Sizes(Extension[Kept]):
    """Another one, which sees what the first one made of it."""

    name = "sizes"
    order = 10
    claims = frozenset({"size"})

    def grant(self, kept: Any, asked: Any, terms: Any, granting: Any) -> Any:
        return msgspec.structs.replace(terms, claims={**terms.claims, "size": len(terms.claims.get("colours", ()))})


class TestColours(ExtensionContract):
    parameters = (("colour", "red"), ("colour", "green"))

    def extension(self) -> Any:
        return Colours()


@pytest.fixture
def ready(open_idp: Any, parts: Any, register_app: Any) -> Any:
    """``app = await ready(Colours(), ...)``: an application of a service with these extensions; ``app.cookie`` is alice's."""

    async def start(*components: object, client: Mapping[str, Any] | None = None, **sections: Any) -> Any:
        desk = await open_idp(parts(*components), **sections)
        app = await register_app(desk, **{"consent": "implicit", **(client or {})})
        app.cookie = await desk.cookie()
        return app

    return start


async def code_of(app: Any, **parameters: Any) -> str:
    answer = await app.ask(app.cookie, **parameters)
    return app.told(answer)["code"]


async def refresh(app: Any, token: str, **more: str) -> Any:
    form = {"grant_type": "refresh_token", "refresh_token": token, **more}
    return await app.desk.post("/token", data=form, headers=app.credentials)


def claims_of(app: Any, answer: Any) -> Any:
    assert answer.status == 200, answer.text
    claims = app.desk.provider.signing.verify(answer.json["access_token"], typ=frozenset({"at+jwt"}))
    assert claims is not None
    return claims


ALL = {"scope": "openid profile offline_access"}


async def test_what_was_authorized_rests_with_code_and_family_and_a_token_may_narrow_it(ready: Any) -> None:
    app = await ready(Sizes(), Colours())
    code = await code_of(app, colour="green", **ALL)

    first = await app.redeem(code)
    again = await refresh(app, token := first.json["refresh_token"], colour="green")
    plain = await app.redeem(await code_of(app, **ALL))

    claims = claims_of(app, first)
    assert (claims["colours"], claims["size"], claims["scope"]) == (["green"], 1, "openid offline_access")
    assert first.json["colours"] == ["green"]
    assert "profile" in (await app.desk.rows(t.family))[0].scopes, "the family keeps all"
    assert claims_of(app, again)["colours"] == ["green"]
    assert (claims_of(app, plain)["size"], "colours" in plain.json) == (0, False)
    shown = await app.desk.post("/introspect", data={"token": again.json["access_token"]}, headers=app.credentials)
    assert (shown.json["colours"], shown.json["size"], token != again.json["refresh_token"]) == (["green"], 1, True)


async def test_more_than_was_authorized_changes_nothing(ready: Any) -> None:
    app = await ready(Colours(), client={"grant_types": ["authorization_code", "refresh_token", "client_credentials"]})
    code = await code_of(app, colour="green", **ALL)

    widened = await app.redeem(code, colour="red")
    good = await app.redeem(code)
    token = good.json["refresh_token"]
    again = await refresh(app, token, colour="red")
    own = await app.desk.post(
        "/token", data={"grant_type": "client_credentials", "scope": "profile", "colour": "red"}, headers=app.credentials
    )

    for refused in (widened, again):
        assert (refused.status, refused.error) == (400, "invalid_target")
    assert good.status == 200, "the code stays good"
    assert (await refresh(app, token)).status == 200, "the refresh token stays current"
    assert claims_of(app, own)["colours"] == ["red"], "nobody authorized what a client asks for itself"


async def test_a_refusal_of_ask_is_told_as_the_place_does_and_is_no_replay(ready: Any) -> None:
    app = await ready(Colours())
    code = await code_of(app, **ALL)
    redeemed = await app.redeem(code)

    told = app.told(await app.ask(app.cookie, colour="black"))
    pushed = await app.push(colour="black")
    spent = await app.redeem(code, colour="black")

    assert (told["error"], told["state"]) == ("invalid_target", "st/a+te")
    assert pushed.outcome == spent.outcome == (400, "invalid_target")
    assert (await refresh(app, redeemed.json["refresh_token"])).status == 200, "the code was not looked at"


class Exchange(Grant[msgspec.Struct]):
    grant_type = "urn:exchange"

    async def prepare(self, request: Any) -> Granted:
        return Granted(subject="alice@LOCALHOST", client_id=request.client.client_id, scopes=("openid",), exchanged={"colours": ["x"]})


class Watching(Extension[Kept]):
    """Notes what it is asked."""

    name = "watching"

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.granted: list[Any] = []

    async def ask(self, ask: Any) -> Any:
        self.asked.append(ask)

    def grant(self, kept: Any, asked: Any, terms: Any, granting: Any) -> Any:
        self.granted.append(granting)
        return terms


async def test_every_grant_says_its_basis_and_every_place_is_asked(ready: Any) -> None:
    watching = Watching()
    grants = ["authorization_code", "refresh_token", "client_credentials", "urn:exchange"]
    app = await ready(watching, Exchange(), client={"grant_types": grants})

    first = await app.redeem(await code_of(app, **ALL))
    await refresh(app, first.json["refresh_token"])
    for grant in grants[2:]:
        await app.desk.post("/token", data={"grant_type": grant, "scope": "profile"}, headers=app.credentials)
    await app.push()

    bases = {one.grant_type: (one.basis, one.exchanged) for one in watching.granted}
    assert bases == {
        "authorization_code": ("authorization", {}),
        "refresh_token": ("authorization", {}),
        "client_credentials": ("client", {}),
        "urn:exchange": ("exchange", {"colours": ["x"]}),
    }
    assert [(one.at, one.grant_type) for one in watching.asked] == [("authorize", None), *(("token", one) for one in grants), ("par", None)]
    assert watching.asked[0].response_mode == "query"


class Widening(Colours):
    def grant(self, kept: Any, asked: Any, terms: Any, granting: Any) -> Any:
        return msgspec.structs.replace(terms, scopes=(*terms.scopes, "admin"))


class Undeclared(Colours):
    def grant(self, kept: Any, asked: Any, terms: Any, granting: Any) -> Any:
        return msgspec.structs.replace(terms, claims={"groups": ["admins"]})


class Forgetful(Colours):
    kept_as = None


class Longer(Colours):
    def grant(self, kept: Any, asked: Any, terms: Any, granting: Any) -> Any:
        return None


@pytest.mark.parametrize("broken", [Widening(), Undeclared(), Longer()], ids=lambda one: type(one).__name__)
async def test_an_extension_that_breaks_its_promise_gives_no_token_and_burns_no_code(ready: Any, broken: Any) -> None:
    app = await ready(broken)
    code = await code_of(app)

    answer = await app.redeem(code)

    assert (answer.status, "access_token" in answer.json) == (500, False)
    (row,) = await app.desk.rows(t.code)
    assert row.used_at is None


class Wishless(Colours):
    async def ask(self, ask: Any) -> Any:
        return Kept(colours=("red",))


@pytest.mark.parametrize("broken", [Forgetful(), Wishless()], ids=lambda one: type(one).__name__)
async def test_what_is_kept_is_of_the_declared_kind(ready: Any, broken: Any) -> None:
    app = await ready(broken)

    answer = await app.ask(app.cookie, colour="red")

    assert (answer.status, "Location" in answer.headers) == (500, False)


class Older(msgspec.Struct, frozen=True, kw_only=True):
    shades: int


@pytest.mark.parametrize(("kept_as", "status"), [(Older, 503), (None, 500)])
async def test_what_is_kept_and_cannot_be_read_any_more_is_no_token(ready: Any, kept_as: Any, status: int) -> None:
    colours = Colours()
    app = await ready(colours)
    code = await code_of(app, colour="green")

    colours.kept_as = kept_as
    refused = await app.redeem(code)
    colours.kept_as = Kept
    good = await app.redeem(code)

    assert (refused.status, good.status) == (status, 200)


class Greedy(Extension[Kept]):
    name = "greedy"
    kept_as = Kept

    async def ask(self, ask: Any) -> Any:
        return Wish(kept=Kept(colours=("x" * int(ask.given.get("much", "0")),)))


async def test_a_request_keeps_32_kib_at_most(ready: Any) -> None:
    app = await ready(Greedy())

    assert "code" in app.told(await app.ask(app.cookie, much="32000"))
    assert app.told(await app.ask(app.cookie, much="33000"))["error"] == "invalid_request"


async def test_an_extension_that_is_gone_is_503_and_nothing_is_used_up(
    ready: Any, open_idp: Any, fresh_database: Any, tmp_path: Any
) -> None:
    sections = {
        "database": {"url": fresh_database()},
        "cluster": {"key_file": str(tmp_path / "kept.key")},
        "clock": FakeClock(),
    }
    app = await ready(Colours(), Envelope(), **sections)
    uri = (await app.push(response_mode="wrapped", scope="openid")).json["request_uri"]
    token = (await app.redeem(await code_of(app, colour="green", **ALL))).json["refresh_token"]
    code = await code_of(app, colour="green", **ALL)
    await app.desk.service.stop()

    app.desk = await open_idp(**sections)
    gone = [await app.redeem(code), await refresh(app, token)]
    query = urlencode({"client_id": app.client_id, "request_uri": uri})
    plain = await app.desk.get(f"/authorize?{query}", cookie=await app.desk.cookie())
    await app.desk.service.stop()
    app.desk = await open_idp("parts0", **sections)
    back = [await app.redeem(code), await refresh(app, token)]

    assert [answer.status for answer in gone] == [503, 503]
    assert (plain.status, "Location" in plain.headers) == (503, False), "an answer is not sent in another way than was asked for"
    assert [claims_of(app, answer)["colours"] for answer in back] == [["green"], ["green"]]


class Keys(TokenBinding):
    """The key is what the header says: here nobody lies."""

    confirmation = "jkt"

    async def prove(self, request: Any) -> Any:
        sent = request.call.headers.get("Key")
        return sent and Proof(confirmation="jkt", value=sent, headers=(("Key-Nonce", "next"),))

    async def check(self, call: Any, text: str, token: Any, value: str) -> Any:
        return ()


class Codes(Extension[Kept]):
    """Binds a code to the key that /par saw."""

    name = "codes"
    kept_as = Kept

    async def ask(self, ask: Any) -> Any:
        return Wish(kept=Kept(colours=(ask.proven["jkt"],))) if ask.at == "par" and ask.proven else None

    def grant(self, kept: Kept | None, asked: Any, terms: Any, granting: Any) -> Any:
        if kept is not None and granting.grant_type == "authorization_code" and granting.proven.get("jkt") not in kept.colours:
            raise InvalidGrant("the code is bound to another key")
        return terms


async def test_a_code_is_bound_to_the_key_that_par_saw_by_an_extension(ready: Any) -> None:
    app = await ready(Keys(), Codes())

    pushed = await app.desk.post("/par", data=app.parameters(), headers={**app.credentials, "Key": "k1"})
    refused = await app.desk.post("/par", data=app.parameters(scope="nothing"), headers={**app.credentials, "Key": "k1"})
    query = urlencode({"client_id": app.client_id, "request_uri": pushed.json["request_uri"]})
    code = app.told(await app.desk.get(f"/authorize?{query}", cookie=app.cookie))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": app.VERIFIER}
    answers = [await app.desk.post("/token", data=form, headers={**app.credentials, **key}) for key in ({}, {"Key": "k2"}, {"Key": "k1"})]

    assert [answer.headers["Key-Nonce"] for answer in (pushed, refused, *answers[1:])] == ["next"] * 4
    assert [answer.outcome for answer in answers[:2]] == [(400, "invalid_grant")] * 2
    assert claims_of(app, answers[2])["cnf"] == {"jkt": "k1"}


# ---- The person


async def test_the_person_is_shown_what_is_asked_for_once_or_every_time(ready: Any) -> None:
    app = await ready(Colours(), client={"consent": "explicit"})

    await app.allowed(app.cookie)
    page, fields = await app.consent_of(app.cookie, colour="green")
    shown = await app.desk.get(f"/api/auth/consent?consent_id={fields['consent_id']}", cookie=app.cookie)
    app.told(await app.decide(app.cookie, fields))
    remembered = await app.ask(app.cookie, colour="green")
    another, _ = await app.consent_of(app.cookie, colour="red")
    await app.allowed(app.cookie, colour="red")
    always, _ = await app.consent_of(app.cookie, colour="red")

    assert "<li>&lt;Paint&gt;<small>green</small></li>" in page.text
    assert shown.json["details"] == [{"title": "<Paint>", "lines": ["green"]}]
    assert "code" in app.told(remembered)
    assert "<small>red</small>" in another.text
    assert "<small>red</small>" in always.text
    assert "colours" not in (await app.desk.get("/account", cookie=app.cookie)).text


async def test_what_cannot_be_shown_refuses_the_request_and_implicit_consent_shows_nothing(ready: Any, register_app: Any) -> None:
    app = await ready(Colours(), client={"consent": "explicit"})
    implicit = await register_app(app.desk, consent="implicit")

    assert app.told(await app.ask(app.cookie, colour="blue"))["error"] == "invalid_target"
    assert "code" in app.told(await implicit.ask(app.cookie, colour="blue"))


class StepUp(Extension[Kept]):
    name = "step-up"
    prompts: ClassVar[Mapping[str, str]] = {"create": "/ui/auth/sign-up"}

    async def ask(self, ask: Any) -> Any:
        acr, age = ask.given.get("need"), ask.given.get("age")
        return Wish(acr=(acr,) if acr else (), max_age=None if age is None else int(age), scopeless="bare" in ask.given)


async def test_an_extension_may_want_a_stronger_or_a_newer_sign_in(ready: Any) -> None:
    clock = FakeClock()
    app = await ready(StepUp(), clock=clock)

    leads = await app.ask(app.cookie, need="urn:strong", prompt="none")
    (acr,) = {row.acr for row in await app.desk.rows(t.session)}
    clock.advance(60)
    told = [
        app.told(await app.ask(app.cookie, prompt="none", **wanted))
        for wanted in ({"age": "30"}, {"age": "30", "max_age": "100"}, {"age": "100", "max_age": "30"}, {"age": "100"})
    ]

    assert acr != "urn:strong"
    assert app.told(leads)["error"] == "unmet_authentication_requirements"
    assert [one.get("error") for one in told] == ["login_required"] * 3 + [None]


async def test_a_value_of_prompt_leads_to_its_page_until_somebody_signs_in_there(ready: Any) -> None:
    app = await ready(StepUp())

    led = await app.ask(app.cookie, prompt="create")
    wrong = app.told(await app.ask(app.cookie, prompt="crate"))
    path, _, return_to = led.location.partition("?return_to=")
    done = await app.desk.get(unquote(return_to), cookie=await app.desk.cookie())

    assert (led.status, path) == (303, "/ui/auth/sign-up")
    assert wrong["error_description"] == "prompt: expected consent, create, login, none or select_account (OpenID Connect Core s3.1.2.1)"
    assert "code" in app.told(done)


async def test_a_request_may_go_without_scope_where_an_extension_says_so(ready: Any) -> None:
    app = await ready(StepUp())

    bare = await app.redeem(await code_of(app, scope=None, bare="1"))

    assert claims_of(app, bare)["scope"] == ""
    assert app.told(await app.ask(app.cookie, scope=None))["error"] == "invalid_scope"
    assert app.told(await app.ask(app.cookie, scope="nothing", bare="1"))["error"] == "invalid_scope"


# ---- How a request comes and goes


class Envelope(Extension[Kept]):
    """A whole request in one parameter, and answers in one member."""

    name = "envelope"
    opens = "request"
    response_modes: ClassVar[Mapping[str, ResponseMode]] = {"wrapped": "query", "form_post.wrapped": "form_post"}

    def __init__(self) -> None:
        self.opened = 0
        self.torn = False

    async def open(self, ask: Any) -> Parameters:
        self.opened += 1
        if ask.sent["request"] == "broken":
            raise BadRequest("the envelope is broken")
        return Parameters.parse(ask.sent["request"].encode())

    async def answer(self, answer: Any) -> Mapping[str, str]:
        if self.torn:
            raise BadRequest("nothing can be wrapped now")
        return {"response": "&".join(f"{name}={value}" for name, value in sorted(answer.members.items()))}


class Second(Envelope):
    name = "second"
    opens = "envelope"
    response_modes: ClassVar[Mapping[str, ResponseMode]] = {}


def inside(app: Any, **changes: str | None) -> str:
    return urlencode({"client_id": app.client_id, **app.parameters(**changes)})


async def test_only_what_is_inside_of_an_opened_parameter_counts(ready: Any) -> None:
    app = await ready(Envelope(), Second(), Colours())
    outer = dict.fromkeys(app.request)

    told = app.told(
        await app.ask(app.cookie, **{**outer, "client_id": app.client_id, "state": "outer", "request": inside(app, state="inner")})
    )
    pushed = await app.desk.post("/par", data={"request": inside(app, colour="black")}, headers=app.credentials)
    nested = app.told(await app.ask(app.cookie, request=inside(app, request="again")))
    twice = app.told(await app.ask(app.cookie, request=f"{inside(app)}&state=other"))
    double = app.told(await app.ask(app.cookie, request="x", envelope="y"))

    assert told["state"] == "inner"
    assert pushed.outcome == (400, "invalid_target"), "extensions see what is in force"
    assert nested["error"] == "request_not_supported"
    assert twice["error_description"] == "a parameter was given twice (RFC 6749 s3.1)"
    assert double["error_description"] == "envelope and request: a request has one of them"


async def test_an_envelope_that_is_broken_is_told_to_a_proven_address_alone(ready: Any) -> None:
    app = await ready(Envelope())

    told = app.told(await app.ask(app.cookie, request="broken"))

    assert told["error"] == "invalid_request"
    assert (await app.ask(app.cookie, request="broken", redirect_uri=None)).shown
    assert (await app.ask(app.cookie, request="broken", redirect_uri=None, scope="profile")).shown, "whose only address could do"
    assert (await app.ask(app.cookie, request="broken", redirect_uri="https://other.example/")).shown


async def test_an_opened_request_is_not_opened_again_after_a_post(ready: Any) -> None:
    envelope = Envelope()
    app = await ready(envelope)

    posted = await app.desk.post("/authorize", data={"client_id": app.client_id, "request": inside(app)})
    done = await app.desk.get(posted.location, cookie=app.cookie)

    assert "request" not in members_of(posted.location)
    assert "code" in app.told(done)
    assert envelope.opened == 1


async def test_an_answer_is_made_by_the_extension_of_its_mode_refusals_too_or_not_sent(ready: Any) -> None:
    envelope = Envelope()
    app = await ready(envelope)

    good = app.told(await app.ask(app.cookie, response_mode="wrapped"))
    refused = app.told(await app.ask(response_mode="wrapped", prompt="none"))
    posted = await app.ask(app.cookie, response_mode="form_post.wrapped")
    wrong = app.told(await app.ask(app.cookie, response_mode="torn"))
    envelope.torn = True
    shown = [await app.ask(app.cookie, response_mode="wrapped"), await app.ask(response_mode="wrapped", prompt="none")]

    assert set(good) == set(refused) == {"response"}
    assert "code=" in good["response"]
    assert "iss=" in refused["response"]
    assert "error=login_required" in refused["response"]
    assert 'name="response"' in posted.text
    assert 'name="code"' not in posted.text
    assert wrong["error_description"].startswith("response_mode: expected form_post, form_post.wrapped, fragment, query or wrapped")
    assert all(answer.shown for answer in shown)


async def test_discovery_tells_what_extensions_bring(ready: Any) -> None:
    keys = [Discovery("jwks", lambda number=number: {"keys": [{"kty": "EC", "kid": str(number)}]}) for number in range(2)]
    app = await ready(Envelope(), StepUp(), *keys)

    document = (await app.desk.get("/.well-known/openid-configuration")).json
    jwks = (await app.desk.get("/jwks")).json

    assert document["response_modes_supported"] == ["query", "fragment", "form_post", "wrapped", "form_post.wrapped"]
    assert document["prompt_values_supported"][-1] == "create"
    assert document["request_parameter_supported"] is True
    assert [key["kid"] for key in jwks["keys"]][-2:] == ["0", "1"]


class Sealing(Extension[Kept]):
    name = "sealing"

    async def seal(self, kind: str, client: Any, token: str) -> str:
        return f"{kind}:{client.client_id}:{token}"


async def test_every_jwt_for_a_client_is_sealed_last(ready: Any) -> None:
    app = await ready(Sealing(), Envelope(), client={"userinfo_signed_response_alg": "ES256"})

    tokens = (await app.redeem(await code_of(app))).json
    info = await app.desk.userinfo(tokens["access_token"])

    assert tokens["id_token"].startswith(f"id_token:{app.client_id}:ey")
    assert info.text.startswith(f"userinfo:{app.client_id}:ey")
    assert tokens["access_token"].startswith("ey")
    accept = {"Accept": "application/token-introspection+jwt", **app.credentials}
    shown = await app.desk.post("/introspect", data={"token": tokens["access_token"]}, headers=accept)
    assert shown.text.startswith(f"introspection:{app.client_id}:ey")
    told = app.told(await app.ask(app.cookie, response_mode="wrapped"))
    assert told["response"].startswith(f"authorization:{app.client_id}:code=")


# ---- Clients


class ProfileFields(msgspec.Struct, frozen=True, kw_only=True):
    profile: str = "default"


class Profile(Extension[Kept]):
    name = "profile"
    fields = ProfileFields

    def check(self, registration: Any) -> None:
        if registration.client.more.get("profile") == "strict" and registration.client.token_endpoint_auth_method == "none":
            raise InvalidClientMetadata("profile: strict is for clients that prove themselves")

    def complete(self, client: Client) -> Client:
        if client.more.get("profile") != "strict":
            return client
        more = {**client.more, "require_pushed_authorization_requests": True, "require_pkce": True, "rotate_refresh_tokens": False}
        return msgspec.structs.replace(client, more=more)


async def test_a_profile_is_several_switches_for_as_long_as_it_is_there(ready: Any, register_app: Any) -> None:
    app = await ready(Profile())
    strict = await register_app(app.desk, consent="implicit", profile="strict")

    asked = app.told(await strict.ask(app.cookie))
    plain = await strict.push(code_challenge=None, code_challenge_method=None)
    uri = (await strict.push(**ALL)).json["request_uri"]
    done = await app.desk.get(f"/authorize?{urlencode({'client_id': strict.client_id, 'request_uri': uri})}", cookie=app.cookie)
    tokens = (await strict.redeem(app.told(done)["code"])).json
    again = (await refresh(strict, tokens["refresh_token"])).json
    row = next(row for row in await app.desk.rows(t.client) if row.client_id == strict.client_id)
    with pytest.raises(InvalidClientMetadata, match="strict is for clients"):
        await register_app(app.desk, profile="strict", token_endpoint_auth_method="none")

    assert asked["error_description"].startswith("this client must push its requests")
    assert plain.json["error_description"].startswith("code_challenge is missing")
    assert again["refresh_token"] == tokens["refresh_token"]
    assert (await refresh(strict, tokens["refresh_token"])).status == 200
    assert "require_pkce" not in row.more, "what a profile means is not stored"


# ---- Endpoints of other plugins


def device(host: Any) -> Route:
    async def begin(call: Any) -> Reply:
        request = await host.service(CLIENTS).authenticate(call)
        read = await host.service(AUTHORIZATIONS).read(request, "device")
        shown = await host.service(AUTHORIZATIONS).shown(read, "alice@LOCALHOST")
        return Reply.json({"read": read, "shown": shown})

    return Route("POST", "/device", begin, style="oauth", auth=Handler("the client proves itself"), content_types=(), summary="Begin.")


async def test_another_endpoint_reads_a_request_by_the_same_rules(ready: Any) -> None:
    app = await ready(Colours(), StepUp(), device)

    async def begin(**form: Any) -> Any:
        return await app.desk.post("/device", data=form, headers=app.credentials)

    read = (await begin(scope="openid profile admin", colour="green", need="urn:strong", age="5")).json

    assert read["read"] == {
        "client_id": app.client_id, "scopes": ["openid", "profile"], "implied": [], "claims": None, "acr": [["urn:strong"]], "max_age": 5,
        "more": {"colours": {"colours": ["green"]}},
    }  # fmt: skip
    assert read["shown"] == [{"title": "<Paint>", "lines": ["green"], "remember": "green"}]
    assert (await begin(scope="openid", colour="black")).outcome == (400, "invalid_target")
    assert (await begin(colour="green")).outcome == (400, "invalid_scope")
    assert (await begin(scope="openid", whatever=["one", "two"])).outcome == (400, "invalid_request")


# ---- At the start


class Claiming(Extension[Kept]):
    name = "claiming"
    claims = frozenset({"sub"})


class Prompting(Extension[Kept]):
    name = "prompting"
    prompts: ClassVar[Mapping[str, str]] = {"login": "/mine"}


class Modal(Envelope):
    name = "modal"
    opens = "other"


@pytest.mark.parametrize(
    ("plugins", "what", "first", "second", "cure"),
    [
        ([[Claiming()]], "claim 'sub' of access tokens", "'idp'", "'parts0' (extension 'claiming')", "disable plugin 'parts0'"),
        ([[Prompting()]], "prompt 'login'", "'idp'", "'parts0' (extension 'prompting')", "disable plugin 'parts0'"),
        (
            [[Envelope()], [Modal()]], "response mode 'wrapped'", "'parts0' (extension 'envelope')", "'parts1' (extension 'modal')",
            "disable one of them",
        ),
        (
            [[Envelope(), Modal()]], "response mode 'wrapped'", "'parts0' (extension 'envelope')", "'parts0' (extension 'modal')",
            "take it out of one of them",
        ),
    ],
)  # fmt: skip
async def test_extensions_that_do_not_go_together_stop_the_start(
    open_idp: Any, parts: Any, plugins: Any, what: str, first: str, second: str, cure: str
) -> None:
    features = [parts(*components) for components in plugins]

    with pytest.raises(StartProblem) as raised:
        await open_idp(*features)
    assert f"the {what} comes from plugin {first} and from plugin {second}; {cure}" in str(raised.value)


async def test_without_extensions_nothing_of_them_is_read(desk: Any, register_app: Any) -> None:
    app = await register_app(desk, consent="implicit")
    told = app.told(await app.ask(await desk.cookie(), resource="https://api.example/"))

    assert set(told) == {"code", "state", "iss"}
