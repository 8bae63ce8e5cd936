"""People who sign in with PAM, and the accounts of this machine."""

from greatseal_pam.plugin import Plugin

__all__ = ["Plugin"]
