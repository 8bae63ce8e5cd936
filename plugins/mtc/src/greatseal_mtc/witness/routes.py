"""The paths of a witness (C2SP tlog-witness): submission and monitoring prefix are both {base_url}/witness."""

from collections.abc import Sequence

from greatseal.api.http import Call, Reply, Route
from greatseal.api.problems import BadRequest
from greatseal_mtc.note import BadNote
from greatseal_mtc.witness.service import OtherSize, Witness
from greatseal_mtc.witnessing import SIZE_TYPE, AddCheckpoint, SignSubtree, size_body

__all__ = ["WitnessRoutes"]

TEXT = "text/plain; charset=utf-8"
HOUR = ("Cache-Control", "public, max-age=3600")


class WitnessRoutes:
    """One method for each path."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    def routes(self) -> Sequence[Route]:
        """Below /witness. Subtrees are signed where there is a key that can."""
        return [
            Route(
                "POST", "/witness/add-checkpoint", self.add, content_types=(), summary="Cosign a checkpoint that continues the last one."
            ),
            Route("POST", "/witness/sign-subtree", self.sign, content_types=(), summary="Sign a subtree of a cosigned checkpoint."),
            Route("GET", "/witness/vkey", self.vkey, cors=True, summary="The keys of the witness, one vkey a line."),
            Route("GET", "/witness/{log}/checkpoint", self.checkpoint, cors=True, summary="The last cosigned checkpoint of a log."),
        ]

    async def add(self, call: Call) -> Reply:
        try:
            asked = AddCheckpoint.parse(await call.raw())
        except BadNote as error:
            raise BadRequest(str(error)) from None
        try:
            return Reply.text(await self._witness.add_checkpoint(asked))
        except OtherSize as other:
            return Reply(status=409, body=size_body(other.size), content_type=SIZE_TYPE)

    async def sign(self, call: Call) -> Reply:
        if not self._witness.signs_subtrees:
            return Reply.text("this witness has no key that signs subtrees\n", status=404)
        try:
            asked = SignSubtree.parse(await call.raw())
        except BadNote as error:
            raise BadRequest(str(error)) from None
        return Reply.text(await self._witness.sign_subtree(asked))

    async def vkey(self, _call: Call) -> Reply:
        return Reply.text("".join(f"{key.vkey}\n" for key in self._witness.keys)).with_headers(HOUR)

    async def checkpoint(self, call: Call) -> Reply:
        return Reply(body=await self._witness.published(call.path["log"]), content_type=TEXT)
