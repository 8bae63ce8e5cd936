"""Passkeys (WebAuthn Level 3)."""

from greatseal_passkey.plugin import Plugin

__all__ = ["Plugin"]
