"""Several CAs in one server: each has its paths, and what belongs to one is not found below another's."""

from collections.abc import AsyncIterator

import pytest
from cryptography import x509
from rig.acme import AcmeClient, Site, acme_site, csr_for

from greatseal.api.problems import StartProblem
from greatseal.testing.service import Kernel, document

CAS = [{"id": "one"}, {"id": "two", "is_default": True}]
PROFILES = {"shared": {}, "short": {"validity_days": 7, "ca_ids": ["one"]}}


@pytest.fixture
async def site(start_service, database_url) -> AsyncIterator[Site]:
    async with acme_site(start_service, database=database_url, ca=CAS, profiles=PROFILES) as site:
        yield site


@pytest.fixture
async def scoped(start_service) -> AsyncIterator[Site]:
    async with acme_site(start_service, server={"account_scope": "ca"}, ca=CAS) as site:
        yield site


def others(client: AcmeClient, url: str) -> dict[str, str]:
    """The URL of an object below the paths of the other CA."""
    base, _, path = url.partition("/acme/")
    rest = path.removeprefix("one/")
    return {"one": f"{base}/acme/one/{rest}", "two": f"{base}/acme/two/{rest}", "default": f"{base}/acme/{rest}"}


async def test_each_ca_has_its_paths_and_issues_below_them(site):
    key = (await site.client(register=False)).key
    clients = {name: await site.client(key, ca=name) for name in ("", "one", "two")}
    issuers = {}
    for name, client in clients.items():
        leaf, _ = await client.issue(site.responder, f"{name or 'bare'}.localhost")
        pem = await client.get(f"{site.url}/ca/{name and f'{name}/'}chain.pem")
        issuers[name] = x509.load_pem_x509_certificates(pem.body)[0]
        leaf.verify_directly_issued_by(issuers[name])

    assert issuers[""] == issuers["two"] != issuers["one"]
    assert len({client.kid for client in clients.values()}) == 1  # one account for all CAs
    assert clients["one"].kid.startswith(f"{site.url}/acme/account/")
    for name, client in clients.items():
        root = f"{site.url}/acme/{name and f'{name}/'}"
        urls = [url for member, url in client.directory.items() if member.startswith("new")]
        assert urls
        assert all(url.startswith(root + member) for url, member in zip(urls, ("new-nonce", "new-account", "new-order"), strict=False))


async def test_every_url_of_an_object_is_below_the_path_that_the_client_uses(site):
    client = await site.client(ca="one")
    root = f"{site.url}/acme/one"

    ready = await client.ready(site.responder, "a.localhost")
    (authorization_url,) = ready.json["authorizations"]
    authorization = await client.post(authorization_url)
    challenge = await client.post(authorization.json["challenges"][0]["url"])
    done = await client.finalize(ready.json, csr_for("a.localhost"))
    certificate = await client.post(done.json["certificate"])
    nonce = await client.get(client.directory["newNonce"], "HEAD")

    seen = [
        ready.location,
        authorization_url,
        challenge.json["url"],
        done.json["finalize"],
        done.json["certificate"],
        challenge.links["up"],
    ]
    assert all(url.startswith(f"{root}/") for url in seen)
    for answer in (ready, authorization, challenge, done, certificate, nonce):
        assert answer.links["index"] == f"{root}/directory"


async def test_s108_what_belongs_to_one_ca_is_not_found_below_another(site):
    client = await site.client(ca="one")
    made = await client.order("a.localhost")
    (authorization_url,) = made.json["authorizations"]
    challenge = await client.challenge(authorization_url)
    ready = await client.ready(site.responder, "b.localhost")
    done = await client.finalize(ready.json, csr_for("b.localhost"))

    requests = [
        (made.location, None), (made.json["finalize"], {"csr": ""}), (authorization_url, None),
        (authorization_url, {"status": "deactivated"}), (challenge["url"], None), (challenge["url"], {}), (done.json["certificate"], None),
    ]  # fmt: skip
    for url, payload in requests:
        for name, other in others(client, url).items():
            answer = await client.post(other, payload)
            assert (name == "one" and answer.error in {"", "orderNotReady"}) or (answer.status, answer.error) == (401, "unauthorized")
    below = others(client, done.json["certificate"])
    assert [(await client.get(below[name])).status for name in ("one", "two", "default")] == [200, 404, 404]


async def test_a_profile_is_offered_by_its_cas(site):
    one, two = await site.client(ca="one"), await site.client(ca="two")

    chosen, refused = await one.order("a.localhost", profile="short"), await two.order("a.localhost", profile="short")

    assert set(one.directory["meta"]["profiles"]) == {"shared", "short"}
    assert one.directory["meta"]["profiles"]["short"] == "7 days, serverAuth"
    assert set(two.directory["meta"]["profiles"]) == {"shared"}
    assert chosen.json["profile"] == "short"
    assert (refused.status, refused.error) == (400, "invalidProfile")


async def test_a_ca_that_is_not_there_is_not_found(site):
    client = await site.client()

    answers = [
        await client.get(f"{site.url}/acme/three/directory"), await client.get(f"{site.url}/acme/three/new-nonce"),
        await client.post(f"{site.url}/acme/three/new-order", {"identifiers": []}),
        await client.post(f"{site.url}/acme/three/new-account", {}, kid=None, jwk=client.key.jwk),
    ]  # fmt: skip

    assert [(one.status, one.error) for one in answers] == [(404, "malformed")] * 4


async def test_accounts_that_belong_to_a_ca_have_its_urls_and_are_unknown_to_the_others(scoped):
    key = (await scoped.client(register=False)).key
    one, two, bare = [await scoped.client(key, ca=ca) for ca in ("one", "two", "")]
    again = await one.register()

    assert one.kid.startswith(f"{scoped.url}/acme/one/account/")
    assert two.kid == bare.kid  # the default CA, below its id and without
    assert two.kid.startswith(f"{scoped.url}/acme/account/")
    assert (again.status, again.location) == (200, one.kid)
    assert (await one.post(one.kid)).json["status"] == "valid"
    await one.issue(scoped.responder, "a.localhost")

    strange = await two.post(two.directory["newOrder"], {"identifiers": []}, kid=one.kid)
    renamed = one.kid.replace("/one/account/", "/account/")
    taken = await two.post(two.directory["newOrder"], {"identifiers": []}, kid=renamed)
    assert (strange.status, strange.error) == (400, "malformed")
    assert (taken.status, taken.error) == (400, "accountDoesNotExist")


async def test_an_account_key_of_any_ca_is_no_certificate_key(scoped):
    one, two = await scoped.client(ca="one"), await scoped.client(ca="two")
    ready = await one.ready(scoped.responder, "a.localhost")

    refused = await one.finalize(ready.json, csr_for("a.localhost", key=two.key.private))

    assert (refused.status, refused.error) == (400, "badCSR")


@pytest.mark.parametrize("id", ["order", "directory", "renewal-info"])
def test_the_id_of_a_ca_is_no_name_in_the_paths_of_acme(tmp_path, id):
    with pytest.raises(StartProblem) as refused:
        Kernel(document(tmp_path, ["acme", "ca", "http-01", "resolver"], ca={"id": id}))

    assert [message for message in refused.value.messages if f"id: {id!r} is a word in the paths" in message]
