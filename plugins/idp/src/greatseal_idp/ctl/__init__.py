"""The commands of ``greatseal ctl`` for what the identity provider administers."""

from greatseal_idp.ctl.clients import clients
from greatseal_idp.ctl.resources import audit, cluster_key, families, groups, keys, list_nodes, people, scopes

COMMANDS = (keys, cluster_key, list_nodes, families, people, groups, scopes, audit, clients)
