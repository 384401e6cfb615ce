"""Which messages stay at the start, which at the end."""

from __future__ import annotations

from clew.engines.compressor.history import newest_visible, prompts_in
from clew.engines.compressor.plan import cut_at, head_end, tail_start
from clew.engines.compressor.prune import fit_tail
from clew.messages import Message, Part, text_of
from clew.testing import assistant, call, system, tool, user


def group(number: int, results: int = 1, text: str | None = None, chars: int = 10) -> list[Message]:
    ids = [f"c{number}_{place}" for place in range(results)]
    return [assistant(text, [call("read", {"path": id}, id=id) for id in ids]), *(tool(id, "x" * chars) for id in ids)]


def thinking_only(number: int) -> Message:
    thought: Part = {"type": "thinking", "thinking": f"hm {number}", "signature": "s"}
    return {"role": "assistant", "content": None, "reasoning": [thought]}


def sized(message: Message) -> int:
    return len(str(message.get("content") or "")) + sum(
        len(each["function"]["arguments"]) for each in message.get("tool_calls", ())
    )


def test_the_head_is_the_system_prompt_and_the_first_three() -> None:
    talk = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    assert head_end(talk, 3) == 3
    assert head_end([system("s"), *talk], 3) == 4
    developer: Message = {"role": "developer", "content": "d"}
    assert head_end([system("s"), developer, *talk], 3) == 5
    assert head_end([system("s"), *talk], 0) == 1


def test_the_head_ends_before_a_group_that_reaches_further() -> None:
    assert head_end([user("a"), *group(1, results=3), user("b")], 3) == 1
    assert head_end([user("a"), *group(1), user("b"), assistant("c")], 3) == 3
    assert head_end([*group(1, results=5), user("b")], 3) == 0


def test_a_history_of_prompts_alone_is_all_head() -> None:
    assert head_end([system(str(number)) for number in range(5)], 3) == 5
    assert head_end([], 3) == 0


def test_the_tail_reaches_back_as_far_as_its_tokens() -> None:
    talk = [user(str(number)) for number in range(10)]
    assert tail_start([10] * 10, talk, 35, protected=0) == 7
    assert tail_start([10] * 10, talk, 1_000, protected=0) == 0


def test_the_last_messages_are_protected_when_the_tokens_protect_fewer() -> None:
    talk = [user(str(number)) for number in range(10)]
    assert tail_start([10] * 10, talk, 15, protected=6) == 4
    assert tail_start([10] * 10, talk, 0, protected=0) == 9


def test_the_tail_never_begins_inside_a_group() -> None:
    messages = [user("a"), *group(1, results=4), user("b")]
    assert tail_start([10] * 7, messages, 10, protected=0) == 6
    assert tail_start([10] * 7, messages, 30, protected=0) == 1
    thinks = [user("a"), thinking_only(1), *group(2), user("b")]
    assert tail_start([10] * 5, thinks, 30, protected=0) == 1


def test_the_newest_request_and_reply_are_kept_where_they_lie_before_the_tail() -> None:
    messages = [user("a"), assistant("b"), user("task"), *group(1), assistant("so far"), *group(2), *group(3)]
    cut = cut_at(messages, 1, 8, prompts_in(messages))
    assert cut.kept == (2, 5)
    assert cut.folded == [1, 3, 4, 6, 7]


def test_what_stands_in_head_or_tail_is_not_kept_twice() -> None:
    messages = [user("task"), *group(1), *group(2), assistant("done")]
    assert cut_at(messages, 1, 5, prompts_in(messages)).kept == ()
    assert newest_visible(messages) == [0, 5]


def test_a_reply_that_calls_is_not_kept_without_its_results() -> None:
    messages = [user("task"), *group(1, text="I look."), *group(2), *group(3)]
    assert cut_at(messages, 1, 5, prompts_in(messages)).kept == ()


def test_a_system_message_in_the_middle_stays_once() -> None:
    messages = [system("s"), user("a"), system("new rule"), user("b"), system("new rule"), user("c"), user("d")]
    assert cut_at(messages, 2, 6, prompts_in(messages)).kept == (4,)
    again = [*messages, system("new rule")]
    assert cut_at(again, 2, 6, prompts_in(again)).kept == ()


