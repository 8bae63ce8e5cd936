"""The keys of profiles whose certificates carry Kerberos names."""

from collections.abc import Callable

import msgspec

from greatseal_san_kerberos.templates import check_upn_template, principal_template


class KerberosNames(msgspec.Struct, frozen=True, kw_only=True):
    """[profiles.<id>]: the Kerberos names of its certificates."""

    inject_account_kpn: bool = False
    """Whether the Kerberos principal of the account is added as KRB5PrincipalName; an account that has none gets no certificate."""
    kpn_san_templates: tuple[str, ...] = ()
    """Principals that are added as KRB5PrincipalName, such as `HTTP/{dns}@EXAMPLE.ORG`: one with `{dns}` for every DNS name of the
    request, another once."""
    ms_upn_san_template: str | None = None
    """The user principal name (Microsoft's UPN) that is added, such as `{dns}@example.org`: `{dns}` is the first DNS name asked for."""

    def __post_init__(self) -> None:
        problems = [
            *(_problem("kpn_san_templates", one, principal_template) for one in self.kpn_san_templates),
            *([] if self.ms_upn_san_template is None else [_problem("ms_upn_san_template", self.ms_upn_san_template, check_upn_template)]),
        ]
        if told := [problem for problem in problems if problem is not None]:
            raise ValueError("; ".join(told))


def _problem(key: str, template: str, read: Callable[[str], object]) -> str | None:
    try:
        read(template)
    except ValueError as error:
        return f"{key}: {template!r}: {error}"
    return None
