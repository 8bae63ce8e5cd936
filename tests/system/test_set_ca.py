"""What the set `ca` brings, as a client sees it."""

import aiohttp
import pytest
from rig.acme import AcmeClient

from greatseal.testing.service import document, serve

ONION = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"
ISSUER = "ca.example"


@pytest.fixture
def config(tmp_path):
    """Every one of its features; two types are offered once the keys that they need are given."""
    script = tmp_path / "send"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    mail = {"enabled": True, "from_address": "acme@ca.example", "send_script": str(script), "webhook_hmac_secret": "of the mail server"}
    given = document(tmp_path, [], server={"state_dir": str(tmp_path), "dns_persist_issuer_domains": ISSUER}, email_challenge=mail)
    return {**given, "plugins": {"sets": ["ca"]}}


async def test_ca_002_the_set_offers_six_types_of_challenges(config):
    mail = {"type": "email", "value": "ann@example.com"}
    offered = {}
    async with serve(config) as service, aiohttp.ClientSession() as session:
        client = await AcmeClient.connect(session, service.url)
        await client.register()
        for identifier in ("a.example", "*.a.example", {"type": "ip", "value": "192.0.2.1"}, ONION, mail):
            made = await client.order(identifier)
            (listed,) = made.json["authorizations"]
            name = identifier if isinstance(identifier, str) else identifier["type"]
            offered[name] = {one["type"] for one in (await client.post(listed)).json["challenges"]}

    assert offered == {
        "a.example": {"http-01", "dns-01", "tls-alpn-01", "dns-persist-01"},
        "*.a.example": {"dns-01", "dns-persist-01"},
        "ip": {"http-01", "tls-alpn-01"},
        ONION: {"onion-csr-01"},
        "email": {"email-reply-00"},
    }
