from __future__ import annotations

import pytest

from clew.ledger import AtomIndex, atoms_in, is_name, is_path
from clew.testing import assistant, call, tool, user


@pytest.mark.parametrize(
    "atom",
    [
        "src/clew/app.py",
        "/etc/hosts",
        "~/.clew/config.yaml",
        "uploader.py",
        "read_file",
        "DEFAULT_CHUNK",
        "parseRow",
        "AsyncUploader",
        "KeyError",
        "9f3c2ab",
        "4c1d77e0-1111-2222-3333-444455556666",
        "0.19.0",
        "8443",
        "E0308",
        "#1234",
    ],
)
def test_what_nobody_could_guess_again_is_an_atom(atom: str) -> None:
    assert atom in atoms_in(f"look at {atom}, please")
    assert atom in atoms_in(f"({atom}).")


def test_plain_words_short_numbers_and_line_numbers_are_no_atoms() -> None:
    assert atoms_in("The build is red, 12 of 40. 请先看日志。\n1340: x\n 1341→ y") == set()


def test_what_base64_and_minified_code_hold_is_not_kept() -> None:
    assert atoms_in("data:" + "aB3_" * 200) == set()


def test_the_same_text_has_the_same_atoms_each_time_it_is_read() -> None:
    text = "src/a.py:12: KeyError in load_day() at 9f3c2ab, see docs/b.md"
    assert atoms_in(text) == atoms_in(text) == {"src/a.py", "KeyError", "load_day", "9f3c2ab", "docs/b.md"}


def test_atoms_are_paths_names_or_neither() -> None:
    assert is_path("src/a")
    assert is_path("a.py")
    assert not is_path("0.19.0")
    assert is_name("load_day")
    assert not is_name("deadbeef")
    assert not is_name("8443")


def index_of(*texts: str) -> AtomIndex:
    index = AtomIndex()
    for number, text in enumerate(texts):
        index.add(tool(f"c{number}", text), number)
    return index


def test_an_index_knows_who_said_an_atom_how_often_and_where_last() -> None:
    index = AtomIndex()
    index.add(user("fix load_day in src/day.py"), 0)
    index.add(assistant("looking", [call("read_file", {"path": "src/day.py"})]), 1)
    index.add(tool("call_1", "def load_day(): ...\nload_day()"), 2)
    seen = index.seen["load_day"]
    assert (seen.user, seen.said, seen.results, seen.messages, seen.places) == (1, 0, 1, 2, (2, 0))
    assert index.seen["src/day.py"].last_said == 1


def test_the_newest_atoms_are_chosen_by_place_and_then_by_name() -> None:
    index = index_of("old_one old_two", "mid_one mid_two mid_three", "new_one")
    assert index.newest(3) == ["new_one", "mid_one", "mid_three"]
    assert index.newest(99) == sorted(index.seen)


def test_what_a_person_named_late_is_worth_more_than_what_a_result_showed_once() -> None:
    index = index_of("load_day")
    index.add(user("what about load_week?"), 1)
    assert index.worth("load_week", 0) > index.worth("load_day", 0)
