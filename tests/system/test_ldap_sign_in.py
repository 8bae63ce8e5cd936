"""People of a directory sign in: the table of password checks, a service over slapd, and how often the directory is asked."""

import pytest
from rig.directory import Parts
from rig.slapd import REALM, SERVICE, SERVICE_PASSWORD, SUFFIX

from greatseal.api.clients import Client, Registration
from greatseal.api.declarations import Secret
from greatseal.api.identity import Authenticated, Denied, NotMine, Password, PasswordExpired
from greatseal.api.kerberos import PasswordVerdict
from greatseal.testing import FakeClock
from greatseal.testing.desk import CALLBACK, Desk, forgetful
from greatseal.testing.logins import AuthenticatorContract, PasswordChangerContract, context_of
from greatseal.testing.negotiate import FakeTickets
from greatseal_idp.token.codes import CodeOrder
from greatseal_ipa.password import IpaChanger, IpaPassword

EXPIRED = PasswordExpired(username="carol", realm=REALM, changer="ipa")


@pytest.fixture
def parts(slapd):
    made = Parts(slapd.uri)
    yield made
    made.close()


def signed_in(name):
    return Authenticated(username=name, realm=REALM, amr=("pwd",))


class TestByBind(AuthenticatorContract):
    username, password, realm = "alice", "alicepw", REALM

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def authenticator(self):
        return IpaPassword(self.parts.reader, "bind", None)


class TestByKinit(AuthenticatorContract):
    username, password, realm = "alice", "wonderland", REALM

    @pytest.fixture(autouse=True)
    def _parts(self, parts):
        self.parts = parts

    def authenticator(self):
        return IpaPassword(self.parts.reader, "kinit", FakeTickets({f"alice@{REALM}": "wonderland"}))


class TestChanger(PasswordChangerContract):
    username, old = "erin", "erinpw"

    @pytest.fixture(autouse=True)
    def _parts(self, parts, slapd):
        self.parts = parts
        yield
        slapd.replace("erin", "userPassword", "erinpw")

    def changer(self):
        return IpaChanger(self.parts.reader)


async def attempt(parts, username, password, *, tickets=None):
    authenticator = IpaPassword(parts.reader, "kinit" if tickets else "bind", tickets)
    return await authenticator.attempt(Password(username=username, password=Secret(password)), context_of())


@pytest.mark.parametrize(
    ("username", "password", "outcome"),
    [
        ("alice", "alicepw", signed_in("alice")),
        ("ALICE", "alicepw", signed_in("alice")),
        ("alice", "bobpw", Denied),
        ("nobody", "alicepw", NotMine()),
        ("carol", "carolpw", EXPIRED),
        ("carol", "wrong", Denied),
        ("frank", "frankpw", signed_in("frank")),  # disabled: LOGIN reads the state and refuses, to who has the password alone
        ("frank", "wrong", Denied),
        ("dave", "davepw", Denied),  # has no password
    ],
)
async def test_a_cell_of_the_table_by_bind(parts, username, password, outcome):
    if outcome is Denied:
        with pytest.raises(Denied):
            await attempt(parts, username, password)
    else:
        assert await attempt(parts, username, password) == outcome


@pytest.mark.parametrize(
    ("username", "password", "verdict", "outcome"),
    [
        ("alice", "alicepw", PasswordVerdict.RIGHT, signed_in("alice")),
        ("alice", "alicepw", PasswordVerdict.WRONG, Denied),
        ("alice", "alicepw", PasswordVerdict.UNKNOWN, Denied),
        ("alice", "alicepw", PasswordVerdict.REVOKED, Denied),
        ("alice", "alicepw", PasswordVerdict.ACCOUNT_EXPIRED, Denied),
        ("carol", "carolpw", PasswordVerdict.EXPIRED, EXPIRED),
        ("carol", "wrong", PasswordVerdict.EXPIRED, Denied),
        ("carol", "carolpw", PasswordVerdict.RIGHT, EXPIRED),
    ],
)
async def test_a_cell_of_the_table_by_kinit(parts, username, password, verdict, outcome):
    tickets = FakeTickets(verdicts={f"{username}@{REALM}": verdict})
    if outcome is Denied:
        with pytest.raises(Denied):
            await attempt(parts, username, password, tickets=tickets)
    else:
        assert await attempt(parts, username, password, tickets=tickets) == outcome


@pytest.fixture
def sections(slapd):
    """The configuration of a service whose people are in the directory."""
    directory = {"ldap_uri": slapd.uri, "base_dn": SUFFIX, "start_tls": False, "bind_dn": SERVICE, "bind_password": SERVICE_PASSWORD}
    return {"server": {"realm": REALM}, "ipa": directory}


@pytest.fixture
async def desk(sections, start_service):
    service = await start_service("idp", "ipa", **sections)
    async with forgetful() as http:
        yield Desk(service, http)


def asked(desk):
    """How many round trips there were."""
    return desk.service.kernel.hooks.instances["ipa"]._assembly.pool.questions


