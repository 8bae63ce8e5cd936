"""What every type of identifier must do, as a test class to inherit."""

from typing import ClassVar

import pytest
from cryptography import x509

from greatseal.api.acme import RejectedIdentifier
from greatseal.api.issuance import IdentifierType

__all__ = ["IdentifierTypeContract"]


class IdentifierTypeContract:
    """Inherit, name the type and some values, and the rest is tested.

    .. code-block:: python

        class TestPermanentIdentifier(IdentifierTypeContract):
            identifiers = PermanentIdentifier()
            values = ("SN-0001",)
            refused = ("", "with a space")
    """

    identifiers: ClassVar[IdentifierType]
    values: ClassVar[tuple[str, ...]]
    """In canonical form, one at least."""
    refused: ClassVar[tuple[str, ...]]
    """What a stranger may write and no order may name."""
    names: ClassVar[tuple[x509.GeneralName, ...]] = ()
    """General names of this type that no order can hold."""

    def test_a_canonical_value_stays_as_it_is(self) -> None:
        for value in self.values:
            assert self.identifiers.canonical(value) == value

    def test_what_breaks_a_rule_is_told_so(self) -> None:
        for value in (*self.refused, "\0", "\u212a" * 300):
            with pytest.raises(RejectedIdentifier) as refused:
                self.identifiers.canonical(value)
            assert refused.value.detail.isprintable()
            assert len(refused.value.detail) < 300

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
