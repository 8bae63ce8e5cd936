"""Users, groups and hosts of FreeIPA or OpenLDAP, over LDAP."""

from greatseal_ipa.plugin import Plugin

__all__ = ["Plugin"]
