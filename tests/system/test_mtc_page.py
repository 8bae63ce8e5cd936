"""The page of a log: its state, a certificate by serial number and by file, and what else somebody may send. Without a script."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from aiohttp import FormData
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from markupsafe import escape
from rig.acme import Answer, b64url
from rig.logged import LoggedSite, logged_site

from greatseal.testing.catalogues import PSEUDO, install_catalogue, outside, pseudo

HTML = {"Accept": "text/html"}
IN_THE_LOG = "This certificate is in the log"
PROVEN = "Its hash leads to the root that the log signed"


@pytest.fixture(params=["alone", "with-pages"])
async def site(request: pytest.FixtureRequest, start_service: Any, tmp_path: Any) -> AsyncIterator[LoggedSite]:
    """A CA alone, and one beside an identity provider, whose pages this one is like then."""
    more = ("idp", "users-file") if request.param == "with-pages" else ()
    users = {"users": {"file": str(tmp_path / "users.toml")}} if more else {}
    async with logged_site(start_service, *more, webui={"display_name": "Example <CA>"}, **users) as site:
        yield site


async def page(site: LoggedSite, query: str = "", *, status: int = 200) -> str:
    return _checked(await site.client.get(f"{site.site.url}/log{query}", headers=HTML), status)


async def sent(site: LoggedSite, content: bytes, *, status: int | None = 200) -> str:
    form = FormData()
    form.add_field("certificate", content, filename="a.pem", content_type="application/octet-stream")
    return _checked(await site.client.get(f"{site.site.url}/log", method="POST", data=form, headers=HTML), status)


def _checked(answer: Answer, status: int | None) -> str:
    assert answer.status == status or (status is None and answer.status in {200, 400, 404}), answer.body[:500]
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Cache-Control"] == "no-store"
    text = answer.body.decode()
    assert "<script" not in text
    assert "style=" not in text
    assert "Example &lt;CA&gt;" in text
    return unescape(text)


def serial(certificate: bytes) -> str:
    return f"{x509.load_der_x509_certificate(certificate).serial_number:x}"


async def test_the_state_of_the_log_and_its_newest_entries(site):
    before = await page(site)
    await site.logged("a.localhost", "b.localhost")
    await site.logged(*(f"n{number}.localhost" for number in range(7)))
    await site.checkpoint()

    text = await page(site)

    assert "<dt>Entries</dt><dd>1</dd>" in before
    assert "<dt>Entries</dt><dd>3</dd>" in text
    assert site.log.log.head[1].hex() in text
    assert "nobody besides the CA" in text
    assert re.findall(r"<tr><td>(\d+)</td>", text) == ["2", "1", "0"]
    assert "a.localhost" in text
    assert "and 2 more" in text
    assert f"greatseal log monitor {site.base}/tlog" in text
    start = await site.client.get(site.site.url, headers=HTML)
    assert b'<a href="/log">Log of certificates</a>' in start.body


@pytest.mark.parametrize("profile", ["logged", "tree"])
async def test_a_certificate_is_found_by_serial_number_and_by_file_and_proven(site, profile):
    _, certificate = await site.logged("a.localhost", profile=profile)
    await site.logged("b.localhost")
    early = await page(site, f"?serial={serial(certificate)}")
    await site.checkpoint()
    read = x509.load_der_x509_certificate(certificate)

    by_serial = await page(site, f"?serial={serial(certificate).upper()}")
    by_file = [await sent(site, content) for content in (certificate, read.public_bytes(Encoding.PEM))]

    assert IN_THE_LOG in early
    assert "The next checkpoint will have it" in early
    assert "<svg" not in early.partition("<main")[2]
    for text in (by_serial, *by_file):
        assert IN_THE_LOG in text
        assert PROVEN in text
        assert text.partition("<main")[2].count('class="node proof"') == len(await site.log.log.inclusion(1, 0, 3))
        assert site.log.log.hash.leaf(await site.log.log.entry(1)).hex() in text
        assert "tlog-proof" in text


async def test_the_standalone_and_the_landmark_relative_form_are_the_same_entry(site):
    id, _ = await site.logged("a.localhost")
    await site.checkpoint()
    await site.landmark()

    for path in (f"cert/{id}/standalone", f"cert/{id}/landmark?form=relative"):
        assert PROVEN in await sent(site, (await site.get(path)).body)


async def test_a_revoked_certificate_is_in_the_log_and_said_to_be_revoked(site):
    _, certificate = await site.logged("a.localhost")
    await site.checkpoint()
    await site.client.post(site.client.directory["revokeCert"], {"certificate": b64url(certificate)})

    text = await page(site, f"?serial={serial(certificate)}")
    assert IN_THE_LOG in text
    assert "<dt>Status</dt><dd>revoked</dd>" in text


def forged(of: x509.Certificate) -> bytes:
    """Another certificate under the serial number of one of the CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(
        of.issuer, of.subject, key.public_key(), of.serial_number, of.not_valid_before_utc, of.not_valid_after_utc
    )
    for one in of.extensions:
        builder = builder.add_extension(one.value, one.critical)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


async def test_a_certificate_that_was_changed_is_told_from_the_one_in_the_log(site):
    _, certificate = await site.logged("a.localhost")
    await site.checkpoint()

    text = await sent(site, forged(x509.load_der_x509_certificate(certificate)), status=400)

    assert "That is not the certificate that is the entry 1 of the log" in text
    assert IN_THE_LOG not in text


