"""Whoever reads one request through the code follows no more files, and turns between them no more often, than is written here."""

import pytest
from architecture import walks

BOUNDS = {"POST /token (authorization_code)": (50, 148), "POST finalize": (58, 206)}
"""Files entered, and moves between them, a few more than were counted: a line of the log may be written a moment later. What makes a walk
shorter lowers its numbers."""


@pytest.mark.parametrize("name", walks.WALKS)
def test_a_walk_through_a_request_gets_no_longer(name, tmp_path):
    files, moves = BOUNDS[name]

    walked = walks.WALKS[name](walks.REPOSITORY, tmp_path)

    assert len(set(walked)) <= files, sorted(set(walked))
    assert walks.moves(walked) <= moves
