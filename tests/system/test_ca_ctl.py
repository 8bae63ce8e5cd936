"""``greatseal ctl`` for operators of a CA, where no identity provider runs."""

import json
import stat

import pytest
from rig.operators import ADMIN, open_office

from greatseal.api.acme import AccountView
from greatseal.ctl.client import CtlProblem, Server
from greatseal.ctl.session import _own_url
from greatseal.testing.ctl import Ctl, quiet
from greatseal.testing.desk import forgetful
from greatseal.testing.operator_desk import Person

DAY = 86_400
ACCOUNT = AccountView(id="account-1", url="https://ca.example/acme/account/account-1", status="valid", thumbprint="x" * 43)


@pytest.fixture
async def office(start_service, tmp_path):
    async with forgetful() as http:
        with quiet():
            yield await open_office(start_service, http, tmp_path)


@pytest.fixture
async def ctl(office, tmp_path):
    """A terminal where the first administrator is signed in."""
    terminal = Ctl(office.url, tmp_path)
    environment = {"GREATSEAL_CA_FILE": str(office.server_file)}

    async def run(*arguments, **more):
        return await Ctl.run(terminal, *arguments, **{**environment, **more})

    terminal.run = run
    signed_in = await terminal.run("login", "--cert", str(office.root.cert_file), "--key", str(office.root.key_file))
    assert (signed_in.exit_code, signed_in.stdout) == (0, f"signed in to {office.url} as root\n"), signed_in.output
    return terminal


