"""The configuration keys of PAM."""

from pathlib import Path
from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class PamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[pam]: people who sign in with PAM. Without the section nobody does."""

    service: Name = "greatseal"
    """The PAM service: the name of a file in `/etc/pam.d`, which says how a password is checked."""
    config_dir: Path | None = None
    """The folder of that file; the folders of libpam when left out. Needs Linux-PAM 1.4."""
    accounts: bool = True
    """Whether the people are accounts of this machine, as `getent passwd` shows them, with its groups. When false, whoever the PAM
    service lets in is somebody: without groups, unless another directory has them."""
    min_uid: Annotated[int, msgspec.Meta(ge=0, le=4_294_967_294)] = 1000
    """The smallest number of an account that is a person's: root and the accounts of services sign in nowhere. For `accounts`."""
    timeout: Annotated[int, msgspec.Meta(ge=1, le=60)] = 10
    """Seconds in which PAM has checked or changed a password. What takes longer is ended, and the person is asked to try again."""
    processes: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    """How many passwords are checked at once, each in a process of its own."""
