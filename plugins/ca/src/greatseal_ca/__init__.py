"""Certificate authority: root and issuing CA, profiles, CSR rules, inventory."""

from greatseal_ca.plugin import Plugin

__all__ = ["Plugin"]
