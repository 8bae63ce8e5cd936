"""The switch of Kerberos clients."""

import msgspec


class KerberosClients(msgspec.Struct, frozen=True, kw_only=True):
    """[ipa], whether clients may have Kerberos principals."""

    gssapi: bool = False
    """Whether clients may prove themselves by Kerberos, and the directory is asked with a ticket of the service."""
