"""People sign in with PAM: a whole service over real stacks, the pages, and what the accounts of the machine say."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rig.kdc import REALM, Kdc
from rig.pam import Stack, module
from rig.people import write_users

from greatseal.testing.desk import Desk, forgetful, hidden_fields
from greatseal_pam import pool

CHANGE = "/login/change-password"
HTML = {"Accept": "text/html"}
NEW = "through the looking-glass 7"
WRONG = "the name or the password is wrong"
INVALID, REFUSED, UNAVAILABLE = (401, "invalid_credentials"), (403, "access_denied"), (503, "unavailable")


@pytest.fixture
def stack(tmp_path):
    return Stack(tmp_path / "pam.d").people(ann="wonderland", ben="builder").say()


@pytest.fixture
async def http():
    async with forgetful() as http:
        yield http


@pytest.fixture
def start(start_service, stack, http):
    """``await start(accounts=True, ...)``: with these settings of `[pam]`; other sections by ``more``."""

    async def begin(*features, more=None, **settings):
        whole = {"pam": {**stack.settings, "accounts": False, **settings}, "server": {"auth_rate_limit": 0}, **(more or {})}
        return Desk(await start_service("idp", *features, "pam", **whole), http)

    return begin


class Browser:
    """At the pages, with its cookies."""

    def __init__(self, desk):
        self.desk = desk
        self.cookies = {}
        self.fields = {}

    async def ask(self, method, path, **more):
        answer = await self.desk.ask(method, path, cookie="; ".join(self.cookies.values()), headers=HTML, **more)
        self.cookies.update({one.partition("=")[0]: one.partition(";")[0] for one in answer.cookies})
        if answer.status < 300 or answer.status >= 400:
            self.fields = hidden_fields(answer)
        return answer

    async def sign_in(self, username, password):
        await self.ask("GET", "/ui/auth/login?return_to=/account")
        return await self.ask("POST", "/login", data={**self.fields, "username": username, "password": password})

    async def change(self, old, new=NEW):
        data = {**self.fields, "old_password": old, "new_password": new, "new_password_again": new}
        return await self.ask("POST", CHANGE, data=data)


async def outcomes(desk, **passwords):
    return {name: (await desk.login(name, password)).outcome for name, password in passwords.items()}


async def test_idp_004_a_password_of_pam_signs_in(start):
    desk = await start()

    answer = await desk.login("ann", "wonderland")

    assert (answer.status, answer.json["sub"], answer.json["amr"], answer.json["groups"]) == (200, "ann@LOCALHOST", ["pwd"], [])
    assert (await desk.get("/api/auth/me", cookie=answer.cookie)).status == 200


async def test_s078_a_wrong_password_and_an_unknown_name_get_the_same_words(start, stack):
    stack.say(auth=["[success=1 default=ignore] pam_localuser.so file=/dev/null", "requisite pam_debug.so auth=user_unknown"])
    desk = await start()
    unknown = await desk.login("nobody-of-that-name", "wonderland")
    stack.say()
    wrong = await desk.login("ann", "wrong")

    assert unknown.outcome == wrong.outcome == INVALID
    assert unknown.json["error_description"] == wrong.json["error_description"] == WRONG
    assert [event.sub for event in await desk.events("login_failure")] == [None, "ann"]


async def test_idp_228_idp_229_idp_230_idp_231_an_expired_password_is_changed_on_the_way(start, stack):
    stack.say(account=[stack.debug("acct", "new_authtok_reqd")])
    desk = await start()
    browser = Browser(desk)
    assert (await browser.ask("GET", CHANGE)).location.startswith("/ui/auth/login")

    asked = await browser.sign_in("ann", "wonderland")
    assert (asked.status, asked.location) == (303, f"{CHANGE}?username=ann&next=%2Faccount")
    page = await browser.ask("GET", asked.location)
    assert 'value="ann"' in page.text
    stack.say()
    done = await browser.change("wonderland")

    assert (done.status, done.location) == (303, "/account")
    assert (await browser.ask("GET", "/api/auth/me")).json["sub"] == "ann@LOCALHOST"
    assert [event.sub for event in await desk.events("password_changed")] == ["ann@LOCALHOST"]
    assert [(await desk.login("ann", password)).status for password in ("wonderland", NEW)] == [401, 200]


async def test_idp_231_the_page_shows_what_the_modules_say(start, stack):
    stack.say(account=[stack.debug("acct", "new_authtok_reqd")])
    desk = await start()
    browser = Browser(desk)
    await browser.ask("GET", (await browser.sign_in("ann", "wonderland")).location)
    words = stack.folder / "words"
    words.write_text("It is <too> simple")
    stack.say(password=[f"optional pam_echo.so file={words}", "required pam_deny.so"])

    refused = await browser.change("wonderland", "12345678")

    assert refused.status == 400
    assert "It is &lt;too&gt; simple" in refused.text
    assert (await browser.change("not the old one")).status == 401
    stack.say()
    assert (await browser.change("wonderland")).status == 303


async def test_r77_without_pam_there_is_no_page_to_change_a_password(start_service, http):
    desk = Desk(await start_service("idp", "pam"), http)

    assert (await desk.get(CHANGE)).status == 404
    assert (await desk.login("ann", "wonderland")).outcome == INVALID


async def test_r76_a_stack_that_crashes_hangs_or_is_down_is_503_and_counts_for_nobody(start, stack):
    desk = await start(timeout=1)
    crash = [stack.script("crash", "kill -SEGV $PPID"), f"required {stack.matrix}"]
    hang = [stack.script("hang", "exec sleep 600"), f"required {stack.matrix}"]
    for auth in (crash, hang, [stack.debug("auth", "authinfo_unavail")]):
        for _ in range(2):
            stack.say(auth=auth)
            answer = await desk.login("ann", "wonderland")
            assert answer.outcome == UNAVAILABLE
            assert answer.headers["Retry-After"]
            assert "PAM" not in answer.text

    stack.say()
    assert (await desk.login("ann", "wonderland")).status == 200
    assert await desk.events("login_failure") == []


async def test_an_account_that_may_not_be_used_is_told_so_after_the_right_password_alone(start, stack):
    stack.say(account=[stack.debug("acct", "acct_expired")])
    desk = await start()

    assert await outcomes(desk, ann="wonderland", ben="wrong") == {"ann": REFUSED, "ben": INVALID}
    expired, wrong = await desk.events("login_failure")
    assert (expired.sub, wrong.sub) == ("ann", "ben")
    assert "PAM_ACCT_EXPIRED" in expired.detail


async def test_wrong_passwords_count_for_a_name_as_with_any_other_sign_in(start):
    desk = await start()
    for _ in range(5):
        assert (await desk.login("ann", "wrong")).outcome == INVALID

    assert (await desk.login("ann", "wonderland")).status == 429
    assert (await desk.login("ben", "builder")).status == 200


async def test_people_of_the_users_file_come_first_and_pam_has_their_passwords_where_it_has_none(start, tmp_path):
    file = write_users(tmp_path / "users.toml", "from the file", {"admin": {"groups": ["administrators"]}})
    with file.open("a") as text:
        text.write('\n[[user]]\nusername = "ann"\ngroups = ["staff"]\n')
    desk = await start("users-file", more={"users": {"file": str(file)}})

    ann = await desk.login("ann", "wonderland")

    assert (ann.status, ann.json["groups"]) == (200, ["staff"])
    assert await outcomes(desk, admin="from the file", ben="builder") == {"admin": (200, ""), "ben": REFUSED}


async def test_an_account_of_the_machine_has_its_groups_and_is_refused_when_it_is_gone(start, stack):
    stack.people(daemon="wonderland")
    desk = await start(accounts=True, min_uid=1)

    answer = await desk.login("daemon", "wonderland")

    assert (answer.status, answer.json["sub"], answer.json["groups"]) == (200, "daemon@LOCALHOST", ["daemon"])
    assert answer.json["display_name"] == "daemon"
    assert (await desk.login("root", "wonderland")).outcome == INVALID


def test_a_service_file_that_is_not_there_and_a_missing_libpam_stop_the_start_with_the_cure(tmp_path, stack):
    def checked(**settings):
        path = tmp_path / "greatseal.toml"
        lines = "\n".join(f'{key} = "{value}"' for key, value in settings.items())
        path.write_text(
            f'[plugins]\nenabled = ["idp", "pam"]\n[server]\nbase_url = "https://id.example.org"\n'
            f'[database]\nurl = "sqlite:///{tmp_path}/x.db"\n[cluster]\nkey_file = "{tmp_path}/key"\n[pam]\n{lines}\n'
        )
        command = [sys.executable, "-m", "greatseal", "check-config", "-c", str(path)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert checked(**stack.settings).returncode == 0
    absent = checked(service="absent", config_dir=stack.folder)
    assert (absent.returncode, f"[pam] service: {stack.folder}/absent is not there" in absent.stderr) == (2, True)
    odd = checked(service="../passwd", config_dir=stack.folder)
    assert (odd.returncode, "[pam] service" in odd.stderr) == (2, True)


async def test_doctor_sees_whether_pam_answers(start, stack):
    desk = await start()
    (check,) = desk.service.kernel.hooks.instances["pam"].checks(desk.service.host("pam"))

    assert (await check.run()).ok
    (stack.folder / "greatseal-test").unlink()
    gone = await check.run()
    assert (gone.ok, "is not there" in gone.cause, str(stack.folder) in gone.detail) == (False, True, False)


# ---- pam_krb5, over a realm of its own


@pytest.fixture(scope="module")
def kdc(tmp_path_factory):
    if missing := Kdc.missing():
        report = pytest.fail if os.environ.get("CI") else pytest.skip
        report(f"there is no KDC: apt install {missing}")
    with Kdc(tmp_path_factory.mktemp("kdc")).running(passwords=True) as running:
        yield running


@pytest.fixture
def kerberos(kdc, stack, monkeypatch):
    monkeypatch.setenv("KRB5_CONFIG", kdc.environ["KRB5_CONFIG"])
    line = f"required {module('pam_krb5.so')} defer_pwchange no_ccache minimum_uid=0"
    return stack.say([line], [line], [line])


async def test_pam_krb5_each_account_has_its_outcome(start, kerberos):
    desk = await start(timeout=60, more={"server": {"auth_rate_limit": 0, "realm": REALM}})

    assert (await desk.login("alice", "alicepw")).json["sub"] == f"alice@{REALM}"
    told = await outcomes(desk, bob="wrong", frank="frankpw", gina="ginapw", nobody="x")
    assert told == dict.fromkeys(told, INVALID)


async def test_pam_krb5_an_expired_password_is_changed_at_the_kdc(start, kerberos, kdc):
    kdc.admin("cpw -pw carolpw carol\nmodprinc -pwexpire yesterday carol\n")
    desk = await start(timeout=60, more={"server": {"auth_rate_limit": 0, "realm": REALM}})
    browser = Browser(desk)
    asked = await browser.sign_in("carol", "carolpw")
    assert asked.location.startswith(CHANGE)
    await browser.ask("GET", asked.location)

    assert (await browser.change("not carols")).status == 401
    done = await browser.change("carolpw")

    assert (done.status, done.location) == (303, "/account")
    assert (await browser.ask("GET", "/api/auth/me")).json["sub"] == f"carol@{REALM}"
    assert (await outcomes(desk, carol=NEW))["carol"][0] == 200
    kdc.ticket_for("carol", password=f"{NEW}\n")


async def test_pam_krb5_a_kdc_that_is_down_is_503(start, kerberos, kdc, tmp_path, monkeypatch):
    nowhere = tmp_path / "krb5.conf"
    nowhere.write_text((kdc.folder / "krb5.conf").read_text().replace(str(kdc.port), "1"))
    monkeypatch.setenv("KRB5_CONFIG", str(nowhere))
    desk = await start()

    assert (await desk.login("alice", "alicepw")).outcome == UNAVAILABLE


# ---- pam_unix, over accounts of a copy of /etc, where root may mount one


@pytest.fixture
def unix(stack, tmp_path, monkeypatch):
    """A machine of its own with ann, whose password is oldpassword1."""
    etc = tmp_path / "etc"
    etc.mkdir()
    for name in ("passwd", "group", "shadow", "gshadow", "login.defs", "ld.so.cache"):
        if os.geteuid() == 0 and Path("/etc", name).exists():
            shutil.copy2(f"/etc/{name}", etc)
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\n")
    mounted = ("unshare", "--mount", "sh", "-c", f'mount --bind {etc} /etc && exec "$@"', "sh")

    def run(*command, stdin=""):
        return subprocess.run((*mounted, *command), check=True, capture_output=True, text=True, input=stdin, timeout=60).stdout

    try:
        run("true")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"only root may mount a folder over /etc: {error}")
    run("useradd", "--gid", "users", "--comment", "Ann Example,,,", "ann")
    run("usermod", "--password", run("openssl", "passwd", "-6", "oldpassword1").strip(), "ann")
    monkeypatch.setattr(pool, "COMMAND", (*mounted, *pool.COMMAND))
    unix = f"required {module('pam_unix.so')}"
    stack.say([f"{unix} nodelay"], [unix], [f"{unix} sha512"])
    return run


async def test_pam_unix_signs_in_the_accounts_of_the_machine(start, unix):
    desk = await start(accounts=True)

    answer = await desk.login("ann", "oldpassword1")

    assert (answer.json["sub"], answer.json["groups"], answer.json["display_name"]) == ("ann@LOCALHOST", ["users"], "Ann Example")
    told = await outcomes(desk, root="oldpassword1", ann="wrong", zoe="oldpassword1")
    assert told == dict.fromkeys(told, INVALID)
    cookie = answer.cookie
    assert (await desk.get("/api/auth/me", cookie=cookie)).status == 200
    unix("usermod", "--lock", "ann")
    assert (await desk.get("/api/auth/me", cookie=cookie)).outcome == REFUSED
    unix("usermod", "--unlock", "ann")
    unix("usermod", "--expiredate", "2020-01-01", "ann")
    assert (await desk.get("/api/auth/me", cookie=cookie)).outcome == REFUSED
    assert (await desk.login("ann", "oldpassword1")).outcome == REFUSED
    unix("userdel", "ann")
    assert (await desk.get("/api/auth/me", cookie=cookie)).outcome[0] == 403
    assert (await desk.login("ann", "oldpassword1")).outcome == INVALID


async def test_pam_unix_an_expired_password_is_changed_in_the_shadow_file(start, unix):
    unix("chage", "--lastday", "0", "ann")
    desk = await start(accounts=True)
    browser = Browser(desk)

    asked = await browser.sign_in("ann", "oldpassword1")
    assert asked.location.startswith(CHANGE)
    await browser.ask("GET", asked.location)
    done = await browser.change("oldpassword1")

    assert (done.status, done.location) == (303, "/account")
    assert [(await desk.login("ann", password)).status for password in ("oldpassword1", NEW)] == [401, 200]
