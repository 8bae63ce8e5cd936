"""What the mail server says of a reply, and whether it answers a challenge (RFC 8823 s3.2)."""

from hashlib import sha256
from hmac import compare_digest

import msgspec

from greatseal.jose.compact import b64url_decode, b64url_encode
from greatseal.net import excerpt

BEGIN, END = "-----BEGIN ACME RESPONSE-----", "-----END ACME RESPONSE-----"
MAX_RESPONSE_BYTES = 512
_PADDING = "=="


class MailReply(msgspec.Struct, frozen=True):
    """The body of the webhook. Without a DKIM signature ``dkim_domain`` and ``dkim_status`` may be left out."""

    sender: str = msgspec.field(name="from")
    in_reply_to: str
    body: str
    dkim_domain: str | None = None
    dkim_status: str | None = None


def wrong_with(reply: MailReply, address: str, key_authorization: str) -> str:
    """What is wrong with it as a reply of ``address``, fit for the client; empty for nothing."""
    domain = address.rpartition("@")[2]
    if not _is_same_address(reply.sender, address):
        return f"the reply is from {excerpt(reply.sender)}; expected {excerpt(address)}"
    if not _is_same_domain(reply.dkim_domain or "", domain):
        return f"the reply is signed (DKIM) by {excerpt(reply.dkim_domain or '')}; expected {excerpt(domain)}"
    if (reply.dkim_status or "").lower() != "pass":
        return f"the DKIM signature of the reply has the status {excerpt(reply.dkim_status or '')}; expected pass"
    expected = sha256(key_authorization.encode()).digest()
    try:
        found = response_in(reply.body)
    except ValueError as error:
        return f"the reply {error}"
    if not compare_digest(found, expected):
        return f"the reply holds the response {excerpt(b64url_encode(found))}; expected {excerpt(b64url_encode(expected))}"
    return ""


def response_in(body: str) -> bytes:
    """What stands between the markers, decoded; mail programs may have wrapped it. Raises ValueError, worded to follow "the reply"."""
    text, ended, _ = body.partition(BEGIN)[2].partition(END)
    if not ended:
        raise ValueError(f"has no text between {BEGIN} and {END}")
    if not text.isascii():
        raise ValueError("has a response with characters beyond ASCII")
    if len(text) > MAX_RESPONSE_BYTES:
        raise ValueError(f"has a response of {len(text)} bytes; at most {MAX_RESPONSE_BYTES} are read")
    packed = "".join(text.split())
    if not packed:
        raise ValueError("has an empty response")
    try:
        return b64url_decode(packed.removesuffix(_PADDING) if packed.endswith(_PADDING) else packed.removesuffix("="))
    except ValueError:
        raise ValueError(f"has the response {excerpt(packed)}, which is not base64url") from None


def _is_same_address(found: str, address: str) -> bool:
    """The local part in its case, the domain in any."""
    local, _, domain = found.rpartition("@")
    expected_local, _, expected_domain = address.rpartition("@")
    return local == expected_local and _is_same_domain(domain, expected_domain)


def _is_same_domain(found: str, domain: str) -> bool:
    return found.isascii() and found.lower() == domain.lower()
