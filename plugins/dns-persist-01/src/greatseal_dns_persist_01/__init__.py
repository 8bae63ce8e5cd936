"""The dns-persist-01 challenge (draft-ietf-acme-dns-persist)."""

from greatseal_dns_persist_01.plugin import Plugin

__all__ = ["Plugin"]
