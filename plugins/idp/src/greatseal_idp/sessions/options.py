"""Ways to sign in besides the password form."""

from greatseal.api.identity import LoginContext, LoginOption, LoginOptions, LoginScript
from greatseal.host import Host


async def link_options(host: Host, context: LoginContext) -> list[LoginOption]:
    """Those of every provider in order; one that fails is logged and must not hide the others."""
    found: list[LoginOption] = []
    for options in host.components(LoginOptions).values():
        try:
            found += await options.options(context)
        except Exception as error:
            host.log.warning("login options are left out", options=options.name, exc_info=error)
    return found


def script_options(host: Host) -> list[LoginScript]:
    """Those that a script of the page carries out, in order."""
    return [script for options in host.components(LoginOptions).values() for script in options.scripts()]
