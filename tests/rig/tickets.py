"""A feature ``tickets`` for services without a KDC: a Negotiate token is the name of its principal (greatseal.testing.negotiate)."""

from pathlib import Path

from greatseal.testing.distributions import install

CODE = '''
import msgspec

from greatseal import hookimpl
from greatseal.api.declarations import Owns
from greatseal.api.services import NEGOTIATE
from greatseal.testing.negotiate import FakeNegotiator

NEGOTIATOR = FakeNegotiator(*{principals!r}, legs={legs!r})


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """[ipa]"""

    gssapi: bool = False


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """[gssapi]"""


class Plugin:
    @hookimpl
    def settings(self):
        return [Owns("ipa", Switch), Owns("gssapi", Nothing)]

    @hookimpl
    def services(self, host):
        return {{NEGOTIATE: lambda: NEGOTIATOR}}
'''


def install_tickets(folder: Path, *principals: str, legs: tuple[str, ...] = ()) -> str:
    """Its name. The folder must be on ``sys.path``; the token ``principal`` is good for each of them, and in two legs for ``legs``."""
    folder.mkdir(exist_ok=True)
    return install(folder, "greatseal-tickets", CODE.format(principals=principals, legs=legs))


def negotiate(principal: str) -> dict[str, str]:
    """The header that brings the ticket."""
    return {"Authorization": f"Negotiate {principal}"}
