"""Passwords that are set without the old one."""

from abc import abstractmethod

from greatseal.api.components import Component
from greatseal.api.declarations import Secret
from greatseal.api.identity import ChangeRefused

__all__ = ["PasswordSetter"]


class PasswordSetter(Component):
    """Sets the password of people of one directory without the old one, once they proved themselves in another way.

    ``name`` is that of the directory. One that wants the old password, such as PAM, has none.
    """

    @abstractmethod
    async def set(self, username: str, new: Secret) -> ChangeRefused | None:
        """Set it. None when it is the password from now on, ChangeRefused when a rule refuses it: nothing was changed then.

        Raises Unavailable when nobody can tell.
        """
