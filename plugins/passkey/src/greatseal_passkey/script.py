"""The script of the sign-in page and of the page of passkeys: the only one there. Its name changes with what is in it."""

from collections.abc import Sequence
from hashlib import sha256
from importlib import resources

from greatseal.api.http import Call, Reply, Route
from greatseal.api.identity import LoginContext, LoginOption, LoginOptions, LoginScript
from greatseal.api.messages import Message

SCRIPT = resources.files("greatseal_passkey").joinpath("static/passkey.js").read_bytes()
SCRIPT_PATH = f"/assets/passkey-{sha256(SCRIPT).hexdigest()[:16]}.js"

SIGN_IN = LoginScript(
    id="passkey",
    display_name=Message("Sign in with a passkey"),
    path=SCRIPT_PATH,
    without=Message("To sign in with a passkey, switch on JavaScript. Without it the other ways to sign in work as they are."),
    autofill="webauthn",
    words={
        "cancelled": Message("No passkey was used. Try again, or sign in another way."),
        "unsuited": Message("This browser cannot use a passkey here. Sign in another way."),
        "failed": Message("That did not work. Try again, or sign in another way."),
        "invalid_credentials": Message("This passkey is not known here, or it does not prove who you are."),
        "access_denied": Message("This account may not sign in here at the moment. Ask your administrator."),
        "rate_limited": Message("There were too many attempts. Wait a little, then try again."),
    },
)


class PasskeyLogin(LoginOptions):
    """The button of the sign-in page, and the offer in its user name field."""

    name = "passkey"

    async def options(self, context: LoginContext) -> Sequence[LoginOption]:  # noqa: ARG002  it leads nowhere
        return ()

    def scripts(self) -> Sequence[LoginScript]:
        return (SIGN_IN,)


def routes() -> list[Route]:
    """That of the script."""
    return [Route("GET", SCRIPT_PATH, _serve, style="page", summary="The script of passkeys; its name changes with it.")]


async def _serve(_call: Call) -> Reply:
    headers = (("Cache-Control", "public, max-age=31536000, immutable"), ("Cross-Origin-Resource-Policy", "same-origin"))
    return Reply(body=SCRIPT, content_type="text/javascript; charset=utf-8", headers=headers)
