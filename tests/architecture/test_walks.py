"""Whoever reads one request through the code follows no more files, and turns between them no more often, than is written here."""

import pytest
from architecture import walks

BOUNDS = {"POST /token (authorization_code)": (53, 152), "POST finalize": (58, 206)}
"""Files entered, and moves between them, a few more than were counted: a line of the log may be written a moment later. What makes a walk
shorter lowers its numbers."""


@pytest.mark.parametrize("name", walks.WALKS)
def test_a_walk_through_a_request_gets_no_longer(name, tmp_path):
    files, moves = BOUNDS[name]

    # What a busy machine does beside the request is none of it: the shortest of three walks counts.
    for number in range(3):
        (folder := tmp_path / str(number)).mkdir()
        walked = walks.WALKS[name](walks.REPOSITORY, folder)
        if len(set(walked)) <= files and walks.moves(walked) <= moves:
            break

    assert len(set(walked)) <= files, sorted(set(walked))
    assert walks.moves(walked) <= moves
