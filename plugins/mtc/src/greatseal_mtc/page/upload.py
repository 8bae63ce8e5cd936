"""A certificate that somebody sends to the page: a form with a file, or the certificate itself."""

import base64
import re

from cryptography import x509

from greatseal.api.messages import Message
from greatseal.api.problems import BadRequest

__all__ = ["MULTIPART", "certificate_in"]

MULTIPART = "multipart/form-data"
_BOUNDARY = re.compile(
    r"multipart/form-data\s*;\s*boundary=(?:([0-9A-Za-z'()+_,./:=?-]{1,70})|\"([ -!#-~]{1,70})\")\s*", re.ASCII | re.IGNORECASE
)
_NAME = re.compile(rb"^content-disposition:\s*form-data\s*;(?:.*;)?\s*name=\"?certificate\"?\s*(?:;|$)", re.IGNORECASE | re.MULTILINE)
MOST_PARTS, MOST_HEAD = 10, 1000
"""Of a form, and of what stands before the content of a part."""
_SEQUENCE = 0x30
_NO_FORM = Message("the form cannot be read: expected multipart/form-data with the field certificate")
_NONE = Message("the file has no certificate; send it in PEM or DER")


def certificate_in(content_type: str, body: bytes) -> tuple[bytes, x509.Certificate]:
    """The first certificate of the field ``certificate``, in DER and read. Raises BadRequest that says what to do."""
    sent = _field(content_type, body)
    if not sent.strip():
        raise BadRequest(Message("no file was chosen"))
    der = _der(sent)
    try:
        return der, x509.load_der_x509_certificate(der)
    except Exception as error:  # the parser has several classes for what it cannot read
        raise BadRequest(Message("the certificate cannot be read: it is not DER of X.509 version 3")) from error


def _field(content_type: str, body: bytes) -> bytes:
    """The content of the form's file (RFC 7578): what browsers send, and no more of MIME."""
    found = _BOUNDARY.fullmatch(content_type)
    if found is None:
        raise BadRequest(_NO_FORM)
    delimiter = f"\r\n--{found[1] or found[2]}".encode()
    _, *parts = (b"\r\n" + body).split(delimiter, MOST_PARTS)
    for part in parts:
        head, blank, content = part.partition(b"\r\n\r\n")
        if blank and len(head) < MOST_HEAD and _NAME.search(head):
            return content
    raise BadRequest(_NO_FORM)


def _der(sent: bytes) -> bytes:
    if sent[0] == _SEQUENCE:
        return sent
    _, _, rest = sent.partition(b"-----BEGIN CERTIFICATE-----")
    content, ended, _ = rest.partition(b"-----END CERTIFICATE-----")
    if not ended:
        raise BadRequest(_NONE)
    try:
        return base64.b64decode(b"".join(content.split()), validate=True)
    except ValueError:
        raise BadRequest(Message("the PEM of the certificate is not base64")) from None
