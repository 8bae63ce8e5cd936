"""What one client of a listener may take."""

import msgspec


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds."""

    head_seconds: float = 10.0
    """From the first byte of a request to the end of its head; also for the first byte on a new connection."""
    body_seconds: float = 30.0
    """From the end of the head to the end of the body."""
    idle_seconds: float = 75.0
    """Between two requests."""
    linger_seconds: float = 2.0
    """How long a connection that we ended is listened to, so that its client reads our answer instead of a reset."""
    line_bytes: int = 8192
    """The target of the request line."""
    head_bytes: int = 65536
    """All header lines together (Kerberos tickets are large)."""
    header_count: int = 100
    framing_bytes: int = 327_680
    """What a body may cost beyond eight bytes on the wire for each of its own: chunk extensions, trailers."""
