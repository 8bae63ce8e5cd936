"""The email-reply-00 challenge (RFC 8823)."""

from greatseal_email_reply_00.plugin import Plugin

__all__ = ["Plugin"]
