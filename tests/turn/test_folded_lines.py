"""Lines of folded messages: those with a name and those beside them, with what the view does not show."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice

from clew.messages import Message
from clew.store import StoredMessage
from clew.testing import assistant, call, tool, user
from clew.turn.automatic_recall import FoldedLines, Unknown


def lines_of(*messages: Message) -> FoldedLines:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    return FoldedLines(
        [StoredMessage(seq, message, "s", at, None, None, b"", None, (), 0) for seq, message in enumerate(messages)]
    )


def shown(
    lines: FoldedLines,
    *names: str,
    known: Iterable[str] = (),
    visible: Iterable[int] = (),
    told: Iterable[int] = (),
    most: int | None = None,
) -> str:
    in_view, rows, keys = set(known), set(visible), set(told)
    unknown = Unknown(lambda name: name not in in_view, lambda seq: seq not in rows, lambda key: key in keys)
    return "\n\n".join(lines.render([*islice(lines.select(dict.fromkeys(names, 1.0), unknown), most)]))


def read(number: int, path: str, text: str) -> list[Message]:
    return [assistant(None, [call("read", {"path": path}, id=f"c{number}")]), tool(f"c{number}", text)]


def test_a_line_comes_with_the_lines_beside_it_that_say_more_below_the_call_that_gave_it() -> None:
    text = "import sys\ndef open_gate():\n    return narwhal_quay\nbare = 1\nother = 2\nother_thing = 1"
    heading, *rest = shown(lines_of(*read(1, "gate.py", text)), "open_gate").split("\n")
    assert heading.startswith("m1 (tool, ") and "gate.py" in heading
    assert rest == ["def open_gate():", "return narwhal_quay"]


def test_nothing_comes_where_the_view_shows_all_of_it() -> None:
    lines = lines_of(*read(1, "gate.py", "def open_gate():\n    return narwhal_quay"))
    assert shown(lines, "open_gate", known=("open_gate", "narwhal_quay")) == ""
    assert shown(lines, "open_gate", known=("open_gate",), visible=(0, 1)) == ""
    assert shown(lines, "shut_gate") == ""


def test_lines_that_are_left_out_are_marked() -> None:
    far = "open_gate takes quay_key\n\nand\n\nso\n\non\n\nopen_gate gives tide_mark"
    assert shown(lines_of(user(far)), "open_gate").split("\n")[1:] == [
        "open_gate takes quay_key",
        "…",
        "open_gate gives tide_mark",
    ]


def test_the_line_with_the_rarer_name_comes_first() -> None:
    common = [user(f"gate_log of day_{n:02}") for n in range(20)]
    text = shown(lines_of(*common, user("open_gate wants quay_key")), "gate_log", "open_gate", most=1)
    assert "quay_key" in text and "day_" not in text


def test_one_long_message_leaves_room_for_others() -> None:
    long = "\n\n".join(f"open_gate calls step_{n:02}_of_many" for n in range(60))
    lines = lines_of(user(long), user("open_gate was written by pier_crew"))
    text = shown(lines, "open_gate", known=("open_gate",), most=40)
    assert "pier_crew" in text and "step_" in text


def test_a_line_that_was_read_twice_comes_once_and_not_again() -> None:
    lines = lines_of(*read(1, "gate.py", "def open_gate(quay_key):"), *read(2, "gate.py", "  def open_gate(quay_key):"))
    text = shown(lines, "open_gate")
    assert text.count("quay_key") == 1 and text.startswith("m3 ")
    unknown = Unknown(lambda _: True, lambda _: True, lambda _: False)
    keys = [key for excerpt in lines.select({"open_gate": 1.0}, unknown) for key in excerpt.keys]
    assert shown(lines, "open_gate", told=keys) == ""


def test_a_path_is_found_by_the_file_that_it_ends_with() -> None:
    lines = lines_of(user("It lies in /srv/harbour/ledgers/tide_table.csv, I think."))
    assert "/srv/harbour/ledgers/tide_table.csv" in shown(lines, "tide_table.csv")


def test_no_line_of_a_private_key_is_shown() -> None:
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *["FAKEopen_gate0123456789" * 2] * 6, "-----END PRIVATE KEY-----"])
    assert "FAKE" not in shown(lines_of(user(f"open_gate uses pier_key:\n{key}\nThat is open_gate.")), "open_gate")
