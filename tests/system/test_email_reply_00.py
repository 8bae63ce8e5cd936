"""Certificates for mail addresses over HTTP: the program that sends, the webhook that hears of replies, and what each of them decides."""

import asyncio
import hmac
import json
from base64 import urlsafe_b64decode
from contextlib import asynccontextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from rig.acme import AcmeClient, Answer, Site, acme_site, b64url, eventually, read
from sqlalchemy import select

from greatseal.testing import FakeClock
from greatseal_acme import tables

SECRET = "the secret of the mail server"
FROM = "acme@ca.example"
KEPT = select(tables.challenge.c.kept)
SENDS = """\
#!/bin/sh
cat /proc/$$/environ > "{folder}/$ACME_TO.part"
mv "{folder}/$ACME_TO.part" "{folder}/$ACME_TO"
case "$ACME_TO" in fails@*) exit 3;; hangs@*) exec sleep 600;; esac
"""


class Post:
    """The mail server of the test: it keeps what the program was given, and tells of replies."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder

    def mail(self, address: str) -> dict[str, str]:
        """The environment of the program for the mail to ``address``."""
        entries = (self.folder / address).read_bytes().split(b"\0")
        return dict(entry.decode().split("=", 1) for entry in entries if entry)

    def reply(self, client: AcmeClient, address: str, token: str, **changes: Any) -> dict[str, Any]:
        """What the server says of a right reply, with changes."""
        mail = self.mail(address)
        part1 = mail["ACME_SUBJECT"].removeprefix("ACME: ")
        response = b64url(sha256(f"{part1}{token}.{client.key.thumbprint}".encode()).digest())
        told = {
            "from": address,
            "in_reply_to": mail["ACME_MESSAGE_ID"],
            "dkim_domain": address.rpartition("@")[2],
            "dkim_status": "pass",
            "body": f"-----BEGIN ACME RESPONSE-----\r\n{response}\r\n-----END ACME RESPONSE-----\r\n",
        }
        return told | changes

    async def tell(self, told: object, *, signature: str | None = None, secret: str = SECRET) -> Answer:
        body = told if isinstance(told, bytes) else json.dumps(told).encode()
        made = f"sha256={hmac.digest(secret.encode(), body, sha256).hex()}" if signature is None else signature
        headers = {"Content-Type": "application/json", "X-Service-Signature": made}
        async with self.site.session.post(f"{self.site.url}/acme/email-webhook", data=BytesIO(body), headers=headers) as answer:
            return await read(answer)


@asynccontextmanager
async def mail_site(start_service, folder: Path, **sections: Any):
    script = folder / "send"
    script.write_text(SENDS.format(folder=folder))
    script.chmod(0o755)
    mail = {"enabled": True, "from_address": FROM, "send_script": str(script), "webhook_hmac_secret": SECRET, "send_script_timeout_secs": 5}
    profiles = {"default": {"eku": ["emailProtection"]}}
    sections["email_challenge"] = mail | sections.get("email_challenge", {})
    async with acme_site(start_service, "email-reply-00", profiles=profiles, **sections) as site:
        yield Post(site, folder)


@pytest.fixture
async def post(start_service, tmp_path):
    async with mail_site(start_service, tmp_path) as post:
        yield post


async def ordered(client: AcmeClient, address: str) -> tuple[Answer, dict[str, Any]]:
    """An order for an address, and its only challenge."""
    made = await client.order({"type": "email", "value": address})
    assert made.status == 201, made.body
    (challenge,) = (await client.post(made.json["authorizations"][0])).json["challenges"]
    assert challenge["type"] == "email-reply-00"
    return made, challenge


async def answered(post: Post, client: AcmeClient, address: str) -> tuple[Answer, dict[str, Any]]:
    """The same after the client's POST: the mail is on its way."""
    made, challenge = await ordered(client, address)
    answer = await client.post(challenge["url"], {})
    assert (answer.status, answer.json["status"]) == (200, "processing")
    return made, challenge


def csr_of(address: str) -> bytes:
    builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.RFC822Name(address)]), critical=False)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.DER)


