"""A certificate that somebody sends to the page: PEM or DER in a form, and what else may come."""

import base64
import re
from datetime import UTC, datetime

import pytest
from aiohttp import FormData
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from greatseal.api.problems import BadRequest
from greatseal.testing.parsers import ParserContract
from greatseal_mtc.page.upload import certificate_in

KEY = ec.generate_private_key(ec.SECP256R1())
SINCE, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
MADE = x509.CertificateBuilder(x509.Name([]), x509.Name([]), KEY.public_key(), 7, SINCE, UNTIL).sign(KEY, hashes.SHA256())
DER, PEM = MADE.public_bytes(Encoding.DER), MADE.public_bytes(Encoding.PEM)
BOUNDARY = "zq7"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def form(content: bytes, name: str = "certificate") -> bytes:
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="a.pem"\r\nContent-Type: application/octet-stream\r\n\r\n'
    )
    return head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


@pytest.mark.parametrize("content", [DER, PEM, PEM.replace(b"\n", b"\r\n"), b"words before\n" + PEM + PEM, b" \n" + PEM])
def test_a_certificate_is_read_in_pem_and_der_the_first_of_several(content):
    assert certificate_in(TYPE, form(content))[0] == DER


async def test_what_a_browser_sends_is_read():
    sent = FormData()
    sent.add_field("other", "x")
    sent.add_field("certificate", DER, filename="x.der", content_type="application/x-x509-ca-cert")
    payload = sent()

    class Taken(bytearray):
        async def write(self, chunk: bytes) -> None:
            self.extend(chunk)

    taken = Taken()
    await payload.write(taken)  # type: ignore[arg-type]
    assert certificate_in(payload.headers["Content-Type"], bytes(taken))[0] == DER


@pytest.mark.parametrize(
    ("content_type", "body", "said"),
    [
        (TYPE, form(b""), "no file"),
        (TYPE, form(b"hello"), "no certificate"),
        (TYPE, form(b"0\x82\xff\xff"), "cannot be read"),
        (TYPE, form(PEM.replace(b"CERTIFICATE-----\nMI", b"CERTIFICATE-----\n!!", 1)), "not base64"),
        (TYPE, form(DER, "other"), "cannot be read"),
        (TYPE, b"", "cannot be read"),
        ("multipart/form-data", form(DER), "cannot be read"),
        ("text/plain", DER, "cannot be read"),
        ("multipart/form-data; boundary=a\r\nX: y", DER, "cannot be read"),
        (f"multipart/mixed; boundary={BOUNDARY}", form(DER), "cannot be read"),
    ],
)
def test_what_is_no_certificate_is_refused_with_what_to_do(content_type, body, said):
    with pytest.raises(BadRequest) as refused:
        certificate_in(content_type, body)

    assert re.search(said, refused.value.detail)


class TestUploads(ParserContract):
    valid = (form(DER), form(PEM), base64.b64encode(DER))
    refusals = BadRequest
    costly = (
        (b"".join(f"--{BOUNDARY}\r\n\r\n\r\n".encode() for _ in range(5000)), form(PEM), b""),
        (form(b"-----BEGIN CERTIFICATE-----" * 2300), form(PEM), b""),
    )

    def read(self, *parts: bytes) -> None:
        whole = form(b"-----BEGIN CERTIFICATE-----\n" + parts[2] + b"\n-----END CERTIFICATE-----\n")
        refused = []
        for body in (parts[0], parts[1], whole):
            try:
                certificate_in(TYPE, body)
            except BadRequest as problem:
                refused.append(problem)
        if refused:
            raise refused[0]
