"""A Kerberos ticket of this machine as the proof at a sign-in (RFC 4559).

GSSAPI is no dependency of the core, so its library is imported when it is asked for.
"""

import base64
from importlib import import_module
from typing import Any

from greatseal.ctl.client import CtlProblem

SPNEGO = "1.3.6.1.5.5.2"
MISSING = "--negotiate needs the Python package gssapi: install greatseal-gssapi in this environment"


class Exchange:
    """Of whoever has a ticket, with the service HTTP of a host. Both prove themselves. Raises CtlProblem where it cannot begin."""

    def __init__(self, host: str) -> None:
        try:
            self._gssapi: Any = import_module("gssapi")
        except ImportError:
            raise CtlProblem(MISSING, code=2) from None
        self._host = host
        name = self._gssapi.Name(f"HTTP@{host}", self._gssapi.NameType.hostbased_service)
        mechanism = self._gssapi.OID.from_int_seq(SPNEGO)
        flags = [self._gssapi.RequirementFlag.mutual_authentication]
        self._context: Any = self._gssapi.SecurityContext(name=name, mech=mechanism, flags=flags, usage="initiate")

    def begin(self) -> str:
        """What goes into Authorization."""
        return f"Negotiate {base64.b64encode(self._step(None)).decode()}"

    def finish(self, header: str) -> None:
        """Check by WWW-Authenticate that the service has the key of its name. Raises CtlProblem."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "negotiate" and token:
            try:
                self._step(base64.b64decode(token, validate=True))
            except ValueError:
                raise self._unproven() from None
        if not self._context.complete:
            raise self._unproven()

    def _step(self, token: bytes | None) -> bytes:
        try:
            return self._context.step(token) or b""
        except self._gssapi.exceptions.GSSError as error:
            why = " ".join(str(error).split())
            raise CtlProblem(f"Kerberos: no exchange with HTTP@{self._host}: {why}; get a ticket with kinit") from None

    def _unproven(self) -> CtlProblem:
        return CtlProblem(f"{self._host} did not prove that it is HTTP@{self._host}, so its session is not kept")
