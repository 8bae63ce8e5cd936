"""The token endpoint and its neighbours: grants, families, tokens, introspection, revocation, userinfo."""
