"""One-time codes beside the password (RFC 6238), and recovery codes."""

from greatseal_otp.plugin import Plugin

__all__ = ["Plugin"]
