"""ExtensionIdentifier: a telephone number authorization list (RFC 9448), which is no name but an extension of its own.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

from cryptography import x509

from greatseal import der
from greatseal.api.acme import RejectedIdentifier
from greatseal.api.identifiers import ExtensionIdentifier


class TnAuthList(ExtensionIdentifier):
    """The value is the DER of the list in base64url."""

    type = "TNAuthList"
    oid = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.26")

    def canonical(self, value: str) -> str:
        try:
            return self.of_content(self.content(value))
        except ValueError:
            raise RejectedIdentifier("the value is no DER in base64url") from None

    def content(self, value: str) -> bytes:
        return urlsafe_b64decode(value + "=" * (-len(value) % 4))

    def of_content(self, content: bytes) -> str:
        if not der.children(content):
            raise ValueError("has no entry")
        return urlsafe_b64encode(content).rstrip(b"=").decode()

    def common_name(self, value: str) -> str:
        return f"SHAKEN {sha256(value.encode()).hexdigest()[:32]}"