async def certified(client: AcmeClient, order: str, address: str) -> None:
    """The order gives a certificate for mail with the address as its only name."""
    done = await client.finalize((await client.post(order)).json, csr_of(address))
    assert done.status == 200, done.body
    leaf, _ = x509.load_pem_x509_certificates((await client.post(done.json["certificate"])).body)
    assert list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == [x509.RFC822Name(address)]
    assert list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.EMAIL_PROTECTION]


async def test_ca_026_ca_027_ca_092_ca_094_ca_246_ca_247_ca_248_ca_249_ca_250_ca_257_a_reply_proves_the_address(post):
    client, address = await post.site.client(), "Ada.Lovelace@example.org"
    made, challenge = await answered(post, client, address)
    mail = post.mail(address)

    assert mail.keys() == {"ACME_TO", "ACME_FROM", "ACME_SUBJECT", "ACME_MESSAGE_ID", "ACME_AUTO_SUBMITTED", "ACME_TOKEN_PART2"}
    assert (mail["ACME_TO"], mail["ACME_FROM"], challenge["from"]) == (address, FROM, FROM)
    assert mail["ACME_AUTO_SUBMITTED"] == "auto-generated; type=acme"
    assert mail["ACME_TOKEN_PART2"] == challenge["token"]
    part1 = mail["ACME_SUBJECT"].removeprefix("ACME: ")
    assert len(urlsafe_b64decode(part1 + "=")) == 20
    assert part1 not in json.dumps((await client.post(made.json["authorizations"][0])).json)
    assert (await client.post(challenge["url"])).json["status"] == "processing"

    told = await post.tell(post.reply(client, address, challenge["token"]))

    assert (told.status, told.body) == (200, b"")
    assert (await client.until(made.location, "pending"))["status"] == "ready"
    await certified(client, made.location, address)


async def test_rfc_8823_the_mail_goes_with_the_authorization_and_the_reply_may_come_before_the_answer(start_service, tmp_path):
    async with mail_site(start_service, tmp_path, email_challenge={"send_on": "authorization"}) as post:
        client, address = await post.site.client(), "ada@example.org"
        made, challenge = await ordered(client, address)
        await eventually((tmp_path / address).exists)

        await post.tell(post.reply(client, address, challenge["token"]))
        await post.tell(post.reply(client, address, challenge["token"], dkim_status="fail"))  # the first one counts
        assert (await client.post(challenge["url"])).json["status"] == "pending"
        await client.post(challenge["url"], {})

        assert (await client.until(made.location, "pending"))["status"] == "ready"
        await certified(client, made.location, address)

        later, challenge = await ordered(client, "later@example.org")
        await eventually((tmp_path / "later@example.org").exists)
        await client.post(challenge["url"], {})
        await post.tell(post.reply(client, "later@example.org", challenge["token"]))
        assert (await client.until(later.location, "pending"))["status"] == "ready"

        wrong, challenge = await ordered(client, "wrong@example.org")
        await eventually((tmp_path / "wrong@example.org").exists)
        await post.tell(post.reply(client, "wrong@example.org", challenge["token"], dkim_status="fail"))
        await client.post(challenge["url"], {})
        assert (await client.until(wrong.location, "pending"))["error"]["type"].endswith(":incorrectResponse")

        unsent, challenge = await ordered(client, "fails@example.org")
        await eventually((tmp_path / "fails@example.org").exists)
        await eventually(lambda: is_known_unsent(post))
        await client.post(challenge["url"], {})
        assert "could not be sent" in (await client.until(unsent.location, "pending"))["error"]["detail"]


async def is_known_unsent(post: Post) -> bool:
    """Whether it is written down that no mail was sent."""
    found: list[Any] = await post.site.service.host("acme").db.read(lambda tx: tx.all(KEPT))
    return any("could not be sent" in (row.kept or "") for row in found)


