"""The grant ``urn:ietf:params:oauth:grant-type:device_code`` (RFC 8628 s3.4, s3.5)."""

from greatseal.polling import PolledGrant
from greatseal_device_flow.requests import KIND

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"


class DeviceCode(PolledGrant):
    """Polled by the device."""

    grant_type = GRANT_TYPE
    handle = ("device_code", KIND)
    name = "device code"
    rule = "RFC 8628 s3.5"
    point = "device.redeemed"