def test_large_results_in_a_tail_over_its_budget_are_pruned_the_newest_last() -> None:
    tail = [*group(1, chars=5_000), *group(2, chars=5_000), *group(3, chars=5_000)]
    later, fitted = fit_tail(tail, range(6), [sized(m) for m in tail], 6_000, sized)
    assert later == 0
    assert [len(str(m["content"])) > 4_000 for m in fitted if m["role"] == "tool"] == [False, False, True]
    assert fitted[5] is tail[5]


def test_results_and_arguments_are_pruned_by_age() -> None:
    calling = assistant(None, [call("write_file", {"path": "a", "content": "y" * 5_000})])
    tail = [calling, tool("call_1", "x" * 5_000), user("ok")]
    sizes = [sized(message) for message in tail]
    _, fitted = fit_tail(tail, range(3), sizes, 6_000, sized)
    assert sized(fitted[0]) < 1_000 and fitted[1] is tail[1]
    _, fitted = fit_tail(tail, range(3), sizes, 1_500, sized)
    assert sum(map(sized, fitted)) <= 1_500
    assert fit_tail(tail, range(3), sizes, 20_000, sized)[1] == tail


def test_a_result_pruned_in_the_tail_tells_of_the_nearest_call_before_it() -> None:
    tail: list[Message] = []
    for name in ("first", "second"):
        tail += [assistant(None, [call("terminal", {"command": name})]), tool("call_1", "x" * 5_000)]
    _, fitted = fit_tail(tail, range(4), [sized(m) for m in tail], 300, sized)
    assert ['"first"' in text_of(fitted[1]), '"second"' in text_of(fitted[3])] == [True, True]


def test_room_that_a_later_start_leaves_goes_back_to_the_newest_results() -> None:
    tail = [user("z" * 4_000), *group(1, chars=900), *group(2, chars=900), *group(3, chars=900)]
    later, fitted = fit_tail(tail, range(7), [sized(m) for m in tail], 2_200, sized)
    assert later == 1
    shown = [len(str(m["content"])) for m in fitted if m["role"] == "tool"]
    assert shown[0] < 400 and shown[1:] == [900, 900]


def test_of_a_huge_newest_result_both_ends_stay_and_older_ones_have_room() -> None:
    listing = "".join(f"-rw-r--r-- 1 root {number:06}.log\n" for number in range(2_000))
    tail = [*group(1, chars=900), *group(2, chars=900)]
    tail += [assistant(None, [call("terminal", {"command": "ls -l"}, id="c9")]), tool("c9", listing)]
    _, fitted = fit_tail(tail, range(6), [sized(m) for m in tail], 4_000, sized)
    kept = text_of(fitted[-1])
    assert kept.startswith("-rw-r--r-- 1 root 000000.log\n") and kept.endswith("001999.log\n")
    assert "chars left out; whole: m5" in kept
    assert len(kept) <= 2_000
    assert all(line.endswith((".log", "...]")) for line in kept.splitlines())
    assert fitted[1] is tail[1] and fitted[3] is tail[3]


def test_short_results_come_back_before_both_ends_of_a_huge_newer_one() -> None:
    tail = [*group(0, chars=300), *group(1, chars=320), *group(2, chars=60_000)]
    sizes = [sized(message) for message in tail]
    start, fitted = fit_tail(tail, range(len(tail)), sizes, 3_000, sized)
    assert start == 0
    assert fitted[1] is tail[1] and fitted[3] is tail[3]
    assert "chars left out" in text_of(fitted[5])


def test_a_tail_begins_later_rather_than_empty_its_newest_result() -> None:
    """Many messages that cannot be pruned, or were already, would leave the result that came last no room."""
    tail = [message for n in range(9) for message in group(n, text="I look at the next one. " * 4, chars=500)]
    start, fitted = fit_tail(tail, range(18), [sized(m) for m in tail], 1_600, sized)
    assert 0 < start < 16
    assert fitted[-1] is tail[-1]
    assert sum(map(sized, fitted)) <= 1_600