async def test_ca_093_a_program_that_fails_or_hangs_makes_the_challenge_invalid(start_service, tmp_path):
    async with mail_site(start_service, tmp_path, email_challenge={"send_script_timeout_secs": 0.5}) as post:
        client = await post.site.client()
        for address in ("fails@example.org", "hangs@example.org"):
            made, challenge = await ordered(client, address)

            answer = await client.post(challenge["url"], {})

            assert (answer.status, answer.json["status"]) == (200, "invalid")
            assert answer.json["error"]["detail"] == f"the challenge mail to {address} could not be sent"
            assert (await client.post(made.location)).json["status"] == "invalid"


WRONG = {
    "another address": ({"from": "bob@example.org"}, 'the reply is from "bob@example.org"; expected'),
    "local part in another case": ({"from": "ADA@example.org"}, "the reply is from"),
    "a display name": ({"from": "ada@example.org <mallory@evil.example>"}, "the reply is from"),
    "two addresses": ({"from": "mallory@evil.example, ada@example.org"}, "the reply is from"),
    "no address": ({"from": ""}, 'the reply is from ""'),
    "another domain signed": ({"dkim_domain": "evil.example"}, 'signed (DKIM) by "evil.example"; expected "example.org"'),
    "a suffix of the domain": ({"dkim_domain": "org"}, "signed (DKIM) by"),
    "a domain below": ({"dkim_domain": "mail.example.org"}, "signed (DKIM) by"),
    "nobody signed": ({"dkim_domain": None, "dkim_status": None}, 'signed (DKIM) by ""'),
    "a bad signature": ({"dkim_status": "fail"}, 'has the status "fail"; expected pass'),
    "an unknown status": ({"dkim_status": "passed"}, "has the status"),
    "no block": ({"body": "yes, that is me"}, "has no text between"),
    "no end": ({"body": "-----BEGIN ACME RESPONSE-----\nAAAA\n"}, "has no text between"),
    "an empty block": ({"body": "-----BEGIN ACME RESPONSE----- \r\n -----END ACME RESPONSE-----"}, "has an empty response"),
    "a long block": ({"body": f"-----BEGIN ACME RESPONSE-----{'A' * 513}-----END ACME RESPONSE-----"}, "of 513 bytes; at most 512"),
    "no ASCII": ({"body": "-----BEGIN ACME RESPONSE-----ÄÄÄÄ-----END ACME RESPONSE-----"}, "beyond ASCII"),
    "no base64url": ({"body": "-----BEGIN ACME RESPONSE-----+/+/-----END ACME RESPONSE-----"}, "not base64url"),
    "another response": ({"body": f"-----BEGIN ACME RESPONSE-----{'A' * 43}-----END ACME RESPONSE-----"}, "holds the response"),
}  # fmt: skip


async def test_s121_ca_095_ca_252_ca_253_ca_254_ca_255_ca_256_ca_257_a_reply_that_does_not_fit_makes_it_invalid(post):
    client = await post.site.client()
    for changes, wrong in WRONG.values():
        made, challenge = await answered(post, client, "ada@example.org")

        told = await post.tell(post.reply(client, "ada@example.org", challenge["token"], **changes))

        order = await client.until(made.location, "pending")
        assert (told.status, order["status"]) == (200, "invalid"), changes
        assert order["error"]["type"] == "urn:ietf:params:acme:error:incorrectResponse"
        assert wrong in order["error"]["detail"]


async def test_ca_252_ca_253_ca_256_what_does_not_matter_does_not(post):
    client = await post.site.client()
    for number, changes in enumerate(
        ({"from": "ada@EXAMPLE.org"}, {"dkim_domain": "Example.ORG"}, {"dkim_status": "PASS"}, {"more": ["of", "this"]})
    ):
        made, challenge = await answered(post, client, "ada@example.org")
        right = post.reply(client, "ada@example.org", challenge["token"])
        begin, response, end, _ = right["body"].split("\r\n")
        wrapped = f"Hello,\n\n{begin}\n  {response[:20]}\n{response[20:]}{'=' * (number % 2)}\n{end}\n\n> quoted\n"

        await post.tell(right | {"body": wrapped} | changes)

        assert (await client.until(made.location, "pending"))["status"] == "ready", changes


