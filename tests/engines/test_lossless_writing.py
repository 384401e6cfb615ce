"""The text of a node of the map: a handoff in which what was asked is told in its place."""

from __future__ import annotations

from clew.engines.lossless.writing import node_text

HANDOFF = """\
## Active task
"Commit it, always run the hooks. If stuck, look why." (m26)

## Goal
- "Port the uploader." (m3)

## Constraints and preferences
- "always run the hooks." (m26)

## Completed actions
1. Asked, as above (m3)
   "AsyncUploader replaces Uploader." (m20)
2. The active task, as above (m26)
   "Committed as 5fa2423." (m30)
"""


def test_a_request_of_which_a_part_is_a_rule_is_told_once_and_whole() -> None:
    assert (
        node_text(HANDOFF)
        == """\
## Constraints and preferences
- "always run the hooks." (m26)

## Completed actions
1. "Port the uploader." (m3)
   "AsyncUploader replaces Uploader." (m20)
2. "Commit it, always run the hooks. If stuck, look why." (m26)
   "Committed as 5fa2423." (m30)"""
    )
