"""People who sign in with PAM."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from greatseal import hookimpl
from greatseal.api.declarations import Check, Lifespan, Owns
from greatseal.api.directory import Directory
from greatseal.api.identity import Authenticator, PasswordChanger
from greatseal.api.languages import Catalogue
from greatseal.api.tokens import ClaimsProvider
from greatseal.host import Host
from greatseal_pam.settings import PamSettings

if TYPE_CHECKING:
    from greatseal_pam.assembly import Assembly


class Plugin:
    """Passwords and accounts of this machine; without `[pam]` it contributes nothing, and needs no libpam."""

    def __init__(self) -> None:
        self._made: Assembly | None = None

    @hookimpl
    def settings(self) -> Sequence[Owns]:
        return [Owns("pam", PamSettings)]

    @hookimpl
    def catalogues(self) -> Sequence[Catalogue]:
        return [Catalogue("greatseal_pam")]

    @hookimpl
    def authenticators(self, host: Host) -> Sequence[Authenticator[Any]]:
        assembly = self._assembly(host)
        return [assembly.password] if assembly else []

    @hookimpl
    def password_changers(self, host: Host) -> Sequence[PasswordChanger]:
        assembly = self._assembly(host)
        return [assembly.changer] if assembly else []

    @hookimpl
    def directories(self, host: Host) -> Sequence[Directory]:
        assembly = self._assembly(host)
        return [assembly.directory] if assembly and assembly.directory else []

    @hookimpl
    def claims(self, host: Host) -> Sequence[ClaimsProvider]:
        assembly = self._assembly(host)
        return [assembly.claims] if assembly and assembly.claims else []

    @hookimpl
    def verify(self, host: Host) -> Sequence[str]:
        assembly = self._assembly(host)
        return assembly.problems() if assembly else []

    @hookimpl
    def lifespans(self, host: Host) -> Sequence[Lifespan]:
        assembly = self._assembly(host)
        return [Lifespan(name="helper processes of PAM", open=assembly.running)] if assembly else []

    @hookimpl
    def checks(self, host: Host) -> Sequence[Check]:
        assembly = self._assembly(host)
        return [Check(name="pam", run=assembly.check)] if assembly else []

    def _assembly(self, host: Host) -> "Assembly | None":
        if self._made is None and host.section_present("pam"):
            from greatseal_pam.assembly import Assembly  # with ctypes and libpam: where nobody asked for PAM it is not needed

            self._made = Assembly(host)
        return self._made
