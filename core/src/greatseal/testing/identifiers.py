"""What every type of identifier must do, as a test class to inherit."""

from typing import ClassVar

import pytest
from cryptography import x509

from greatseal.api.acme import RejectedIdentifier
from greatseal.api.identifiers import ExtensionIdentifier
from greatseal.api.issuance import IdentifierType

__all__ = ["ExtensionIdentifierContract", "IdentifierTypeContract"]

LONGEST_COMMON_NAME = 64
"""RFC 5280 appendix A: ub-common-name."""


class CanonicalValues:
    """What is asked of every type; inherit one of the two classes below it."""

    identifiers: ClassVar[IdentifierType]
    values: ClassVar[tuple[str, ...]]
    """In canonical form, one at least."""
    refused: ClassVar[tuple[str, ...]]
    """What a stranger may write and no order may name."""

    def test_a_canonical_value_stays_as_it_is(self) -> None:
        for value in self.values:
            assert self.identifiers.canonical(value) == value

    def test_what_breaks_a_rule_is_told_so(self) -> None:
        for value in (*self.refused, "\0", "\u212a" * 300):
            with pytest.raises(RejectedIdentifier) as refused:
                self.identifiers.canonical(value)
            assert refused.value.detail.isprintable()
            assert len(refused.value.detail) < 300


class IdentifierTypeContract(CanonicalValues):
    """Inherit, name the type and some values, and the rest is tested.

    .. code-block:: python

        class TestPermanentIdentifier(IdentifierTypeContract):
            identifiers = PermanentIdentifier()
            values = ("SN-0001",)
            refused = ("", "with a space")
    """

    names: ClassVar[tuple[x509.GeneralName, ...]] = ()
    """General names of this type that no order can hold."""

    def test_a_value_is_its_name_in_the_certificate(self) -> None:
        for value in self.values:
            name = self.identifiers.general_name(value)
            encoded = x509.SubjectAlternativeName([name])  # encodes, and is read back as the value
            assert encoded.public_bytes()
            assert self.identifiers.of(name) == value

    def test_names_of_other_types_are_not_its_own(self) -> None:
        unknown = x509.ObjectIdentifier("1.2.3")
        assert self.identifiers.of(x509.RegisteredID(unknown)) is None
        assert self.identifiers.of(x509.OtherName(unknown, b"\x05\x00")) is None
        for name in self.names:
            with pytest.raises(ValueError, match=r"."):
                self.identifiers.of(name)


class ExtensionIdentifierContract(CanonicalValues):
    """The same for a type that is no name (:class:`greatseal.api.identifiers.ExtensionIdentifier`)."""

    identifiers: ClassVar[ExtensionIdentifier]
    contents: ClassVar[tuple[bytes, ...]] = ()
    """What a stranger may put into its extension and no order can hold, besides nothing and no DER."""

    def test_a_value_is_its_extension_in_the_certificate(self) -> None:
        for value in self.values:
            content = self.identifiers.content(value)
            assert x509.UnrecognizedExtension(self.identifiers.oid, content).public_bytes() == content
            assert self.identifiers.of_content(content) == value
            assert 0 < len(self.identifiers.common_name(value)) <= LONGEST_COMMON_NAME

    def test_an_extension_that_no_order_can_hold_is_told_so(self) -> None:
        for content in (*self.contents, b"", b"x"):
            with pytest.raises(ValueError, match=r"."):
                self.identifiers.of_content(content)

    def test_no_name_is_its_own(self) -> None:
        assert self.identifiers.of(x509.OtherName(x509.ObjectIdentifier("1.2.3"), b"\x05\x00")) is None
        for value in self.values:
            with pytest.raises(TypeError):
                self.identifiers.general_name(value)