async def told(ctl, *arguments, **more):
    """The JSON that a command prints."""
    result = await ctl.run("--json", *arguments, **more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_an_operator_signs_in_looks_who_they_are_and_signs_out(office, ctl):
    assert stat.S_IMODE(ctl.session.stat().st_mode) == 0o600
    who = await told(ctl, "whoami")
    out = await ctl.run("logout")
    again = await ctl.run("ca-stats")

    assert (who["name"], who["role"]) == ("root", "administrator")
    assert (out.exit_code, ctl.session.exists()) == (0, False)
    assert (again.exit_code, "login --cert FILE" in again.stderr) == (1, True)
    assert [event.sub for event in await office.events("admin.logout")] == ["root"]


async def test_what_is_wrong_with_a_sign_in_is_said_in_a_line(office, ctl, tmp_path):
    stranger = Person.of(tmp_path, "stranger")
    refused = {
        "a stranger": await ctl.run("login", "--cert", str(stranger.cert_file), "--key", str(stranger.key_file)),
        "no key": await ctl.run("login", "--cert", str(stranger.cert_file)),
        "http": await ctl.run("login", "--cert", str(stranger.cert_file), server="http://localhost:1"),
        "locked": await ctl.run("ca-config"),
    }
    office.clock.advance(901)
    refused["locked"] = await ctl.run("ca-config")

    for who, result in refused.items():
        assert (result.exit_code != 0, len(result.stderr.splitlines())) == (True, 1), (who, result.output)
    assert "rested too long" in refused["locked"].stderr


async def test_an_operator_signs_in_by_eab_key(office, ctl, tmp_path):
    secret = "_-" + "A" * 41
    file = tmp_path / "bob.key"
    file.write_text(f"{secret}\n")
    assert (await ctl.run("eab", "add", "-bob", "--hmac-key-file", str(file))).exit_code == 0
    assert (await ctl.run("operators", "add", "bob", "--role", "auditor", "--eab-kid=-bob")).exit_code == 0
    by_file = await ctl.run("login", "--eab-kid=-bob", "--hmac-key-file", str(file))
    who = await told(ctl, "whoami")
    by_prompt = await ctl.run("login", "--eab-kid=-bob", "--base-url", office.service.url, given=f"{secret}\n")
    deleted = await office.ask("DELETE", "/admin/eab/-bob", token=office.tokens[ADMIN])
    ended = await ctl.run("whoami")

    assert (by_file.exit_code, by_file.stdout) == (0, f"signed in to {office.url} as bob\n"), by_file.output
    assert (who["name"], who["role"]) == ("bob", "auditor")
    assert (by_prompt.exit_code, secret in by_prompt.output) == (0, False), by_prompt.output
    assert (deleted.status, ended.exit_code, "key of the operator was deleted" in ended.stderr) == (204, 1, True)


async def test_a_sign_in_by_eab_key_that_proves_nothing_is_said_in_a_line(office, ctl, tmp_path):
    file = tmp_path / "bob.key"
    file.write_text("A" * 43)
    key = ("--hmac-key-file", str(file))
    refused = {
        "no active operator has this EAB key": await ctl.run("login", "--eab-kid", "nobody", *key),
        "is not base64url": await ctl.run("login", "--eab-kid", "bob", "--hmac-key-file", "-", given="!!\n"),
        "not begun over plain http": await ctl.run("login", "--eab-kid", "bob", *key, server="http://ca.example:1"),
        "or the MAC is not by it": await ctl.run("login", "--eab-kid", "root", *key, "--base-url", "https://relay.example"),
        "leave out the name": await ctl.run("login", "bob", "--eab-kid", "bob", *key),
        "name it with --eab-kid": await ctl.run("login", *key),
    }
    for words, result in refused.items():
        assert (result.exit_code != 0, len(result.stderr.splitlines()), words in result.stderr) == (True, 1, True), (words, result.output)


def test_what_says_that_it_is_another_host_gets_no_mac():
    with pytest.raises(CtlProblem, match="another host; if that is so, give --base-url"):
        _own_url(Server("https://ca.example:9443"), "https://relay.example/admin/session/eab")
    assert _own_url(Server("https://ca.example:9443"), "https://ca.example/pki/admin/session/eab").endswith("/pki/admin/session/eab")


async def test_operators_are_added_changed_and_deleted(office, ctl, tmp_path):
    ann = Person.of(tmp_path, "ann")
    made = await told(ctl, "operators", "add", "ann", "--role", "ca_ra", "--ca", "other", "--certificate", str(ann.cert_file))
    assert await office.sign_in(ann)
    changed = await told(ctl, "operators", "change", made["id"], "--role", "auditor", "--ca", "-", "--inactive")
    table = (await ctl.run("operators", "list")).stdout
    refused = await ctl.run("operators", "add", "bob", "--role", "ca_ra", "--certificate", str(ann.cert_file))

    assert (changed["role"], changed["ca_id"], changed["active"]) == ("auditor", None, False)
    assert [line.split()[0] for line in table.splitlines()] == ["NAME", "ann", "auditor", "ca_operations", "ca_ra", "root"]
    assert (refused.exit_code, "ca_id: a ca_ra acts for one CA" in refused.stderr) == (1, True)
    assert (await ctl.run("operators", "unlock", made["id"])).exit_code == 0
    assert (await told(ctl, "operators", "show", made["id"]))["name"] == "ann"
    assert (await ctl.run("operators", "delete", made["id"], "--yes")).exit_code == 0
    assert (await ctl.run("operators", "show", made["id"])).exit_code == 1
    events = await told(ctl, "ca-audit", "--type", "operator.delete")
    assert [(event["subject"], event["principal"]) for event in events] == [("ann", "root")]


async def test_eab_keys_accounts_orders_profiles_and_cas(office, ctl, tmp_path):
    added = await ctl.run("eab", "add", "kid-1", "--hmac-key-file", "-", "--grant", "default", given="A" * 43)
    keys = await told(ctl, "eab", "list", "--unused")

    assert added.exit_code == 0, added.output
    assert [(key["kid"], key["profile_grants"]) for key in keys] == [("kid-1", ["default"])]
    assert (await told(ctl, "eab", "show", "kid-1"))["used_at"] is None
    assert (await ctl.run("eab", "delete", "kid-1", "--yes")).exit_code == 0
    assert await told(ctl, "eab", "list") == await told(ctl, "accounts", "list") == await told(ctl, "orders", "list") == []
    assert (await ctl.run("accounts", "show", "x")).exit_code == 1
    assert {one["ca_id"] for one in await told(ctl, "profiles", "list")} == {"default", "other"}
    made = await told(ctl, "profiles", "create", "short", "--set", "validity_days=6", "--set", 'crl_url=""')
    replaced = await told(ctl, "profiles", "replace", "short", "--set", 'ca_ids=["other"]')
    assert (made["validity_days"], made["source"], replaced["ca_ids"]) == (6, "operator", ["other"])
    assert await told(ctl, "profiles", "show", "short") == replaced
    wrong = await ctl.run("profiles", "create", "long", "--set", "validity_days=no")
    assert (wrong.exit_code, "expected FIELD=JSON" in wrong.stderr) == (2, True)
    assert (await ctl.run("profiles", "delete", "short", "--yes")).exit_code == 0
    assert [one["id"] for one in await told(ctl, "cas", "list")] == ["default", "other"]
    crossed = await ctl.run("cas", "cross-sign", "other", "--of", "default", "--years", "2")
    root = tmp_path / "root.pem"
    async with office.http.get(f"{office.service.url}/ca/root.pem") as answer:
        root.write_bytes(await answer.read())
    again = await told(ctl, "cas", "cross-sign", "other", str(root), "--path-length", "0")
    both = await told(ctl, "cas", "cross-certs")
    assert (crossed.exit_code, crossed.stdout) == (0, next(one["certificate"] for one in both if one != again))
    assert (again in both, [one["ca_id"] for one in both]) == (True, ["other", "other"])
    assert (await ctl.run("cas", "cross-sign", "other")).exit_code == 1
    assert (await told(ctl, "cas", "crl")).keys() == {"default", "other"}
    assert (await told(ctl, "ca-stats"))["certs"]["total"] == 2
    assert (await told(ctl, "ca-config"))["ca"][1]["id"] == "other"
    assert (await ctl.run("ca-resume")).exit_code == 0


async def test_certificates_are_searched_shown_and_revoked(office, ctl):
    one, other = await office.certify("a.example"), await office.certify("www.b.example", "other")
    found = await told(ctl, "certificates", "list", "--name", ".b.example", "--status", "active")
    shown = await told(ctl, "certificates", "show", "default", one.serial.hex(":"))
    revoked = await ctl.run("certificates", "revoke", "default", one.serial.hex(), "--reason", "superseded", "--yes")
    unknown = await ctl.run("certificates", "revoke", "other", one.serial.hex(), "--yes")

    assert [certificate["id"] for certificate in found] == [other.id]
    assert (shown["id"], shown["names"]) == (one.id, ["a.example"])
    assert (revoked.exit_code, revoked.stdout) == (0, f"certificate {one.serial.hex()} of CA default is revoked\n")
    assert (unknown.exit_code, "has no certificate of the serial" in unknown.stderr) == (1, True)
    assert [one["id"] for one in await told(ctl, "certificates", "list", "--status", "revoked")] == [one.id]


async def test_many_certificates_are_revoked_by_what_they_have_in_common(office, ctl):
    of_account = [await office.certify(f"{name}.example", account=ACCOUNT) for name in "abc"]
    others = [await office.certify(f"{name}.example") for name in "de"]

    dry = await told(ctl, "certificates", "revoke", "--account", ACCOUNT.id, "--dry-run")
    before = await told(ctl, "certificates", "list", "--status", "revoked")
    report = await told(ctl, "certificates", "revoke", "--account", ACCOUNT.id, "--reason", "keyCompromise", "--yes")
    by_key = await told(ctl, "certificates", "revoke", "--spki", others[0].spki_sha256.hex(), "--yes")
    none = await ctl.run("certificates", "revoke", "--since", "2999-01-01", "--yes")
    rest = await told(ctl, "certificates", "revoke", "--profile", "default", "--since", "2020-01-01", "--yes")
    wrong = [await ctl.run("certificates", "revoke", *arguments) for arguments in ((), ("default",), ("default", "00", "--profile", "x"))]

    assert sorted(one["id"] for one in dry) == sorted(one.id for one in of_account)
    assert before == []
    assert sorted(one["cert_id"] for one in report) == sorted(one.id for one in of_account)
    assert {one["outcome"] for one in report} == {"revoked"}
    assert by_key == [{"cert_id": others[0].id, "outcome": "revoked"}]
    assert (none.exit_code, none.stderr) == (0, "no active certificate fits\n")
    assert rest == [{"cert_id": others[1].id, "outcome": "revoked"}]
    assert [result.exit_code for result in wrong] == [2, 2, 2]
    stored = await told(ctl, "certificates", "list", "--account", ACCOUNT.id)
    assert {one["reason"] for one in stored} == {"keyCompromise"}


async def test_what_expires_soon_and_was_not_renewed(office, ctl):
    await office.certify("a.example")
    office.clock.advance(2 * DAY)
    lonely, renewed = await office.certify("b.example"), await office.certify("a.example")
    assert (await ctl.run("login", "--cert", str(office.root.cert_file), "--key", str(office.root.key_file))).exit_code == 0

    soon = await told(ctl, "certificates", "expiring", "--days", "95")
    none = await ctl.run("certificates", "expiring", "--days", "5")

    assert sorted(one["id"] for one in soon) == sorted([lonely.id, renewed.id])
    assert (none.exit_code, none.stderr) == (0, "no certificate that was not renewed ends within 5 days\n")
