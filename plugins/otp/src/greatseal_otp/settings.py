"""The configuration keys of one-time codes."""

from typing import Annotated, Literal

import msgspec


class OtpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[otp]: what new tokens are like. Tokens that exist stay as they are."""

    algorithm: Literal["sha1", "sha256", "sha512"] = "sha1"
    """The hash of new tokens. Some authenticator apps know `sha1` alone, and pay no heed to another one."""
    digits: Literal[6, 8] = 6
    """The digits of their codes. Some authenticator apps know 6 alone."""
    required_groups: tuple[str, ...] = ()
    """Groups, of whatever directory, whose members need a second factor: who has none gets an app at the next sign-in."""
    remember_days: Annotated[int, msgspec.Meta(ge=0, le=365)] = 0
    """Days for which a person may have a browser not asked for a code; 0 asks at every sign-in."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """[webui]: the name of the service in the app."""

    display_name: str | None = None
    """What the service calls itself; the host of the issuer when left out."""
