"""The configuration keys of CIBA."""

from typing import Annotated

import msgspec


class CibaTokens(msgspec.Struct, frozen=True, kw_only=True):
    """[tokens]: how long a request waits for its person, and how often its client asks. Seconds."""

    ciba_ttl: Annotated[int, msgspec.Meta(ge=30, le=86_400)] = 300
    """Seconds in which the person may decide and the client may fetch its tokens; a request may ask for fewer."""
    ciba_interval: Annotated[int, msgspec.Meta(ge=1, le=300)] = 5
    """Seconds that a client waits between two questions."""


class NotificationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[oauth]: where pings may go."""

    allow_private_notification_hosts: bool = False
    """Whether CIBA pings may go to addresses that are not public."""


class AttemptLimit(msgspec.Struct, frozen=True, kw_only=True):
    """[server]: the limit of sign-ins, by which a client's requests to one person are limited too."""

    auth_rate_limit: Annotated[int, msgspec.Meta(ge=0)] = 30
    """Sign-in attempts from one address in 300 s; 0 switches the limits off."""
