"""A profile is what several plugins say of it: the CA, ACME's grants, Kerberos names."""

from cryptography import x509
from rig.acme import acme_site, csr_for

from greatseal.api.services import ACCOUNTS


async def test_ca_006_a_profile_may_need_a_grant_and_add_kerberos_names(start_service):
    profiles = {
        "default": {},
        "kerberos": {"validity_days": 7, "require_account_grant": True, "kpn_san_templates": ["HTTP/{dns}@EXAMPLE.COM"]},
    }
    async with acme_site(start_service, "san-kerberos", profiles=profiles) as site:
        client, accounts = await site.client(), site.service.kernel.service(ACCOUNTS)
        ready = await client.ready(site.responder, "b.localhost", profile="kerberos")
        refused = await client.finalize(ready.json, csr_for("b.localhost"))
        await site.service.host("acme").db.write(accounts.grant, client.kid.rpartition("/")[2], ("kerberos",))
        granted = await client.finalize(ready.json, csr_for("b.localhost"))
        pem = await client.post(granted.json["certificate"])

    assert (refused.status, refused.error) == (401, "unauthorized")
    leaf = x509.load_pem_x509_certificates(pem.body)[0]
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [type(one) for one in names] == [x509.DNSName, x509.OtherName]
    assert names[1].type_id.dotted_string == "1.3.6.1.5.2.2"
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days == 6
