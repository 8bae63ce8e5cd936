"""The parts of the plugin, put together. Nobody imports this who did not configure it: the libraries come with it."""

from collections.abc import Sequence

from greatseal.api.components import Component
from greatseal.api.http import Route
from greatseal.api.services import DIRECTORIES, LOGIN, PAGES
from greatseal.host import Host
from greatseal_otp.authenticator import OneTimeCodes
from greatseal_otp.codes import Codes
from greatseal_otp.page import CodesPage, CodesPart
from greatseal_otp.policy import OwnToken
from greatseal_otp.recovery import Recovery
from greatseal_otp.routes import CodesAdmin, MyCodes
from greatseal_otp.tokens import LocalTokens


class Parts:
    """What the hooks of one kernel share."""

    def __init__(self, host: Host) -> None:
        directories = host.service(DIRECTORIES)
        self.recovery = Recovery(host)
        self.local = LocalTokens(host, self.recovery)
        self.codes = Codes(host, directories, local=self.local, recovery=self.recovery)
        self.authenticator = OneTimeCodes(self.codes)
        self.components: Sequence[Component] = (self.local, OwnToken(self.codes), CodesPart(self.codes))
        page = CodesPage(host, host.service(LOGIN), host.service(PAGES), self.codes)
        self.routes: Sequence[Route] = [*MyCodes(self.codes).routes(), *CodesAdmin(self.codes, directories).routes(), *page.routes()]
