"""What reading handoffs of pi and opencode sessions, of talks and of Chinese ones asked for, each as a small case."""

from __future__ import annotations

from clew.messages import Message
from clew.summaries import Handoff, write_handoff
from clew.summaries.handoff import BLOCKED, COMPLETED, TRIED
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def ran(command: str, result: str, id: str) -> list[Message]:
    return [assistant(None, [call("bash", {"command": command}, id)]), tool(id, result)]


def handoff_of(messages: list[Message], budget: int = 2_000) -> Handoff:
    return write_handoff(summary_input_of(messages), budget, count)


def completed(messages: list[Message], budget: int = 2_000) -> str:
    return "\n".join(handoff_of(messages, budget).lines(COMPLETED))


def test_a_search_that_printed_nothing_is_no_failure() -> None:
    messages = [
        user("Where is the buffer flushed?"),
        *ran('grep -n "flush_buffer" src/log_sink.py', "(no output)\n\nCommand exited with code 1", "a"),
    ]
    handoff = handoff_of(messages)
    assert not handoff.lines(BLOCKED)
    assert not handoff.lines(TRIED)


def test_a_look_of_which_nothing_can_be_told_is_left_out() -> None:
    found = "\n".join(f"{n}" for n in range(400))
    told = completed(
        [
            user("Tidy up."),
            *ran("ls build | wc -l; ls build", found, "a"),
            *ran("make tidy", found, "b"),
            assistant("Tidied."),
        ]
    )
    assert "RAN make tidy" in told
    assert "ls build" not in told


def test_a_program_that_is_packed_into_one_line_is_not_quoted() -> None:
    packed = ";".join(
        f'const a{n}=o((s,e)=>{{x(3,"resolve_ts_filename_{n}",{{request:e,is_dir:_.test(e)}})}})' for n in range(30)
    )
    failed = (
        f"/srv/shop/node_modules/tsx/dist/register.cjs:3\n{packed}\n\nError: Cannot find module './src/shop_config.js'"
    )
    told = completed([user("Start it."), *ran("npx tsx src/cli.ts", failed, "a"), assistant("It does not start.")])
    assert "Cannot find module './src/shop_config.js'" in told
    assert "resolve_ts_filename" not in told


PORTED = """Excellent progress! We've completed five of the seven packages:

**Completed:**
- `upload_core.py` with the shared logic of all modes
- `print_mode.py` and `rpc_mode.py`, both on the new core

**Remaining:**
- `chat_mode.py`, which is the largest one of them all
- the setup, out of `main.py` into `core/setup.py`

Want me to go on with the chat?"""


def test_an_entry_of_a_list_stands_behind_the_label_that_says_what_of() -> None:
    told = completed([user("Port the modes to the new core."), assistant(PORTED), user("Go on.")])
    assert "**Remaining:** - `chat_mode.py`, which is the largest one of them all" in told
    assert told.count("**Remaining:**") == 1


def test_steps_that_are_counted_are_told_once_with_the_last_count() -> None:
    messages = [user("Port all packages of the shop, and commit each.")]
    for done in (3, 5, 8):
        said = f"We've completed the packages 1 to {done} of the shop's plan."
        messages += [assistant(said, [call("bash", {"command": f"make check_{done}"}, f"c{done}")])]
        messages += [tool(f"c{done}", "ok")]
    told = completed([*messages, assistant("The ninth package needs a decision: keep the old queue?"), user("Yes.")])
    assert told.count("We've completed the packages") == 1
    assert "the packages 1 to 8" in told


def test_an_exchange_is_told_by_its_conclusion_before_any_other_sentence() -> None:
    messages: list[Message] = []
    for n in range(12):
        messages += [
            user(f"Make the box of kind {n} open by itself when the lid is lifted, please."),
            assistant(
                f"I fixed the hinge of kind {n}: the spring was mounted the wrong way round, so it never opened.\n\n"
                f"- `hinge_{n}.py`: `open_lid()`\n- `spring_{n}.py`: `turn_spring()`"
            ),
        ]
    told = completed([*messages, user("Thanks, now the kind 12.")], 420)
    for line in told.split("\n"):
        assert "open_lid" not in line or "fixed the hinge" in line
