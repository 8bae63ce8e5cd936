"""What token bindings and extensions bring, and how it is said that two bring the same."""

import msgspec

from greatseal.api.authorization import Extension
from greatseal.api.tokens import TokenBinding
from greatseal.host import Host


class Bringer(msgspec.Struct, frozen=True):
    """A component of a plugin; without ``component`` the plugin itself."""

    plugin: str
    component: str = ""

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}" + (f" ({self.component})" if self.component else "")


IDP = Bringer("idp")


def of_extension(host: Host, name: str) -> Bringer:
    """The extension of that name."""
    return Bringer(host.brought_by(Extension, name), f"extension {name!r}")


def of_binding(host: Host, confirmation: str) -> Bringer:
    """The token binding of that confirmation."""
    return Bringer(host.brought_by(TokenBinding, confirmation), f"token binding {confirmation!r}")


def twice(what: str, first: Bringer, second: Bringer) -> str:
    """What is said of something that two bring."""
    if first.plugin == second.plugin:
        cure = "take it out of one of them"
    else:
        cure = f"disable plugin {second.plugin!r}" if first == IDP else "disable one of them"
    return f"{what} comes from {first} and from {second}; {cure}"