async def test_idp_244_who_signed_in_has_a_profile_of_the_directory(desk):
    answer = await desk.login("alice", "alicepw")

    assert answer.status == 200
    profile = await desk.get("/api/auth/profile", cookie=answer.cookie)
    assert profile.json["display_name"] == "Alice Anderson"
    assert profile.json["email"] == "alice@chancery.test"
    assert profile.json["groups"] == ["devs", "editors", "ipausers", "ops"]
    assert profile.json["source"] == "ipa"


async def test_a_sign_in_asks_three_times_and_the_next_one_once(desk):
    before = asked(desk)
    assert (await desk.login("alice", "alicepw")).status == 200
    cold = asked(desk) - before
    answer = await desk.login("alice", "alicepw")
    warm = asked(desk) - before - cold
    for path in ("/api/auth/me", "/api/auth/profile"):
        assert (await desk.get(path, cookie=answer.cookie)).status == 200

    assert (cold, warm) == (3, 1)  # the entry, the types of everybody, the bind; then the bind alone
    assert asked(desk) - before == cold + warm


async def test_wrong_and_unknown_are_the_same_words(desk):
    answers = [await desk.login(name, "wrong") for name in ("alice", "nobody", "frank", "dave", "carol", "*", "a)(uid=*")]

    assert {(answer.status, answer.text) for answer in answers} == {(401, answers[0].text)}


async def test_a_disabled_account_is_told_to_who_has_its_password(desk):
    answer = await desk.login("frank", "frankpw")

    assert answer.outcome == (403, "access_denied")
    assert "disabled" in answer.text


async def test_an_expired_password_leads_to_the_page(desk):
    answer = await desk.login("carol", "carolpw")

    assert answer.outcome == (403, "password_expired")
    assert answer.json["change_password_url"].startswith("/login/change-password?username=carol")


async def test_a_type_that_a_password_does_not_show_is_asked_for(desk):
    answer = await desk.login("bob", "bobpw")

    assert answer.outcome == (403, "factor_required")
    assert answer.json["credentials"] == ["PasswordAndCode"]


async def test_an_account_is_refused_within_the_stated_age(start_service, sections, slapd):
    clock = FakeClock()
    service = await start_service("idp", "ipa", clock=clock, **sections)
    async with forgetful() as http:
        desk = Desk(service, http)
        answer = await desk.login("erin", "erinpw")
        assert answer.status == 200
        slapd.replace("erin", "nsAccountLock", "TRUE")
        try:
            clock.advance(5)
            profile = await desk.get("/api/auth/profile", cookie=answer.cookie)
            again = await desk.login("erin", "erinpw")
        finally:
            slapd.replace("erin", "nsAccountLock")

        assert profile.status == 403
        assert again.outcome == (403, "access_denied")
        assert (await desk.login("erin", "erinpw")).status == 200  # unlocked: what speaks against a person is read again at once


async def test_a_refresh_token_is_refused_within_the_stated_age_and_good_again_afterwards(start_service, sections, slapd):
    clock = FakeClock()
    service = await start_service("idp", "ipa", clock=clock, **sections)
    provider = service.kernel.hooks.instances["idp"].assembly(service.host("idp"))
    asked = Client(
        client_id="", token_endpoint_auth_method="client_secret_post", redirect_uris=(CALLBACK,), scopes=("openid", "offline_access"),
        grant_types=("authorization_code", "refresh_token"),
    )  # fmt: skip
    made = await provider.clients.register(Registration(client=asked, open=True), by="test")
    proof = {"client_id": made.client.client_id, "client_secret": made.client_secret.value}
    order = CodeOrder(
        client_id=made.client.client_id, redirect_uri=CALLBACK, subject=f"erin@{REALM}", scopes=asked.scopes, auth_time=clock.now(),
        amr=("pwd",),
    )  # fmt: skip
    code = await service.host("idp").db.write(provider.codes.issue, order)

    async with forgetful() as http:
        desk = Desk(service, http)

        async def token(**form):
            return await desk.post("/token", data={**proof, **form})

        first = await token(grant_type="authorization_code", code=code, redirect_uri=CALLBACK)
        assert first.status == 200, first.text
        slapd.replace("erin", "nsAccountLock", "TRUE")
        try:
            clock.advance(5)
            refused = await token(grant_type="refresh_token", refresh_token=first.json["refresh_token"])
        finally:
            slapd.replace("erin", "nsAccountLock")
        clock.advance(5)
        again = await token(grant_type="refresh_token", refresh_token=first.json["refresh_token"])

    assert refused.outcome == (400, "invalid_grant")
    assert again.status == 200


async def test_no_server_is_503_and_whoever_answers_again_is_asked(start_service, sections, make_slapd):
    with make_slapd() as other:
        sections["ipa"]["ldap_uri"] = other.uri
        service = await start_service("idp", "ipa", **sections)
        async with forgetful() as http:
            desk = Desk(service, http)
            other.stop()
            down = await desk.login("alice", "alicepw")
            other.start()
            pool = service.kernel.hooks.instances["ipa"]._assembly.pool
            await pool.look()
            up = await desk.login("alice", "alicepw")

    assert down.outcome == (503, "unavailable")
    assert "ldap" not in down.text
    assert up.status == 200
