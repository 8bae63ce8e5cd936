"""The configuration keys of the device flow."""

from typing import Annotated

import msgspec


class DeviceTokens(msgspec.Struct, frozen=True, kw_only=True):
    """[tokens]: how long a device waits, and how often it asks. Seconds."""

    device_code_ttl: Annotated[int, msgspec.Meta(ge=30, le=86_400)] = 600
    """Seconds in which a person may decide about a device, and the device may fetch its tokens."""
    device_interval: Annotated[int, msgspec.Meta(ge=1, le=300)] = 5
    """Seconds that a device waits between two questions."""


class AttemptLimit(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the limit of sign-ins, by which the requests of public clients are limited too."""

    auth_rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 30
    """Sign-in attempts from one address in 300 s; 0 switches the limits off."""
