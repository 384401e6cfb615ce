"""`clew sessions state`: how things stand in a conversation that is kept, and how they stood."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.store import NewSession, Store
from clew.testing import assistant, call, tool, user

if TYPE_CHECKING:
    from tests.cli.conftest import Kept


def keep(kept: Kept, path: str = "config.toml") -> None:
    async def write(store: Store) -> None:
        await store.start_session(NewSession(id="bakery"))
        for n, (old, new) in enumerate([(3, 5), (5, 4)]):
            made = call("patch", {"path": path, "old": f"shifts = {old}", "new": f"shifts = {new}"}, id=f"p{n}")
            said = [user(f"Make it {new} shifts, please."), assistant(None, [made]), tool(f"p{n}", "Done.")]
            await store.append("bakery", [*said, assistant("Done.")])

    kept.ask(write)


def test_a_value_has_its_message_and_all_that_it_was_before(kept: Kept) -> None:
    keep(kept)
    found = kept.json("sessions", "state", "bakery", "--kind", "settings")
    (setting,) = found["entities"]
    assert (setting["name"], setting["value"], setting["since"]) == ("shifts in config.toml", "4", "m6")
    assert [(was["value"], was["message"]) for was in setting["before"]] == [("5", "m2"), ("3", "m2")]
    shown = kept.run("sessions", "state", "bakery")[1]
    assert "shifts in config.toml  4  m6  before: 5 (m2)" in shown and "tasks" in shown


def test_a_setting_in_a_file_far_down_is_still_named(kept: Kept) -> None:
    keep(kept, f"/home/dev/{'bakeries/' * 12}config.toml")
    shown = kept.run("sessions", "state", "bakery", "--kind", "settings")[1]
    assert "  shifts in …" in shown and "bakeries/config.toml  4  m6" in shown


def test_it_is_as_it_was_behind_a_message(kept: Kept) -> None:
    keep(kept)
    assert kept.json("sessions", "state", "bakery", "--at", "m3")["entities"][-2]["value"] == "5"
    assert "after m0" in kept.run("sessions", "state", "bakery", "--at", "0")[1]
    status, _, problem = kept.run("sessions", "state", "bakery", "--at", "m99")
    assert status == 2 and "m99 is not there yet: the conversation has m0 to m7" in problem
