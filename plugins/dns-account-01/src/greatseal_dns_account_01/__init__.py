"""The dns-account-01 challenge (draft-ietf-acme-dns-account-label)."""

from greatseal_dns_account_01.plugin import Plugin

__all__ = ["Plugin"]
