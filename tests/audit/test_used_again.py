"""What was used after a compaction and known only from before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clew.audit.used_again import atoms_in, used_again
from clew.testing import assistant, call, tool, user

BEFORE = [
    user("The port of the staging server is in deploy/settings.toml."),
    assistant("I look.", [call("read_file", {"path": "deploy/settings.toml"})]),
    tool("call_1", "listen_port = 48213\nmax_retries = 7\n"),
]


def test_only_what_stood_before_and_was_not_shown_since_counts() -> None:
    after = [
        assistant("I run it on port 48213."),
        tool("call_2", "ServerError: queue_depth exceeded"),
        assistant("The error says queue_depth; the settings are in deploy/settings.toml."),
    ]
    assert {atom.text for atom in used_again(BEFORE, after)} == {"48213", "deploy/settings.toml"}


def test_what_a_user_writes_again_was_not_remembered() -> None:
    after = [user("The port is 48213, remember?"), assistant("Yes, 48213.")]
    assert used_again(BEFORE, after) == []


def test_a_bare_list_of_names_keeps_no_fact() -> None:
    (atom,) = used_again(BEFORE, [assistant("I run it on port 48213.")])
    assert not atom.is_fact  # the line held nothing but the name and the number
    (atom,) = used_again([user("staging server listens behind port 48213")], [assistant("Open 48213.")])
    assert atom.is_fact
    assert atom.is_in("48213, 48214") and not atom.is_shown_in("48213, 48214")
    assert atom.is_shown_in("The staging server listens on port 48213.")


def test_arguments_count_by_their_values() -> None:
    before = [
        user("staging server keeps nDone, TodoWrite and activeForm"),
        assistant("I plan.", [call("TodoWrite", {"activeForm": "open the queue_lock of the staging server"})]),
    ]
    code = 'print("\\nDone")'
    after = [assistant("Next.", [call("TodoWrite", {"activeForm": f"first line\nqueue_lock of the server\n{code}"})])]
    (atom,) = used_again(before, after)
    assert (atom.text, atom.use.text) == ("queue_lock", "queue_lock of the server")
    assert atom.source.text == "open the queue_lock of the staging server"


def test_each_place_is_a_line_of_its_message() -> None:
    (atom,) = used_again(BEFORE, [assistant("First.\nI open port 48213 now.")])
    assert (atom.source.message, atom.source.text) == (2, "listen_port = 48213")
    assert (atom.use.message, atom.use.text) == (0, "I open port 48213 now.")


@given(st.lists(st.text(max_size=60), max_size=6), st.lists(st.text(max_size=60), max_size=6))
def test_every_atom_stands_before_and_in_a_reply(before: list[str], after: list[str]) -> None:
    replies = [assistant(text) for text in after]
    whole = "\n".join(before)
    for atom in used_again([user(text) for text in before], replies):
        assert atom.text in whole
        assert any(atom.text in atoms_in(text) for text in after)
        assert atom.is_in(whole)
