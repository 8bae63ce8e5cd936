"""The certificate of a CA that issues by its log: unsigned (RFC 9925), with the log's parameters (draft ...-05 s5.5)."""

from typing import Final

import msgspec

from greatseal import der
from greatseal_mtc.algorithms import CosignerKey, signature_algorithm, spki_of
from greatseal_mtc.anchors import TrustAnchorId
from greatseal_mtc.dialects import UTF8_STRING, Dialect
from greatseal_mtc.hashes import Hash
from greatseal_mtc.wire import MAX_LOG_NUMBER, serial_of

__all__ = ["LOG_NUMBERS", "Authority"]

LOG_NUMBERS: Final = 5
"""How many log numbers, from the one of now on, the certificate is good for when nothing else is said."""

_SET, _BOOLEAN, _IA5_STRING, _EXTENSIONS = 0x31, 0x01, 0x16, 3
_UNSIGNED: Final = der.sequence(der.object_identifier("1.3.6.1.5.5.7.6.36"))
_NOBODY: Final = der.sequence(der.element(_SET, der.sequence(der.object_identifier("1.3.6.1.5.5.7.25.1"), der.element(UTF8_STRING, b""))))
_CRITICAL: Final = der.element(_BOOLEAN, b"\xff")
_KEY_USAGE, _BASIC_CONSTRAINTS, _TILES = "2.5.29.15", "2.5.29.19", "1.3.6.1.4.1.64829.2.1"
_KEY_CERT_SIGN: Final = bytes.fromhex("03020204")
_CA: Final = der.sequence(_CRITICAL)


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """What the certificate says. Moments are microseconds on whole seconds; ``prefix_url`` is where the tiles of its logs are (C2SP
    mtc-tlog)."""

    dialect: Dialect
    id: TrustAnchorId
    hash: Hash
    key: CosignerKey
    not_before: int
    not_after: int
    log_number: int
    last_log_number: int | None = None
    prefix_url: str | None = None

    @property
    def serials(self) -> tuple[int, int]:
        """The smallest and the largest serial number that a certificate of the CA may have."""
        last = self.last_log_number or min(self.log_number + LOG_NUMBERS - 1, MAX_LOG_NUMBER)
        return serial_of(self.log_number, 0), serial_of(last, (1 << 48) - 1)

    @property
    def certificate(self) -> bytes:
        """The DER certificate."""
        return der.signed(self._tbs(), _UNSIGNED, b"")

    def _tbs(self) -> bytes:
        authority = self.dialect.authority(self.hash, signature_algorithm(self.key), self.serials)
        listed = [
            _extension(_KEY_USAGE, _KEY_CERT_SIGN),
            _extension(_BASIC_CONSTRAINTS, _CA),
            _extension(self.dialect.authority_oid, authority),
        ]
        if self.prefix_url is not None:
            listed.append(_extension(_TILES, der.element(_IA5_STRING, self.prefix_url.encode("ascii")), critical=False))
        return der.sequence(
            der.explicit(0, der.integer(2)), der.integer(1), _UNSIGNED, _NOBODY,
            der.sequence(der.time(self.not_before), der.time(self.not_after)), self.dialect.issuer(self.id), spki_of(self.key),
            der.explicit(_EXTENSIONS, der.sequence(*listed)),
        )  # fmt: skip


def _extension(oid: str, content: bytes, *, critical: bool = True) -> bytes:
    return der.sequence(der.object_identifier(oid), *([_CRITICAL] if critical else []), der.octet_string(content))