async def test_s121_ca_114_ca_195_ca_196_ca_250_ca_251_what_cannot_be_trusted_changes_nothing_and_is_200(post):
    client = await post.site.client()
    waiting, challenge = await answered(post, client, "ada@example.org")
    unanswered, _ = await ordered(client, "bob@example.org")
    right = post.reply(client, "ada@example.org", challenge["token"], dkim_status="fail")
    body = json.dumps(right).encode()
    mac = hmac.digest(SECRET.encode(), body, sha256).hex()
    authorization = unanswered.json["authorizations"][0].rpartition("/")[2]
    of_it = select(tables.challenge.c.id).where(tables.challenge.c.authorization_id == authorization)
    (unsent,) = await post.site.service.host("acme").db.read(lambda tx: [row.id for row in tx.all(of_it)])
    for told, signature, secret in [
        (body, "", SECRET),
        (body, mac, SECRET),
        (body, f"sha1={mac[:40]}", SECRET),
        (body, f"sha256={mac[:-1]}", SECRET),
        (body, f"sha256={'0' * 64}", SECRET),
        (body, None, "another secret"),
        (json.dumps(right, indent=1).encode(), f"sha256={mac}", SECRET),
        (body + b" " * 10_000_000, None, SECRET),
        (b"", None, SECRET),
        (b"{", None, SECRET),
        (b"[]", None, SECRET),
        (b'{"from": "ada@example.org"}', None, SECRET),
        (body.replace(b'"body":', b'"body": "", "body":'), None, SECRET),
        (json.dumps(right | {"body": 1}).encode(), None, SECRET),
        (json.dumps(right | {"in_reply_to": "<nobody@ca.example>"}).encode(), None, SECRET),
        (json.dumps(right | {"in_reply_to": right["in_reply_to"].upper()}).encode(), None, SECRET),
        (json.dumps(right | {"in_reply_to": right["in_reply_to"].strip("<>")}).encode(), None, SECRET),
        (json.dumps(right | {"in_reply_to": f"<{unsent}@ca.example>"}).encode(), None, SECRET),
    ]:
        answer = await post.tell(told, signature=signature, secret=secret)

        assert (answer.status, answer.body) == (200, b""), told[:200]
    assert (await client.post(waiting.location)).json["status"] == "pending"
    assert (await client.post(challenge["url"])).json["status"] == "processing"
    assert (await client.post(unanswered.location)).json["status"] == "pending"


async def test_s121_a_decided_challenge_stays_as_it_is(post):
    client = await post.site.client()
    made, challenge = await answered(post, client, "ada@example.org")
    right = post.reply(client, "ada@example.org", challenge["token"])

    await asyncio.gather(*(post.tell(right) for _ in range(5)))
    await post.tell(right | {"dkim_status": "fail"})

    assert (await client.until(made.location, "pending"))["status"] == "ready"


async def test_ca_251_a_reply_after_the_end_of_the_authorization_proves_nothing(start_service, tmp_path):
    clock = FakeClock()
    async with mail_site(start_service, tmp_path, clock=clock, server={"authz_expiry_secs": 60, "order_expiry_secs": 600}) as post:
        client = await post.site.client()
        made, challenge = await answered(post, client, "ada@example.org")
        clock.advance(61)
        client.nonces.clear()

        await post.tell(post.reply(client, "ada@example.org", challenge["token"]))

        assert (await client.post(made.location)).json["status"] == "invalid"


async def test_an_account_that_ended_proves_nothing(post):
    client, other = await post.site.client(), await post.site.client()
    made, challenge = await answered(post, client, "ada@example.org")
    await client.post(client.kid, {"status": "deactivated"})

    answer = await post.tell(post.reply(client, "ada@example.org", challenge["token"]))

    assert answer.status == 200
    assert (await client.post(made.location)).status == 401
    assert (await other.post(made.location)).status == 401


async def test_without_the_switch_nothing_of_it_is_there(start_service):
    async with acme_site(start_service, "email-reply-00") as site:
        client = await site.client()
        refused = await client.order({"type": "email", "value": "ada@example.org"})
        async with site.session.post(f"{site.url}/acme/email-webhook", data=b"{}") as answer:
            assert answer.status == 404

    assert (refused.status, refused.error) == (400, "unsupportedIdentifier")
