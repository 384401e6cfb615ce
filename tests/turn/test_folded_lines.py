"""Lines of folded messages: those beside a name, with what the view does not hold."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from clew.messages import Message
from clew.store import StoredMessage
from clew.testing import assistant, call, tool, user
from clew.turn.folded_lines import FoldedExcerpt, FoldedLines, Unknown


def lines_of(*messages: Message) -> FoldedLines:
    lines = FoldedLines()
    for seq, message in enumerate(messages):
        lines.add(StoredMessage(seq, message, "s", datetime(2026, 5, 1, tzinfo=UTC), None, None, b"", None, (), 0))
    return lines


def excerpts(
    lines: FoldedLines,
    *names: str,
    known: Iterable[str] = (),
    visible: Iterable[int] = (),
    told: Iterable[int] = (),
    room: float = 400,
) -> list[FoldedExcerpt]:
    in_view, rows, keys = set(known), set(visible), set(told)
    unknown = Unknown(lambda atom: atom not in in_view, lambda seq: seq not in rows, lambda key: key in keys)
    return lines.excerpts(dict.fromkeys(names, 1.0), unknown, room)


def shown(lines: FoldedLines, *names: str, **more: Any) -> str:
    return "\n\n".join(excerpt.render() for excerpt in excerpts(lines, *names, **more))


def read(number: int, path: str, text: str) -> list[Message]:
    return [assistant(None, [call("read", {"path": path}, id=f"c{number}")]), tool(f"c{number}", text)]


def test_a_line_comes_with_the_lines_beside_it_that_say_more_below_the_call_that_gave_it() -> None:
    lines = lines_of(
        *read(1, "gate.py", "import sys\ndef open_gate():\n    return narwhal_quay\n\n\n\nother_thing = 1")
    )
    assert shown(lines, "open_gate") == "m1 (tool, read gate.py):\ndef open_gate():\n    return narwhal_quay"


def test_nothing_comes_where_the_view_holds_it_all_or_shows_the_message() -> None:
    lines = lines_of(*read(1, "gate.py", "def open_gate():\n    return narwhal_quay"))
    assert shown(lines, "open_gate", known=("open_gate", "narwhal_quay")) == ""
    assert shown(lines, "open_gate", known=("open_gate",), visible=(0, 1)) == ""
    assert shown(lines, "shut_gate") == ""


def test_dots_stand_where_lines_between_are_left_out() -> None:
    far = "open_gate takes quay_key\n\n\n\n\nopen_gate gives tide_mark"
    assert (
        shown(lines_of(user(far)), "open_gate") == "m0 (user):\nopen_gate takes quay_key\n…\nopen_gate gives tide_mark"
    )


def test_the_rarer_name_comes_first_where_there_is_room_for_one() -> None:
    common = [user(f"gate_log of day_{n:02}") for n in range(20)]
    lines = lines_of(*common, user("open_gate wants quay_key"))
    assert shown(lines, "gate_log", "open_gate", room=45) == "m20 (user):\nopen_gate wants quay_key"


def test_no_message_takes_all_the_room() -> None:
    long = "\n\n\n\n".join(f"open_gate calls step_{n:02}_of_many" for n in range(60))
    lines = lines_of(user(long), user("open_gate was written by pier_crew"))
    text = shown(lines, "open_gate", known=("open_gate",), room=200)
    assert "pier_crew" in text and 2 <= text.count("step_") < 10


def test_the_same_line_read_again_is_the_same_and_comes_once() -> None:
    lines = lines_of(*read(1, "gate.py", "def open_gate(quay_key):"), *read(2, "gate.py", "  def open_gate(quay_key):"))
    text = shown(lines, "open_gate")
    assert text.count("quay_key") == 1 and text.startswith("m3 ")
    (excerpt,) = excerpts(lines, "open_gate")
    assert shown(lines, "open_gate", told=[line.key for line, _ in excerpt.lines]) == ""


def test_of_a_long_line_the_part_with_what_is_new_is_shown() -> None:
    lines = lines_of(user("open_gate " + "and so on " * 100 + "quay_key " + "and so on " * 100))
    text = shown(lines, "open_gate", known=("open_gate",))
    assert "quay_key" in text and len(text) < 300 and text.count("…") == 2


def test_a_path_is_found_by_the_file_that_it_ends_with() -> None:
    lines = lines_of(user("It lies in /srv/harbour/ledgers/tide_table.csv, I think."))
    assert "/srv/harbour/ledgers/tide_table.csv" in shown(lines, "tide_table.csv")
