"""What everybody who brings other certificates beside those of orders must do, as a test class to inherit."""

import re
from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from greatseal.api.alternates import Alternate, Alternates, NotYet
from greatseal.api.issuance import Certificate
from greatseal.testing.finalization import CERTIFICATE

__all__ = ["AlternatesContract"]

STRANGER = msgspec.structs.replace(CERTIFICATE, id="0193a8c0-0000-8000-8000-00000000000f", ca_id="a-ca-that-is-gone")
_MEDIA_TYPES = {"application/pem-certificate-chain", "application/pkix-cert"}
_DER = 0x30


class AlternatesContract(ABC):
    """Inherit, say how to make the component and a certificate that has alternates, and the rest is tested.

    .. code-block:: python

        class TestOtherChains(AlternatesContract):
            certificate = CERTIFICATE

            def alternates(self):
                return OtherChains({CERTIFICATE.id: [(ROOT,)]})
    """

    certificate: ClassVar[Certificate]
    """One that has an alternate at least."""

    @abstractmethod
    def alternates(self) -> Alternates:
        """A new component, or one that knows :attr:`certificate`."""

    def test_declares_itself(self) -> None:
        one = self.alternates()

        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", one.name)
        assert one.relation in {"alternate", "acme-optional-alternate"}

    async def test_keys_begin_with_the_name_and_are_told_again(self) -> None:
        one = self.alternates()
        keys = await one.offered(self.certificate)

        assert keys
        assert list(keys) == list(dict.fromkeys(await one.offered(self.certificate)))
        for key in keys:
            assert re.fullmatch(rf"{one.name}(\.[A-Za-z0-9.-]{{1,100}})?", key), f"{key!r} would not be found again"

    async def test_each_key_gives_a_certificate_now_or_a_time_to_wait(self) -> None:
        one = self.alternates()

        for key in await one.offered(self.certificate):
            found = await one.alternate(self.certificate, key)
            if isinstance(found, NotYet):
                assert one.relation == "acme-optional-alternate", "an alternate of RFC 8555 s7.4.2 is there at once"
                assert 0 < found.seconds <= 7 * 86_400
                continue
            assert isinstance(found, Alternate)
            assert found.media_type in _MEDIA_TYPES
            assert all(der[0] == _DER for der in (found.der, *found.chain))
            assert not found.chain or found.media_type != "application/pkix-cert", "one that is sent as DER has no place for a chain"
            assert found.properties is None or 2 <= len(found.properties) <= 2 + 0xFFFF

    async def test_properties_are_a_list_of_tls_or_none(self) -> None:
        found = await self.alternates().properties(self.certificate)

        assert found is None or len(found) == 2 + int.from_bytes(found[:2])

    async def test_a_certificate_of_no_concern_has_none(self) -> None:
        one = self.alternates()

        assert list(await one.offered(STRANGER)) == []
        assert await one.properties(STRANGER) is None
