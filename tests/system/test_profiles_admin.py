"""Profiles that administrators make while the service runs."""

import pytest
from cryptography import x509
from rig.operators import ADMIN, TWO, open_office

from greatseal.api.acme import InvalidProfile
from greatseal.testing.desk import forgetful
from greatseal.testing.operator_desk import admin_section

SHORT = {"id": "short", "validity_days": 6, "crl_url": "", "ocsp_url": "", "eku": ["serverAuth", "clientAuth"]}
ENABLED = ("ca-admin", "ca", "acme", "http-01", "resolver", "san-kerberos")


def kept(folder, database_url):
    """What a second start has in common with the first."""
    return {"database": {"url": database_url}, "cluster": {"key_file": str(folder / "cluster.key")}, "profiles": {"fixed": {}}}


@pytest.fixture
async def office(start_service, tmp_path, database_url):
    async with forgetful() as http:
        yield await open_office(start_service, http, tmp_path, *ENABLED, **kept(tmp_path, database_url))


async def made(office, **body):
    return await office.post("/admin/profiles", token=office.tokens[ADMIN], json=body)


async def shown(office):
    """What the directories of both CAs offer."""
    found = []
    for path in ("", "/other"):
        async with office.http.get(f"{office.service.url}/acme{path}/directory") as answer:
            found.append((await answer.json())["meta"]["profiles"].keys())
    return found


async def certified(office, profile):
    return x509.load_der_x509_certificate((await office.certify("a.example", profile=profile)).der)


async def test_a_profile_is_in_force_from_the_reply_on_and_gone_when_it_is_deleted(office):
    token = office.tokens[ADMIN]

    answer = await made(office, **SHORT)
    certificate = await certified(office, "short")
    offered = await shown(office)
    changed = await office.ask("PUT", "/admin/profiles/short", token=token, json={"validity_days": 3, "ca_ids": ["default"]})
    narrowed, second = await shown(office), await certified(office, "short")
    gone = await office.ask("DELETE", "/admin/profiles/short", token=token)

    settings = {name: value for name, value in SHORT.items() if name != "id"}
    assert (answer.status, answer.json["source"], answer.json["settings"]) == (201, "operator", settings)
    assert answer.json["ca_ids"] == ["default", "other"]
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days in {5, 6}
    kinds = {type(one.value) for one in certificate.extensions}
    assert x509.CRLDistributionPoints not in kinds
    assert [set(one) for one in offered] == [{"fixed", "short"}] * 2
    assert (changed.status, changed.json["ca_ids"], changed.json["validity_days"]) == (200, ["default"], 3)
    assert [set(one) for one in narrowed] == [{"fixed", "short"}, {"fixed"}]
    assert x509.CRLDistributionPoints in {type(one.value) for one in second.extensions}, "what the former settings made is not kept"
    assert gone.status == 204
    assert [set(one) for one in await shown(office)] == [{"fixed"}] * 2
    with pytest.raises(InvalidProfile):
        await certified(office, "short")
    noted = (await office.get("/admin/audit?limit=10", token=token)).json["events"]
    events = [(one["event_type"], one["principal"], one["detail"]) for one in noted if one["event_type"].startswith("profile.")]
    assert events == [(f"profile.{what}", "root", "profile short") for what in ("delete", "update", "create")]


async def test_a_profile_outlives_the_service_and_other_plugins_read_theirs(office, start_service, tmp_path, database_url):
    kerberos = {"id": "host", "kpn_san_templates": ["HTTP/{dns}@EXAMPLE.ORG"], "require_account_grant": True}
    assert (await made(office, **kerberos)).status == 201
    await office.service.stop()

    office.service = await start_service(
        *ENABLED, ca=TWO, admin=admin_section(tmp_path, office.root), clock=office.clock, **kept(tmp_path, database_url)
    )

    assert [set(one) for one in await shown(office)] == [{"fixed", "host"}] * 2
    certificate = await certified(office, "host")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(names.get_values_for_type(x509.OtherName)) == 1


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"id": "Big", "validity_days": 1}, 400, "id: expected 1 to 64 of a-z, 0-9"),
        ({"validity_days": 1}, 400, "id: expected 1 to 64 of a-z, 0-9"),
        ({"id": "x", "validity_day": 1}, 400, "[profiles.x] validity_day: unknown key; did you mean 'validity_days'?"),
        ({"id": "x", "validity_days": "1"}, 400, "[profiles.x] validity_days: expected"),
        ({"id": "x", "allowed_identifier_patterns": ["("]}, 400, "allowed_identifier_patterns"),
        ({"id": "x", "ca_ids": ["third"]}, 400, "ca_ids: 'third' is no [ca] id"),
        ({"id": "x", "issue_as": "mtc"}, 400, "issue_as: no enabled plugin issues this"),
        ({"id": "x", "issue_as": "root"}, 400, "issue_as: no enabled plugin issues this"),
        ({"id": "x", "validity_days": 36500}, 400, "validity_days: 36500 days are more than"),
        ({"id": "x", "must_staple": "always", "ocsp_url": ""}, 400, "must_staple: certificates of CA 'default' name no OCSP responder"),
        ({"id": "x", "auth_hook": "/bin/true"}, 400, "auth_hook: the configuration file alone says this"),
        ({"id": "x", "kpn_san_templates": ["no realm"]}, 400, "kpn_san_templates"),
        ({"id": "fixed"}, 409, "there is a profile of that id"),
    ],
)
async def test_what_no_start_would_take_is_refused_and_nothing_is_kept(office, body, status, said):
    answer = await made(office, **body)

    assert answer.status == status, answer.text
    assert said in answer.json["detail"]
    assert [set(one) for one in await shown(office)] == [{"fixed"}] * 2


async def test_those_of_the_configuration_and_the_last_of_a_ca_stay(office):
    token = office.tokens[ADMIN]

    refused = [
        await office.ask("PUT", "/admin/profiles/fixed", token=token, json={}),
        await office.ask("DELETE", "/admin/profiles/fixed", token=token),
        await office.ask("PUT", "/admin/profiles/none", token=token, json={}),
        await office.ask("DELETE", "/admin/profiles/none", token=token),
        await office.ask("PUT", "/admin/profiles/fixed", token=token, json={"id": "other"}),
    ]

    assert [answer.status for answer in refused] == [403, 403, 404, 404, 400]
    assert (await office.get("/admin/profiles/fixed", token=token)).json["source"] == "configuration"


async def test_the_built_in_profile_is_replaced_for_every_ca_and_comes_back(start_service, tmp_path, database_url):
    async with forgetful() as http:
        sections = {name: value for name, value in kept(tmp_path, database_url).items() if name != "profiles"}
        office = await open_office(start_service, http, tmp_path, *ENABLED, **sections)
        token = office.tokens[ADMIN]

        one_ca = await made(office, id="default", ca_ids=["other"])
        both = await made(office, id="default", validity_days=6)
        shorter = (await office.get("/admin/profiles/default", token=token)).json
        gone = await office.ask("DELETE", "/admin/profiles/default", token=token)
        back = (await office.get("/admin/profiles/default", token=token)).json

    assert (one_ca.status, "CA 'default' has no other profile" in one_ca.json["detail"]) == (400, True)
    assert (both.status, shorter["validity_days"], gone.status) == (201, 6, 204)
    assert (back["source"], back["validity_days"], back["ca_ids"]) == ("configuration", 90, ["default", "other"])