async def test_a_certificate_with_any_byte_changed_is_not_said_to_be_in_the_log(site):
    """Nor with those that no entry has: its issuer, its signature, its proof."""
    id, ordinary = await site.logged("a.localhost")
    _, tree = await site.logged("b.localhost", profile="tree")
    await site.logged("c.localhost")
    await site.checkpoint()
    await site.landmark()
    standalone, relative = [(await site.get(f"cert/{id}/{form}")).body for form in ("standalone", "landmark?form=relative")]

    for certificate in (ordinary, tree, standalone, relative):
        assert PROVEN in await sent(site, certificate)
        for at in (*range(0, len(certificate), 23), len(certificate) - 1):
            changed = bytearray(certificate)
            changed[at] ^= 1 << at % 8
            answer = await sent(site, bytes(changed), status=None)
            assert IN_THE_LOG not in answer, at
    assert PROVEN not in await sent(site, certificate[:-1] + b"\0\0", status=None)


async def test_names_of_a_certificate_are_shown_and_not_obeyed(site):
    """Entries of a log come from whoever got a certificate."""
    names = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "'-alert(1)-'", "%(name)s"]
    key = ec.generate_private_key(ec.SECP256R1())
    since = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(x509.Name([]), x509.Name([]), key.public_key(), 7, since, since + timedelta(days=30))
    signed = builder.add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=True).sign(key, hashes.SHA256())
    await site.log.append(f"{1:036}", signed.tbs_certificate_bytes)
    await site.checkpoint()

    for headers in (HTML, {**HTML, "Accept-Language": "de"}):
        shown = (await site.client.get(f"{site.site.url}/log", headers=headers)).body.decode()
        assert [name for name in names if f'<span class="name">{escape(name)}</span>' not in shown] == []
        assert not re.search("<script|<img src=x", shown)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "No file was chosen"), (b"hello", "no certificate"), (b"0\x82\xff\xff", "cannot be read"), (b"\xff" * 30_000, "no certificate")],
)
async def test_a_file_that_is_none_is_refused_with_what_to_do(site, content, said):
    assert said in await sent(site, content, status=400)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("1", 404),
        ("zz", 400),
        ("0", 400),
        ("-5", 400),
        ("%00", 400),
        ("a" * 61, 400),
        ("%3Cscript%3E", 400),
        ("1_0", 400),
        ("%D9%A1", 400),
        ("0x1f", 404),
    ],
)
async def test_a_serial_number_that_is_none_or_unknown(site, text, status):
    shown = await page(site, f"?serial={text}", status=status)

    assert ("has issued no certificate with that serial number." in shown) == (status == 404)


async def test_an_upload_is_bounded_and_other_forms_and_logs_are_refused(site):
    url = f"{site.site.url}/log"
    too_much = FormData()
    too_much.add_field("certificate", b"0" * 300_000, filename="a", content_type="application/octet-stream")

    assert (await site.client.get(url, method="POST", data=too_much, headers=HTML)).status == 413
    assert (await site.client.get(url, method="POST", data={"certificate": "x"}, headers=HTML)).status == 415
    assert (await site.client.get(f"{url}/other", headers=HTML)).status == 404
    assert (await site.client.get(f"{url}?serial=1&serial=2", headers=HTML)).status == 400


LANGUAGES = {
    "de": (
        "Das Protokoll der Zertifikate",
        "Dieses Zertifikat ist im Protokoll",
        "Wurzel",
        "Es wurde keine Datei ausgewählt",
        "widerrufen",
    ),
    "fr": ("Le journal des certificats", "Ce certificat est dans le journal", "Racine", "a été choisi", "révoqué"),
}


@pytest.mark.parametrize("tag", LANGUAGES)
async def test_the_page_is_in_the_language_of_the_browser(site, tag):
    title, found, root, none, revoked = LANGUAGES[tag]
    _, certificate = await site.logged("a.localhost")
    await site.checkpoint()
    await site.client.post(site.client.directory["revokeCert"], {"certificate": b64url(certificate)})
    wanted = {**HTML, "Accept-Language": f"{tag}-AT, en;q=0.5"}
    empty = FormData()
    empty.add_field("certificate", b"", filename="a.pem", content_type="application/octet-stream")

    answers = [
        await site.client.get(f"{site.site.url}/log", headers=wanted),
        await site.client.get(f"{site.site.url}/log?serial={serial(certificate)}", headers=wanted),
        await site.client.get(f"{site.site.url}/log", method="POST", data=empty, headers=wanted),
    ]

    texts = [_checked(answer, status) for answer, status in zip(answers, (200, 200, 400), strict=True)]
    assert [f'<html lang="{tag}">' in text and f"<h1>{title}</h1>" in text for text in texts] == [True] * 3
    assert (root in texts[0], found in texts[1], f"<dd>{revoked}</dd>" in texts[1], none in texts[2]) == (True,) * 4


async def test_no_word_of_the_page_is_outside_of_the_catalogues(start_service, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    feature = install_catalogue(tmp_path, "greatseal-pseudo", {PSEUDO: pseudo(["greatseal", "greatseal_mtc"])})
    async with logged_site(start_service, feature, webui={"display_name": "1"}) as site:
        _, certificate = await site.logged("a.localhost")
        await site.logged("b.localhost")
        await site.checkpoint()
        headers = {**HTML, "Accept-Language": PSEUDO}
        for query in ("", "?serial=1", "?serial=x", f"?serial={serial(certificate)}"):
            text = (await site.client.get(f"{site.site.url}/log{query}", headers=headers)).body.decode()
            assert f'lang="{PSEUDO}" dir="rtl"' in text
            shown = re.sub(r"<(code|pre)>.*?</\1>|<text class=\"hash\".*?</text>|<[^<>]*>", " ", text, flags=re.DOTALL)
            own = r"[ab]\.localhost|oid/[\d.]+|SHA-256, plants-05,|UTC"
            assert outside(re.sub(own, "", shown)) == [], query
