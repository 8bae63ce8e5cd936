"""Operators of the CA without a plugin that knows any, for tests of routes that carry :class:`~greatseal.api.http.Operator`."""

import re
from pathlib import Path

from greatseal.api.http import AuthScheme, Call, Operator, OperatorCaller
from greatseal.api.problems import Forbidden, Unauthenticated
from greatseal.testing.distributions import install

__all__ = ["FakeOperators", "install_operators"]

_TOKEN = re.compile(r"Bearer (?P<name>[a-z]+):(?P<role>[a-z_]+)(?:@(?P<ca_id>[a-z0-9_-]+))?", re.ASCII)
_PLUGIN = """\
from greatseal import hookimpl
from greatseal.testing.operators import FakeOperators


class Plugin:
    @hookimpl
    def auth_schemes(self):
        return [FakeOperators()]
"""


class FakeOperators(AuthScheme):
    """Believes whoever says who they are.

    ``Authorization: Bearer ann:auditor``, or ``Bearer bob:ca_ra@default`` for an operator of one CA.
    """

    rule = Operator

    async def authenticate(self, call: Call) -> OperatorCaller:
        """Raises Unauthenticated without such a header, Forbidden for a role that the route does not name."""
        said = _TOKEN.fullmatch(call.headers.get("Authorization", ""))
        if said is None:
            raise Unauthenticated("this needs an operator", headers={"WWW-Authenticate": "Bearer"})
        rule = call.route.auth
        assert isinstance(rule, Operator)
        if said["role"] not in rule.roles:
            raise Forbidden("the role of the operator may not do this")
        return OperatorCaller(subject=said["name"], role=said["role"], ca_id=said["ca_id"])


def install_operators(folder: Path) -> str:
    """A feature that brings :class:`FakeOperators`, as :func:`greatseal.testing.distributions.install` does; its name."""
    return install(folder, "greatseal-fake-operators", _PLUGIN)