def test_a_tail_that_does_not_fit_begins_later_and_its_last_group_stays() -> None:
    tail = [user("z" * 900), assistant("z" * 900), *group(1), *group(2)]
    later, fitted = fit_tail(tail, range(6), [sized(m) for m in tail], 100, sized)
    assert later == 2
    assert fitted == tail[2:]
    huge = [user("z" * 900), *group(1), assistant("z" * 9_000)]
    assert fit_tail(huge, range(4), [sized(m) for m in huge], 100, sized) == (3, huge[3:])


def test_a_later_begin_does_not_part_thinking_from_its_message() -> None:
    tail = [user("z" * 100), thinking_only(1), assistant("z" * 100), *group(2), user("a")]
    sizes = [100, 100, 100, 10, 10, 10]
    later, _ = fit_tail(tail, range(6), sizes, 160, sized)
    assert later == 3


def test_the_tail_is_left_alone_while_it_fits() -> None:
    tail = [*group(1, chars=5_000), *group(2, chars=5_000)]
    assert fit_tail(tail, range(4), [sized(m) for m in tail], 100_000, sized) == (0, tail)
    assert fit_tail([], [], [], 100, sized) == (0, [])


def test_of_a_listing_that_a_newer_one_shows_again_only_the_other_lines_stay() -> None:
    def read(id: str, border: int, chars: int) -> list[Message]:
        lines = [f".shelf-{n} {{ width: {n * 7}px }} /* {'x' * chars} */" for n in range(40)]
        shown = "\n".join([*lines, f".frame {{ border: {border}px }}"])
        return [assistant(None, [call("read_file", {"path": "site.css"}, id)]), tool(id, shown)]

    tail = [*read("a", 3, 20), *read("b", 4, 20), *group(3, chars=900), *read("c", 5, 20)]
    sizes = [sized(message) for message in tail]
    later, fitted = fit_tail(tail, range(8), sizes, sum(sizes) // 2, sized)
    assert later == 0 and fitted[-1] is tail[-1] and fitted[5] is tail[5]
    for at, border in ((1, 3), (3, 4)):
        assert "40 of 41 lines are the same in m7" in text_of(fitted[at])
        assert f"border: {border}px" in text_of(fitted[at]) and ".shelf-3 " not in text_of(fitted[at])


def test_the_results_of_the_last_calls_share_the_room_of_the_tail() -> None:
    rows = ["\n".join(f"{name} row {n} costs {n * 37} crowns" for n in range(300)) for name in ("oak", "elm", "fir")]
    calls = [call("terminal", {"command": f"cat {at}.csv"}, f"c{at}") for at in range(3)]
    tail = [user("Compare them."), assistant(None, calls), *(tool(f"c{at}", text) for at, text in enumerate(rows))]
    _, fitted = fit_tail(tail, range(5), [sized(m) for m in tail], 6_000, sized)
    assert all("chars left out" in text_of(message) for message in fitted[2:])


def test_a_plan_in_the_tail_that_was_written_anew_is_without_its_entries() -> None:
    def planned(id: str, *done: int, many: int = 9) -> list[Message]:
        todos = [
            {"content": f"Count shelf {n}", "status": "completed" if n in done else "pending"} for n in range(many)
        ]
        return [assistant("Next.", [call("TodoWrite", {"todos": todos}, id)]), tool(id, "The list was changed.")]

    tail = [*planned("a"), *planned("b", 0), *planned("c", 0, 1), *planned("d", 0, 1, many=2)]
    sizes = [sized(message) for message in tail]
    later, fitted = fit_tail(tail, range(8), sizes, sum(sizes) // 2 + 400, sized)
    entries = [str(one["tool_calls"][0]["function"]["arguments"]) for one in fitted if one.get("tool_calls")]
    told = '{"todos": "[... 9 entries; written anew later]"}'
    assert later == 0 and entries[:2] == [told, told]
    assert entries[2].count("Count shelf") == 9 and entries[3].count("Count shelf") == 2
    assert fit_tail(tail, range(8), sizes, sum(sizes), sized)[1] == tail
