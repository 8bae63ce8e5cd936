"""The admin listener of the CA with all features: who may do what on each of its routes, and the certificates of the CAs."""

import asyncio
import json
import re
import subprocess
import time
from datetime import UTC, datetime
from hashlib import sha256

import msgspec
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store
from rig.operators import ADMIN, AUDIT, OPS, RA, open_office
from rig.server import Server

from greatseal.api.declarations import Secret
from greatseal.api.http import OPERATOR_ROLES, Operator
from greatseal.cli import main
from greatseal.jose.acceptance import spki_sha256
from greatseal.kernel.redacted import in_force
from greatseal.testing.desk import forgetful
from greatseal.testing.operator_desk import Person, admin_section
from greatseal.testing.service import Kernel, document, free_port
from greatseal_bundle_ca import features
from greatseal_bundle_idp import features as features_of_people
from greatseal_ca_admin.sessions import Proof

MATRIX = {
    ("GET", "/metrics"): None,
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("POST", "/admin/session"): None,
    ("GET", "/admin/session/eab"): None,
    ("POST", "/admin/session/eab"): None,
    ("GET", "/admin/session"): (ADMIN, OPS, RA, AUDIT),
    ("DELETE", "/admin/session"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/operators"): (ADMIN,),
    ("POST", "/admin/operators"): (ADMIN,),
    ("GET", "/admin/operators/{id}"): (ADMIN,),
    ("PUT", "/admin/operators/{id}"): (ADMIN,),
    ("PATCH", "/admin/operators/{id}"): (ADMIN,),
    ("DELETE", "/admin/operators/{id}"): (ADMIN,),
    ("POST", "/admin/operators/{id}/unlock"): (ADMIN,),
    ("POST", "/admin/alarm/reset"): (ADMIN,),
    ("GET", "/admin/audit"): (ADMIN, AUDIT),
    ("GET", "/admin/stats"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/config"): (ADMIN,),
    ("GET", "/admin/accounts"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/account/{id}"): (ADMIN, OPS, RA, AUDIT),
    ("POST", "/admin/account/{id}/deactivate"): (ADMIN,),
    ("POST", "/admin/account/{id}/revoke"): (ADMIN,),
    ("GET", "/admin/account/{id}/profile-grants"): (ADMIN, OPS, RA, AUDIT),
    ("PUT", "/admin/account/{id}/profile-grants"): (ADMIN, OPS),
    ("DELETE", "/admin/account/{id}/profile-grants"): (ADMIN,),
    ("GET", "/admin/orders"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/orders/{id}"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/certs"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/certs/expiring"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/certs/{id}"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/certs/{id}/download"): (ADMIN, OPS, RA),
    ("POST", "/admin/revoke"): (ADMIN, OPS, RA),
    ("POST", "/admin/revocations"): (ADMIN, OPS, RA),
    ("POST", "/admin/crl/force"): (ADMIN, OPS),
    ("POST", "/admin/ca/{id}/crl/force"): (ADMIN, OPS),
    ("POST", "/admin/ca/{id}/cross-sign"): (ADMIN, OPS),
    ("GET", "/admin/cross-certs"): (ADMIN, OPS, AUDIT),
    ("GET", "/admin/cas"): (ADMIN, OPS),
    ("GET", "/admin/cas/{id}"): (ADMIN, OPS),
    ("GET", "/admin/cas/{id}/cert"): (ADMIN, OPS),
    ("GET", "/admin/profiles"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/profiles/{id}"): (ADMIN, OPS, RA, AUDIT),
    ("POST", "/admin/profiles"): (ADMIN,),
    ("PUT", "/admin/profiles/{id}"): (ADMIN,),
    ("DELETE", "/admin/profiles/{id}"): (ADMIN,),
    ("POST", "/admin/eab"): (ADMIN, OPS),
    ("GET", "/admin/eab"): (ADMIN, OPS, RA, AUDIT),
    ("GET", "/admin/eab/{kid}"): (ADMIN, OPS, RA, AUDIT),
    ("DELETE", "/admin/eab/{kid}"): (ADMIN, OPS),
}
"""Which roles may call each route of the admin listener; None: it proves its callers itself. The guide has the same table."""


@pytest.fixture
async def office(start_service, tmp_path):
    async with forgetful() as http:
        yield await open_office(start_service, http, tmp_path)


@pytest.fixture
async def office_of(start_service, tmp_path, database_url):
    async with forgetful() as http:
        yield await open_office(start_service, http, tmp_path, "ca-admin", "ca", database={"url": database_url})


def routes_of(office):
    return [route for route in office.service.kernel.routes if route.listener == "admin"]


def path_of(route):
    return route.path.replace("{id}", "x").replace("{kid}", "x")


async def test_s120_ca_193_ca_194_every_route_for_every_role(office):
    routes = routes_of(office)
    assert {(route.method, route.path) for route in routes} == MATRIX.keys()

    wrong = []
    for route in sorted(routes, key=lambda route: (route.method == "DELETE" and route.path == "/admin/session", route.path)):
        allowed = MATRIX[route.method, route.path]
        if allowed is None:
            assert not isinstance(route.auth, Operator)
            continue
        stranger = await office.ask(route.method, path_of(route))
        statuses = {role: (await office.ask(route.method, path_of(route), token=token)).status for role, token in office.tokens.items()}
        refused = {role for role, status in statuses.items() if status == 403}
        if stranger.status != 401 or refused != set(OPERATOR_ROLES) - set(allowed) or {401, 500} & set(statuses.values()):
            wrong.append((route.method, route.path, stranger.status, statuses))
    assert wrong == []


async def test_s120_nothing_of_it_is_on_the_main_listener(office):
    for route in routes_of(office):
        if route.path in {"/healthz", "/readyz"}:
            continue
        async with office.http.request(route.method, office.service.url + path_of(route)) as answer:
            assert answer.status == 404, route.path


async def test_s120_a_registration_authority_makes_no_eab_keys_and_a_lower_role_gets_no_further(office):
    refused = [
        await office.post("/admin/eab", token=office.tokens[RA], json={"kid": "k", "hmac_key_b64u": "A" * 43}),
        await office.post("/admin/operators", token=office.tokens[OPS], json={"name": "x", "role": "administrator"}),
        await office.get("/admin/config", token=office.tokens[AUDIT]),
    ]

    assert [answer.status for answer in refused] == [403, 403, 403]
    assert all(answer.json["type"].endswith(":unauthorized") for answer in refused)


async def test_a_registration_authority_sees_and_revokes_what_its_ca_issued_alone(office_of):
    office, token = office_of, office_of.tokens[RA]
    mine, foreign = await office.certify("a.example"), await office.certify("b.example", "other")

    listed = (await office.get("/admin/certs?ca_id=other", token=token)).json
    seen = [(await office.get(f"/admin/certs/{one.id}", token=token)).status for one in (mine, foreign)]
    fetched = [(await office.get(f"/admin/certs/{one.id}/download", token=token)).status for one in (mine, foreign)]
    many = await office.post("/admin/revocations", token=token, json={"cert_ids": [foreign.id]})
    revoked = [(await office.post("/admin/revoke", token=token, json={"cert_id": one.id})).status for one in (mine, foreign)]
    unknown = await office.post("/admin/revoke", token=token, json={"cert_id": "x"})

    assert [one["id"] for one in listed] == [mine.id]
    assert (seen, fetched, revoked, unknown.status) == ([200, 404], [200, 404], [204, 403], 404)
    assert many.json == {"revoked": [], "refused": [{"cert_id": foreign.id, "detail": "the certificate is of another CA"}]}
    assert {one["ca_id"] for one in (await office.get("/admin/profiles", token=token)).json["profiles"]} == {"default"}


async def test_certificates_are_found_by_what_they_are(office_of):
    office, token = office_of, office_of.tokens[AUDIT]
    made = [await office.certify(name, ca_id) for name, ca_id in (("a.example", None), ("www.b.example", None), ("c.test", "other"))]
    ids = [one.id for one in made]
    spki, serial, now = made[1].spki_sha256.hex(), made[2].serial.hex(":"), int(time.time())

    async def found(query):
        answer = await office.get(f"/admin/certs?{query}", token=token)
        assert answer.status == 200, answer.text
        return sorted(ids.index(one["id"]) for one in answer.json)

    assert await found("") == await found("status=active") == await found(f"issued_after={now - 900}&ends_after={now}") == [0, 1, 2]
    assert await found(f"spki={spki}") == await found("subject=WWW.b.example") == await found("subject=.b.example") == [1]
    assert await found(f"serial={serial}") == await found("ca_id=other") == await found("subject=c.test&ca_id=other") == [2]
    assert await found("subject=b.example") == await found("subject=.example") == await found("subject=One") == []
    assert await found("subject=nobody") == await found(f"issued_before={now - 900}") == []
    assert await found(f"ends_before={now}") == await found("account_id=x") == await found("profile=x") == []
    page = await office.get("/admin/certs?limit=2", token=token)
    rest = await office.get(page.headers["Link"].partition(">")[0].removeprefix(f"<{office.service.url}"), token=token)
    assert (len(page.json), len(rest.json)) == (2, 1)
    assert sorted(one["names"] for one in page.json + rest.json) == [["a.example"], ["c.test"], ["www.b.example"]]
    wrong = [await office.get(f"/admin/certs?{query}", token=token) for query in ("status=good", "spki=x", "serial=0", "issued_after=-1")]
    assert [answer.status for answer in wrong] == [400] * 4


async def test_a_certificate_is_shown_fetched_and_revoked_and_the_lists_say_so(office_of):
    office, token = office_of, office_of.tokens[OPS]
    one = await office.certify("a.example")

    pem = await office.get(f"/admin/certs/{one.id}/download", token=token)
    der = await office.get(f"/admin/certs/{one.id}/download?format=der", token=token)
    answers = await asyncio.gather(
        *(office.post("/admin/revoke", token=token, json={"cert_id": one.id, "reason": "superseded"}) for _ in range(4))
    )
    shown = (await office.get(f"/admin/certs/{one.id}", token=office.tokens[AUDIT])).json
    bad = await office.post("/admin/revoke", token=token, json={"cert_id": one.id, "reason": 6})

    chain = x509.load_pem_x509_certificates(pem.body)
    assert (der.body, der.headers["Content-Type"]) == (one.der, "application/pkix-cert")
    assert [x509.load_der_x509_certificate(one.der), x509.load_der_x509_certificate(one.chain[0])] == chain
    assert sorted(answer.status for answer in answers) == [204, 409, 409, 409]
    assert (shown["status"], shown["reason"], shown["names"], bad.status) == ("revoked", "superseded", ["a.example"], 400)
    assert (await office.get(f"/admin/certs/{one.id}/download?format=txt", token=token)).status == 400
    assert [event.principal for event in await office.events("cert.revoke")] == ["ca_operations"]
    async with office.http.get(f"{office.service.url}/ca/crl") as answer:
        revoked = x509.load_der_x509_crl(await answer.read()).get_revoked_certificate_by_serial_number(int.from_bytes(one.serial))
    assert revoked is not None


async def test_many_are_revoked_at_once_and_who_cannot_be_is_named(office_of):
    office, token = office_of, office_of.tokens[OPS]
    made = [(await office.certify(f"{name}.example")).id for name in "abc"]
    assert (await office.post("/admin/revoke", token=token, json={"cert_id": made[0]})).status == 204

    answer = await office.post("/admin/revocations", token=token, json={"cert_ids": [*made, "x"], "reason": "cessationOfOperation"})
    wrong = [[], ["x"] * 2, [str(number) for number in range(501)]]
    refused = [(await office.post("/admin/revocations", token=token, json={"cert_ids": ids})).status for ids in wrong]
    bad = await office.post("/admin/revocations", token=token, json={"cert_ids": made, "reason": 2})

    assert answer.json["revoked"] == made[1:]
    assert [one["cert_id"] for one in answer.json["refused"]] == [made[0], "x"]
    assert (refused, bad.status) == ([400, 400, 400], 400)


async def test_the_certificate_of_a_ca_is_revoked_by_itself_and_by_no_registration_authority(office_of):
    office = office_of
    parts = office.service.kernel.hooks.instances["ca"].parts(office.service.host("ca"))
    made = await parts.ceremonies.cross("default", parts.authorities.issuing["other"].chain[0], days=30, path_length=0, by="test")

    many = await office.post("/admin/revocations", token=office.tokens[OPS], json={"cert_ids": [made.id]})
    refused = await office.post("/admin/revoke", token=office.tokens[RA], json={"cert_id": made.id})
    revoked = await office.post("/admin/revoke", token=office.tokens[OPS], json={"cert_id": made.id})

    assert many.json["refused"] == [{"cert_id": made.id, "detail": "it is the certificate of a CA; revoke it by itself"}]
    assert (refused.status, revoked.status) == (403, 204)


async def test_the_cas_their_profiles_and_lists(office_of):
    office, token = office_of, office_of.tokens[OPS]
    cas = (await office.get("/admin/cas", token=token)).json["cas"]
    one = (await office.get("/admin/cas/other", token=token)).json
    chain = x509.load_pem_x509_certificates((await office.get("/admin/cas/other/cert", token=token)).body)
    forced = [(await office.post("/admin/ca/other/crl/force", token=token)).json["crl_numbers"]["other"] for _ in range(2)]
    every = (await office.post("/admin/crl/force", token=token)).json["crl_numbers"]

    assert [(ca["id"], ca["is_default"]) for ca in cas] == [("default", True), ("other", False)]
    assert (one["subject"], len(chain), one["profiles"]) == (chain[0].subject.rfc4514_string(), 2, ["default"])
    assert all(after > before for before, after in zip(*forced, strict=False))
    assert every.keys() == {"default", "other"}
    noted = (await office.get("/admin/audit?type=crl.force", token=office.tokens[ADMIN])).json["events"]
    assert [one["detail"].rpartition(" ")[2] for one in noted] == ["other", "default", "other", "other"]
    assert {one["principal"] for one in noted} == {OPS}
    assert (await office.get("/admin/cas/x", token=token)).status == 404
    profile = (await office.get("/admin/profiles/default", token=token)).json
    assert (profile["ca_ids"], profile["validity_days"]) == (["default", "other"], 90)
    assert (await office.get("/admin/profiles/x", token=token)).status == 404
    stats = (await office.get("/admin/stats", token=token)).json
    assert stats["certs"] == {"total": 0, "active": 0, "revoked": 0}


async def test_the_root_of_a_ca_certifies_another_one_while_the_service_runs(office_of):
    office, token = office_of, office_of.tokens[OPS]
    below, root = x509.load_pem_x509_certificates((await office.get("/admin/cas/default/cert", token=token)).body)
    above = x509.load_pem_x509_certificates((await office.get("/admin/cas/other/cert", token=token)).body)[-1]
    leaf = x509.load_der_x509_certificate((await office.certify("a.example")).der)
    path, pem = "/admin/ca/other/cross-sign", root.public_bytes(Encoding.PEM).decode()
    bodies = [{"subject_ca_id": "default"}, {"subject_cert_pem": pem, "validity_years": 1, "path_length": 2}] * 2
    answers = await asyncio.gather(*(office.post(path, token=token, json=body) for body in bodies))
    listed = await office.get("/admin/cross-certs?limit=3", token=office.tokens[AUDIT])
    rest = await office.get(f"/admin/cross-certs?limit=3&after={listed.json[-1]['id']}", token=office.tokens[AUDIT])
    async with office.http.get(f"{office.service.url}/ca/other/cross-certs") as public:
        in_force = x509.load_pem_x509_certificates(await public.read())

    assert [answer.status for answer in answers] == [201] * 4
    assert sorted(one["id"] for one in listed.json + rest.json) == sorted(answer.json["id"] for answer in answers)
    assert len({answer.json["serial"] for answer in answers}) == 4 == len(in_force)
    cross = x509.load_pem_x509_certificate(answers[1].json["certificate"].encode())
    assert (cross.subject, cross.public_key(), answers[1].json["ca_id"]) == (root.subject, root.public_key(), "other")
    assert cross.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 2
    assert 360 < (cross.not_valid_after_utc - cross.not_valid_before_utc).days <= 365
    verifier = PolicyBuilder().store(Store([above])).time(datetime.now(UTC)).build_server_verifier(x509.DNSName("a.example"))
    assert len(verifier.verify(leaf, [below, cross])) == 4
    asked = await office.events("ca.cross_sign")
    assert [(event.sub, event.principal) for event in asked] == [("other", OPS)] * 4
    assert {event.detail.split()[1] for event in asked} == {answer.json["id"] for answer in answers}

    revoked = await office.post("/admin/revoke", token=token, json={"cert_id": answers[0].json["id"]})
    left = (await office.get("/admin/cross-certs", token=token)).json
    assert (revoked.status, [one["id"] for one in left if one["status"] == "revoked"]) == (204, [answers[0].json["id"]])


@pytest.mark.parametrize(
    ("ca_id", "body", "status", "words"),
    [
        ("x", {"subject_ca_id": "other"}, 404, "there is no such CA"),
        ("default", {}, 400, "give one of them"),
        ("default", {"subject_ca_id": "other", "subject_cert_pem": "x"}, 400, "give one of them"),
        ("default", {"subject_ca_id": "x"}, 400, "expected one of default, other"),
        ("default", {"subject_ca_id": "default"}, 400, "a key of this CA itself"),
        ("default", {"subject_cert_pem": "x"}, 400, "is no certificate and no request of a CA"),
        ("default", {"subject_ca_id": "other", "validity_years": 0}, 400, "validity_years"),
        ("default", {"subject_ca_id": "other", "path_length": 11}, 400, "path_length"),
        ("default", {"subject_ca_id": "other", "more": 1}, 400, "more"),
    ],
    ids=str,
)
async def test_what_cannot_be_cross_signed_is_refused_and_nothing_is_signed(office, ca_id, body, status, words):
    answer = await office.post(f"/admin/ca/{ca_id}/cross-sign", token=office.tokens[ADMIN], json=body)

    assert (answer.status, words in answer.json["detail"]) == (status, True), answer.text
    assert (await office.get("/admin/cross-certs", token=office.tokens[ADMIN])).json == []


async def test_a_root_that_is_not_here_or_whose_key_is_blocked_cross_signs_nothing(office):
    host, path = office.service.host("ca"), "/admin/ca/default/cross-sign"
    root = x509.load_pem_x509_certificates((await office.get("/admin/cas/default/cert", token=office.tokens[ADMIN])).body)[-1]
    await host.db.write(lambda tx: host.blocked_keys.block(tx, spki_sha256(root.public_key()), reason="keyCompromise", by="test"))
    blocked = await office.post(path, token=office.tokens[ADMIN], json={"subject_ca_id": "other"})

    assert (blocked.status, "is blocked" in blocked.json["detail"]) == (409, True)


async def test_a_certificate_of_this_ca_that_was_revoked_signs_nobody_in(office_of):
    """Of an operator, whose certificate this service issued."""
    office = office_of
    one = await office.certify("operator.example")
    await office.post("/admin/revoke", token=office.tokens[ADMIN], json={"cert_id": one.id})
    proofs = office.service.kernel.hooks.instances["ca-admin"]._parts.proofs
    good = await office.certify("another.example")

    assert await proofs.of_certificate(one.der) == "the certificate was revoked"
    assert await proofs.of_certificate(good.der) is None


async def test_a_certificate_of_this_ca_that_is_revoked_ends_the_session_of_its_operator(office_of):
    office = office_of
    one = await office.certify("operator.example")
    body = {"name": "ann", "role": "auditor", "cert_fingerprint": sha256(one.der).hexdigest()}
    ann = (await office.post("/admin/operators", token=office.tokens[ADMIN], json=body)).json["id"]
    sessions = office.service.kernel.hooks.instances["ca-admin"]._parts.sessions
    token = await office.service.kernel.store.write(sessions.begin, ann, Proof(certificate=one.der))
    before = await office.get("/admin/session", token=token)
    await office.post("/admin/revoke", token=office.tokens[ADMIN], json={"cert_id": one.id})

    assert (before.status, (await office.get("/admin/session", token=token)).status) == (200, 401)
    assert [(event.sub, event.detail) for event in await office.events("admin.logout")] == [("ann", "the certificate was revoked")]


def other_ca(folder, openssl):
    """The root of somebody else."""
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", folder / "other.key"]
    subprocess.run([openssl, *made, "-out", folder / "other.pem", "-subj", "/CN=Other", "-days", "90"], check=True, capture_output=True)
    return folder / "other.pem"


def test_ca_008_ca_009_curl_signs_in_with_a_client_certificate(database_url, tmp_path, program):
    curl, openssl = program("curl", "curl"), program("openssl", "openssl")
    server, root = Server(tmp_path, database=database_url), Person.of(tmp_path, "root")
    section = admin_section(tmp_path, root)
    port = free_port()
    section["listen"] = f"127.0.0.1:{port}"
    lines = "\n".join(f'{name} = "{value}"' for name, value in section.items())
    before = server.configuration.read_text()
    url = f"https://localhost:{port}/admin"

    def asked(*arguments):
        command = [curl, "--silent", "--show-error", "--cacert", str(tmp_path / "localhost.pem"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    with server.forked():
        assert asked(f"{url}/session").returncode == 7  # nobody listens
    server.configuration.write_text(f"{before}\n[admin]\n{lines}\n")
    with server.forked():
        nobody = asked("--write-out", "%{http_code}", "--output", "/dev/null", "-X", "POST", f"{url}/session")
        signed_in = asked("--cert", str(root.cert_file), "--key", str(root.key_file), "-X", "POST", f"{url}/session")
        token = json.loads(signed_in.stdout)["session_token"]
        who = asked("--header", f"Authorization: Bearer {token}", f"{url}/session")
        made = asked("--header", f"Authorization: Bearer {token}", f"{url}/certs")
        body = json.dumps({"subject_cert_pem": other_ca(tmp_path, openssl).read_text(), "validity_years": 2})
        cross = asked("--header", f"Authorization: Bearer {token}", "--json", body, f"{url}/ca/default/cross-sign")
        (tmp_path / "cross.pem").write_text(json.loads(cross.stdout)["certificate"])
        (tmp_path / "root.pem").write_text(asked(f"{server.base_url}/ca/root.pem").stdout)
        verified = subprocess.run([openssl, "verify", "-CAfile", tmp_path / "root.pem", tmp_path / "cross.pem"], check=False)
        out = asked("--write-out", "%{http_code}", "--header", f"Authorization: Bearer {token}", "-X", "DELETE", f"{url}/session")

    assert nobody.stdout == "401"
    assert (json.loads(who.stdout)["name"], json.loads(made.stdout), out.stdout) == ("root", [], "204")
    assert verified.returncode == 0


def test_no_secret_of_any_plugin_is_in_the_configuration_that_is_shown(tmp_path):
    """Whatever key holds one, of the kernel and of every feature of both bundles."""
    url = "postgresql://greatseal:S3CRET@db.example/greatseal?sslpassword=S3CRET"
    every, users = dict.fromkeys([*features, *features_of_people]), {"file": str(tmp_path / "users.toml")}
    admin = {"listen": "127.0.0.1:0"}
    kernel = Kernel(document(tmp_path, [*every], database={"url": url}, users=users, admin=admin), serving=False)
    found = []
    for section, key, _, field, _ in kernel.binder.rows():
        kind = str(field.type)
        if "Secret" in kind:
            found.append((section, key))
        elif re.search("secret|password|token|hmac", key):  # what sounds like one is none
            assert not re.search(r"\bstr\b", kind), (section, key, kind)
    for table in (*kernel.bound.tables.values(), *(one for some in kernel.bound.repeated.values() for one in some)):
        for field in msgspec.structs.fields(table):
            if "Secret" in str(field.type):
                hidden = Secret("S3CRET")
                msgspec.structs.force_setattr(table, field.name, {"name": hidden} if "Mapping" in str(field.type) else hidden)

    shown = in_force(kernel.binder.declared, kernel.bound)

    assert {("admin", "metrics_token"), ("email_challenge", "webhook_hmac_secret"), ("server", "eab_master_secret")} <= set(found)
    assert "S3CRET" not in json.dumps(shown)
    assert [section for section, key in found if "(secret)" not in json.dumps(shown[section][key])] == []
    assert shown["database"]["url"] == "postgresql://greatseal:(secret)@db.example/greatseal?sslpassword=(secret)"


async def test_an_administrator_is_made_while_the_service_is_stopped(start_service, tmp_path):
    first, second = Person.of(tmp_path, "first"), Person.of(tmp_path, "second")
    url = f"sqlite:///{tmp_path}/kept.db"
    service = await start_service("ca-admin", admin=admin_section(tmp_path, first), database={"url": url})
    await service.stop()
    lines = [
        '[plugins]\nenabled = ["ca-admin"]',
        '[server]\nbase_url = "http://localhost:1"',
        f'[database]\nurl = "{url}"',
        f'[cluster]\nkey_file = "{service.kernel.cluster.key_file}"',
        '[admin]\nlisten = "127.0.0.1:0"',
    ]
    (tmp_path / "ca.toml").write_text("\n".join(lines))

    def run(*arguments):
        return CliRunner().invoke(main, ["operators", *arguments, "-c", str(tmp_path / "ca.toml")])

    made = await asyncio.to_thread(run, "add", "ada", "--certificate", str(second.cert_file))
    again = await asyncio.to_thread(run, "add", "bob", "--certificate", str(second.cert_file))
    wrong = await asyncio.to_thread(run, "add", "bob", "--certificate", str(second.key_file))
    listed = await asyncio.to_thread(run, "list")

    assert (made.exit_code, made.stdout) == (0, f"ada is an administrator: {second.fingerprint}\n"), made.output
    assert (again.exit_code != 0, "another operator has it" in again.output) == (True, True)
    assert (wrong.exit_code != 0, "expected one certificate in PEM" in wrong.output) == (True, True)
    assert [line.split()[:2] for line in listed.stdout.splitlines()] == [["ada", "administrator"], ["first", "administrator"]]
