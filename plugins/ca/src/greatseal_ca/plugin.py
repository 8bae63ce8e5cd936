"""Certificate authority: root and issuing CA, profiles, CSR rules, inventory."""


class Plugin:
    """Certificate authority: root and issuing CA, profiles, CSR rules, inventory."""
