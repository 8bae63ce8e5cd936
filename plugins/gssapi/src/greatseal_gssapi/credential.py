"""The credential that tickets are accepted with, acquired again when the keytab changed."""

import threading
from collections.abc import Callable
from pathlib import Path

import gssapi
from gssapi import raw
from gssapi.raw.misc import GSSError

from greatseal.api.kerberos import Unusable
from greatseal_gssapi.exchange import KERBEROS, SPNEGO, reason
from greatseal_gssapi.keytab_file import Version, unfit, version_of
from greatseal_gssapi.settings import GssapiSettings

RETRY = 5.0
"""Seconds after which a credential that could not be acquired is tried again, though the keytab is as it was."""


Store = dict[bytes | str, bytes | str] | None
"""Where the library looks for keys and tickets; None: in its own places, which gssproxy serves."""


class AcceptorCredential:
    """Used from several threads."""

    def __init__(self, settings: GssapiSettings, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._version: Version | str | None = None
        self._held: raw.Creds | Unusable | None = None
        self._tried = 0.0

    def get(self) -> raw.Creds | Unusable:
        """The credential of the keytab as it is now. Reads files, and asks nobody."""
        keytab = self._settings.keytab_file
        version = None if keytab is None else version_of(keytab)
        with self._lock:
            if self._held is None or version != self._version or self._is_due():
                self._held = self._acquire(keytab, version)
                self._version, self._tried = version, self._monotonic()
            return self._held

    def _is_due(self) -> bool:
        return isinstance(self._held, Unusable) and self._monotonic() - self._tried >= RETRY

    def _acquire(self, keytab: Path | None, version: Version | str | None) -> raw.Creds | Unusable:
        if keytab is not None and (problem := unfit(keytab, version)):
            return Unusable(reason=problem)
        try:
            name = gssapi.Name(self._settings.service_name, gssapi.NameType.hostbased_service)
            store: Store = None if keytab is None else {"keytab": f"FILE:{keytab}"}
            held = gssapi.Credentials(usage="accept", name=name, mechs=[KERBEROS, SPNEGO], store=store)
            raw.set_neg_mechs(held, [KERBEROS])
        except GSSError as error:
            where = "gssproxy" if keytab is None else str(keytab)
            return Unusable(reason=f"{where} has no keys of {self._settings.service_name}: {reason(error)}")
        return held
