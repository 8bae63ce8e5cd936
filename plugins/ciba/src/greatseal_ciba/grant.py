"""The grant ``urn:openid:params:grant-type:ciba`` (CIBA Core s10.1, s11)."""

from greatseal.polling import PolledGrant
from greatseal_ciba.registration import GRANT_TYPE
from greatseal_ciba.requests import KIND


class CibaGrant(PolledGrant):
    """Polled by the client, or asked once after a ping."""

    grant_type = GRANT_TYPE
    handle = ("auth_req_id", KIND)
    name = "auth_req_id"
    rule = "CIBA Core s11"
    point = "ciba.redeemed"
