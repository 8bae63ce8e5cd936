"""The configuration keys of the users file."""

from pathlib import Path

import msgspec


class UsersSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[users]: people from a file."""

    file: Path
    """The TOML file of users and groups; made with an administrator on the first start when it is not there."""
    writable: bool = False
    """Whether this service changes the file: people then change their password on their account page, and set a new one by a link in a
    mail. Its user must own the file."""
