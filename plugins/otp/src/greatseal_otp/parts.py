"""The parts of the plugin, put together. Nobody imports this who did not configure it: the libraries come with it."""

from collections.abc import Sequence

from greatseal.api.components import Component
from greatseal.api.http import Route
from greatseal.api.services import DIRECTORIES, LOGIN, PAGES
from greatseal.host import Host
from greatseal_otp.authenticator import OneTimeCodes
from greatseal_otp.codes import Codes
from greatseal_otp.devices import Devices
from greatseal_otp.enrol import EnrolPage
from greatseal_otp.factor import OwnCode
from greatseal_otp.page import CodesPage, CodesPart, DevicesPart
from greatseal_otp.policy import OwnToken
from greatseal_otp.recovery import Recovery
from greatseal_otp.routes import CodesAdmin, MyCodes
from greatseal_otp.tokens import LocalTokens
from greatseal_otp.wrong import WrongCodes


class Parts:
    """What the hooks of one kernel share."""

    def __init__(self, host: Host) -> None:
        directories = host.service(DIRECTORIES)
        self.recovery = Recovery(host)
        self.local = LocalTokens(host, self.recovery)
        self.devices = Devices(host)
        self.wrong = WrongCodes(host)
        self.codes = Codes(host, directories, local=self.local, recovery=self.recovery, devices=self.devices, wrong=self.wrong)
        self.authenticator = OneTimeCodes(self.codes)
        parts = (DevicesPart(self.codes),) if self.devices.days else ()
        own = OwnCode(self.codes)
        self.components: Sequence[Component] = (self.local, OwnToken(host, self.codes), own, CodesPart(self.codes), *parts)
        login, pages = host.service(LOGIN), host.service(PAGES)
        endpoints = (
            MyCodes(self.codes, login, own),
            CodesAdmin(self.codes, directories),
            CodesPage(host, login, pages, self.codes, own),
            EnrolPage(host, login, pages, self.codes),
        )
        self.routes: Sequence[Route] = [route for endpoint in endpoints for route in endpoint.routes()]
        self.operations = (*self.local.operations, *self.recovery.operations, *self.devices.operations, *self.wrong.operations)

    async def sweep(self) -> None:
        """Remove what nobody needs any more."""
        await self.local.sweep()
        await self.devices.sweep()
