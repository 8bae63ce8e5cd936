"""IdentifierType: a telephone number authorization list (RFC 9448), which has its own form of general name.

Examples of the contract, checked by mypy: no plugin has this code.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography import x509

from greatseal import der
from greatseal.api.acme import RejectedIdentifier
from greatseal.api.issuance import IdentifierType


class TnAuthList(IdentifierType):
    """The value is the DER of the list in base64url."""

    type = "TNAuthList"

    # an example's: the real list is an extension of its own (RFC 8226 s9)
    NAME = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.26")

    def canonical(self, value: str) -> str:
        try:
            der.children(urlsafe_b64decode(value + "=" * (-len(value) % 4)))
        except ValueError:
            raise RejectedIdentifier("the value is no DER in base64url") from None
        return value

    def general_name(self, value: str) -> x509.GeneralName:
        return x509.OtherName(self.NAME, urlsafe_b64decode(value + "=" * (-len(value) % 4)))

    def of(self, name: x509.GeneralName) -> str | None:
        if not isinstance(name, x509.OtherName) or name.type_id != self.NAME:
            return None
        return urlsafe_b64encode(name.value).rstrip(b"=").decode()
