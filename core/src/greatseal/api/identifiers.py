"""Identifiers that are no names: their values stand in an extension of request and certificate (RFC 9448 for telephone numbers)."""

from abc import abstractmethod
from typing import ClassVar

from cryptography import x509

from greatseal.api.issuance import IdentifierType

__all__ = ["ExtensionIdentifier"]


class ExtensionIdentifier(IdentifierType):
    """A type of identifier that has an extension of its own, which is not critical. An order names one of the type at most.

    A request must hold the extension with the value of the order. Given to the kernel by the hook ``identifier_types`` like any other type.
    """

    oid: ClassVar[x509.ObjectIdentifier]
    """The number of the extension."""

    @abstractmethod
    def content(self, value: str) -> bytes:
        """What the extension holds for a canonical value."""

    @abstractmethod
    def of_content(self, content: bytes) -> str:
        """The canonical value of an extension in a stranger's request.

        Raises ValueError for one that no order can hold, worded to follow "the extension".
        """

    @abstractmethod
    def common_name(self, value: str) -> str:
        """What a certificate is called that has no name, for it needs a subject then; at most 64 characters."""

    def general_name(self, value: str) -> x509.GeneralName:
        """There is none, so nobody asks."""
        raise TypeError(f"{self.type} is no name but the extension {self.oid.dotted_string}")

    def of(self, name: x509.GeneralName) -> str | None:
        """None: no name is of this type."""
        return None
