"""The store contract: search finds the same on every database, with the same best hit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from clew.errors import InvalidArgument
from clew.store import CompactionEntry, NewMessage, NewOutput, NewSession, SearchScope, SnippetSizes, Store, open_store
from clew.testing.messages import assistant, call, tool, user

_SAID = (
    user("Please raise the upload timeout to 45 seconds, and never touch prod.db."),
    assistant(
        "I configured retry_backoff in src/uploader/client.py.", [call("patch", {"path": "src/uploader/client.py"})]
    ),
    tool("call_1", "def getUserName(row):\n    raise HTTPServerError('checksum mismatch at 0xdeadbeef')\n"),
    user("请检查数据库的连接池，第三次重试之后还在报错。"),
    assistant("接続プールの設定を確認しました。데이터베이스 연결도 확인했습니다."),
    user("Die Prüfung für Straße läuft; naïve café."),
    tool("call_9", "tests/test_uploader.py::test_retry PASSED\n" * 30 + "E   ValueError: quota 7731 exceeded\n"),
    assistant("The running tests are configuration tests. They ran quickly."),
)


# Queries, and the message that each must find first.
BEST = {
    "timeout": 0,
    "what was the upload timeout?": 0,
    "TIMEOUTS": 0,
    "retry_backoff": 1,
    "retryBackoff": 1,
    "src/uploader/client.py": 1,
    "client.py": 1,
    "configuring": 7,
    "user name": 2,
    "getUserName": 2,
    "get_user_name": 2,
    "server error": 2,
    "0xdeadbeef": 2,
    '"checksum mismatch"': 2,
    "数据库": 3,
    "据库": 3,
    "重试之后": 3,
    "数据库为什么报错": 3,
    "プール": 4,
    "데이터베이스": 4,
    "연결": 4,
    "prufung STRASSE cafe": 5,
    "Prüfung": 5,
    "7731": 6,
    "quota exceeded": 6,
    "0xdead": 2,
    "run": 7,
}
ODD = [
    '"',
    "'",
    "* OR *",
    "a AND",
    "NEAR(",
    "col:x",
    "-",
    "(((",
    "\x00",
    "\ud800",
    "'; DROP TABLE docs; --",
    ":*",
    "!&|",
    "^",
    "\\",
]


async def talked(store: Store) -> None:
    await store.start_session(NewSession(id="s", title="uploader"))
    await store.append("s", _SAID)


async def found(store: Store, query: str, scope: SearchScope | None = None) -> list[int | None]:
    """The numbers of the hits, each with its copies behind it."""
    return [seq for hit in (await store.search(query, scope)).hits for seq in (hit.seq, *hit.copies)]


class SearchContract:
    async def test_a_plain_query_finds_its_message_first(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talked(store)
            best = {query: next(iter(await found(store, query)), None) for query in BEST}
            assert best == BEST

    async def test_no_query_is_a_mistake(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talked(store)
            for query in ODD:
                assert (await store.search(query)).query == query
            assert len(await store.messages("s")) == len(_SAID)

    async def test_any_of_the_words_is_enough_and_more_of_them_are_better(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("apple"), user("apple pear"), user("apple pear plum"), user("fig")])
            assert await found(store, "plum apple pear") == [2, 1, 0]
            assert set(await found(store, "apple pear missingword")) == {0, 1, 2}

    async def test_neighbours_are_better_than_words_apart(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            apart = "the pool was drained; " + "nothing else was said about it; " * 4 + "the connection held"
            await store.append("s", [user("the connection pool was drained"), user(apart)])
            assert await found(store, "connection pool") == [0, 1]
            assert await found(store, '"connection pool"') == [0]

    async def test_a_snippet_shows_the_sentence_around_the_match(self, store_url: str) -> None:
        text = "Filler sentence number one. " * 60 + "The secret port is 8443, chosen by ops. " + "More filler. " * 60
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user(text)])
            (hit,) = (await store.search("secret port")).hits
            assert "The secret port is 8443, chosen by ops." in hit.snippet.text
            assert len(hit.snippet.text) <= 400
            marked = [hit.snippet.text[start:stop] for start, stop in hit.snippet.marks]
            assert marked == ["secret", "port"]
            assert text[hit.snippet.start :].startswith(hit.snippet.text)

    async def test_a_very_long_result_is_found_anywhere_in_it_and_once(self, store_url: str) -> None:
        text = "line of log output\n" * 4_000 + "the needle is here\n" + "line of log output\n" * 4_000
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [tool("1", text), tool("2", text.replace("needle", "log"))])
            assert await found(store, "needle") == [0]
            (hit,) = (await store.search("needle")).hits
            assert "the needle is here" in hit.snippet.text
            assert sorted(map(str, await found(store, "output"))) == ["0", "1"]

    async def test_a_message_that_was_compacted_ten_times_is_found_once(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("the zebra"), assistant("noted"), user("go on")])
            tip = "s"
            for number in range(10):
                view = await store.view(tip)
                summary = user(f"summary {number}")
                entry = CompactionEntry.of(view, [view.messages[0], summary], summary)
                tip = (await store.commit_compaction(tip, entry)).id
                await store.append(tip, [user("more")])
            assert await found(store, "zebra") == [0]
            summaries = (await store.search("summary", SearchScope(kinds=("summary",)))).hits
            assert len(summaries) == 10 and {hit.kind for hit in summaries} == {"summary"}

    async def test_filters_narrow_without_hiding(self, store_url: str) -> None:
        early, late = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)
        async with open_store(store_url) as store:
            for name in ("a", "b"):
                await store.start_session(NewSession(id=name, title=name.upper(), owner=name))
            await store.append("a", [NewMessage(user("fox one"), at=early), NewMessage(assistant("fox two"), at=late)])
            calls = [call("terminal", id="1"), call("patch", id="2")]
            await store.append("b", [assistant("fox", calls), tool("1", "fox"), tool("2", "fox three")])
            assert len(await found(store, "fox")) == 5
            assert len(await found(store, "fox", SearchScope(session="a"))) == 2
            assert len(await found(store, "fox", SearchScope(conversation_of="b"))) == 3
            assert len(await found(store, "fox", SearchScope(owner="a"))) == 2
            assert len(await found(store, "fox", SearchScope(roles=("assistant",)))) == 2
            assert len(await found(store, "fox", SearchScope(tools=("patch", "nothing")))) == 1
            assert await found(store, "fox", SearchScope(session="a", since=datetime(2024, 3, 1, tzinfo=UTC))) == [1]
            assert await found(store, "fox", SearchScope(before=datetime(2024, 3, 1, tzinfo=UTC))) == [0]
            answer = await store.search("fox")
            assert {group.title: len(group.hits) for group in answer.groups} == {"A": 2, "B": 3}

    async def test_a_branch_finds_shared_messages_and_none_from_after_the_fork(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("otter one"), user("otter two"), user("otter three")])
            branch = await store.branch("s", 2)
            await store.append(branch.id, [user("otter four")])
            hits = (await store.search("otter", SearchScope(conversation_of=branch.id))).hits
            assert {hit.snippet.text for hit in hits} == {"otter one", "otter two", "otter four"}

    async def test_a_spilled_output_is_stored_once_and_found(self, store_url: str) -> None:
        text = "noise\n" * 20_000 + "kernel panic at line 99\n"
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            name = await store.keep_output(NewOutput("s", text, tool="terminal", path="spills/x.txt"))
            assert await store.keep_output(NewOutput("s", text)) == name
            (hit,) = (await store.search("kernel panic")).hits
            assert (hit.kind, hit.ref, hit.tool) == ("output", name, "terminal")
            kept = await store.output(name)
            assert kept is not None and kept.text == text and kept.path == "spills/x.txt"
            assert await store.output(name, owner="stranger") is None
            assert await store.check() == []

    async def test_a_system_prompt_is_found_when_it_is_asked_for(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            for name in ("a", "b"):
                await store.start_session(NewSession(id=name, system="You like walruses."))
            assert (await store.search("walruses")).hits == ()
            (hit,) = (await store.search("walruses", SearchScope(kinds=("system",)))).hits
            assert hit.kind == "system"

    async def test_a_system_prompt_is_indexed_once_whichever_way_it_came(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            for session in ("s", "s", "other", "s"):
                await store.start_session(NewSession(id=session, system="You are a careful editor."))
            assert await store.check() == []
            synced = await store.sync([user("hi")], new=NewSession(system="You are a patient gardener."))
            assert await store.check() == []
            summary = user("what came before")
            entry = CompactionEntry.of(await store.view(synced.session), [summary], summary)
            await store.commit_compaction(synced.session, entry, system="You are a cautious sailor.")
            assert await store.check() == []
            for word in ("editor", "gardener", "sailor"):
                assert len((await store.search(word, SearchScope(kinds=("system",)))).hits) == 1

    async def test_an_empty_answer_says_what_was_searched(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talked(store)
            answer = await store.search("absentword")
            assert answer.hits == () and answer.searched is not None
            assert str(answer) == "searched 8 messages, 0 summaries, 0 outputs: none"
            narrow = await store.search("absentword", SearchScope(roles=("tool",)))
            assert narrow.searched is not None and narrow.searched.messages == 2

    async def test_the_number_of_hits_is_bounded(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user(f"bee {number}") for number in range(150)])
            assert len((await store.search("bee", limit=5)).hits) == 5
            assert len((await store.search("bee", limit=120)).hits) == 120
            with pytest.raises(InvalidArgument):
                await store.search("bee", limit=0)

    async def test_later_hits_may_have_shorter_snippets(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            texts = [f"Part {n} of the zebra report. " + f"It says {n} and {n * 7} of it. " * 60 for n in range(12)]
            await store.append("s", [user(text) for text in texts])
            hits = (await store.search("zebra", limit=12, snippet_chars=SnippetSizes(700, 200))).hits
            lengths = [len(hit.snippet.text) for hit in hits]
            assert len(lengths) == 12 and min(lengths[:6]) > 500 and max(lengths[6:]) < 260
            assert all("zebra" in hit.snippet.text for hit in hits)
            sizes = SnippetSizes(700, 200, {hit.seq or 0 for hit in hits[:4]}, hits[0].conversation)
            again = (await store.search("zebra", limit=12, snippet_chars=sizes)).hits
            lengths = [len(hit.snippet.text) for hit in again]
            assert max(lengths[:4]) < 260 and min(lengths[4:10]) > 500

    async def test_a_word_of_every_message_of_a_conversation_counts_little_in_it(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            for name, subject in (("one", "ledger"), ("two", "harbour"), ("three", "orchard"), ("four", "quarry")):
                await store.start_session(NewSession(id=name))
                await store.append(name, [user(f"{subject} note {n}, nothing else") for n in range(30)])
            await store.append("one", [user("ledger ledger ledger ledger"), user("the invoice came twice")])
            assert (await found(store, "ledger invoice", SearchScope(conversation_of="one")))[0] == 31

    async def test_a_file_is_found_by_another_path_to_it(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            said = ["opened the door", "error in src/modes/retry-window.ts(40,2)", "closed the window again"]
            await store.append("s", [user(text) for text in said])
            assert (await found(store, "read /home/me/app/src/modes/retry-window.ts"))[0] == 1

    async def test_a_rare_word_is_found_in_its_other_forms(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user(f"note {n}") for n in range(60)])
            said = ["the kayaks were hired", "one kayak is broken", "it is truncated there", "add it: validation, 7."]
            await store.append("s", [user(text) for text in said])
            assert set(await found(store, "kayak")) == {60, 61} == set(await found(store, "kaya"))
            assert await found(store, "kayakers") == await found(store, "kayaking") != []
            assert await found(store, "zebu") == []
            assert await found(store, "truncation") == [62]
            assert await found(store, "validate") == [63]
            assert (await found(store, "7. add"))[0] == 63
            assert await found(store, "7.") != []

    async def test_a_rebuilt_index_finds_the_same(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talked(store)
            before = await found(store, "configured tests retry")
            await store.rebuild_index()
            assert await found(store, "configured tests retry") == before
            assert await store.check() == []


_SMALL_TALK = [user(f"Nothing new here on the {number}th, only rain and work.") for number in range(10, 40)]


class QuestionContract:
    """What a plain question finds in a talk between people, beside the rows that hold its words."""

    async def test_an_answer_is_found_with_the_question_before_it(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            asked = [user("How often do you work out these days?"), assistant("Three times a week, before breakfast.")]
            await store.append("s", [*_SMALL_TALK[:15], *asked, *_SMALL_TALK[15:]])
            assert (await found(store, "How often does he work out?"))[:2] == [15, 16]
            assert 16 not in await found(store, "work out")

    async def test_neighbours_obey_the_scope(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("Where is the ferry?"), assistant("At pier nine."), user("Thanks!")])
            assert await found(store, "where is the ferry?", SearchScope(roles=("user",))) == [0]
            branch = await store.branch("s", 1)
            scope = SearchScope(conversation_of=branch.id)
            assert await found(store, "where is the ferry?", scope) == [0]

    async def test_a_day_finds_what_was_told_of_it_later(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            said = {
                3: "We stayed in.",
                8: "Yesterday we took the boat to the island!",
                9: "So tired today.",
                20: "Rain.",
            }
            rows = [NewMessage(user(text), at=datetime(2024, 5, day, 12, tzinfo=UTC)) for day, text in said.items()]
            await store.append("s", rows)
            scope = SearchScope(conversation_of="s")
            assert (await found(store, "What did they do on 7 May 2024?", scope))[0] == 1
            assert (await found(store, "What happened on 2024-05-09?", scope))[0] == 2
            assert (await found(store, "What did they do on 7 May 2024?"))[0] == 1
            assert (await found(store, "What did I do on 7 May 2024?", scope))[0] == 1
            assert 1 not in await found(store, "What did they do on 7 May 2021?", scope)

    async def test_a_day_is_found_among_many_messages_of_the_weeks_after_it(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            noon = datetime(2024, 5, 2, 12, tzinfo=UTC)
            told = [(0, "We stayed in and played cards."), (2, "The day before yesterday we fed the geese.")]
            later = [(3 + number // 10, f"Next week is for plan {number}.") for number in range(280)]
            rows = [NewMessage(user(text), at=noon + timedelta(days=day)) for day, text in (*told, *later)]
            await store.append("s", rows)
            hits = await found(store, "What did I do on 2 May 2024?", SearchScope(conversation_of="s"))
            assert set(hits[:2]) == {0, 1}

    async def test_irregular_forms_and_possessives_are_found(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            told = [user("I found the ring under the sofa."), user("Odile taught the twins to swim.")]
            await store.append("s", [*_SMALL_TALK, *told])
            assert (await found(store, "Where did she find it?"))[0] == len(_SMALL_TALK)
            assert (await found(store, "Who teaches swimming?"))[0] == len(_SMALL_TALK) + 1
            assert (await found(store, "What are Odile's lessons?"))[0] == len(_SMALL_TALK) + 1

    async def test_a_short_text_is_whole_and_a_long_one_has_excerpts_that_cut_no_value(self, store_url: str) -> None:
        address = "https://example.com/heron/" + "a/" * 80
        noise = "nothing of note was seen on this day\n" * 60
        long = f"{noise}The heron nests at {address} in spring.\n{noise}Its ferry leaves at 07:41:09 sharp.\n{noise}"
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user(long), assistant("A heron and a ferry.")])
            sizes = SnippetSizes(900, whole=1_500, excerpts=3)
            hits = (await store.search("heron ferry", snippet_chars=sizes)).hits
            by_number = {hit.seq: hit for hit in hits}
            assert by_number[1].snippet.text == "A heron and a ferry." and by_number[1].snippet.is_end
            shown = [it.text for it in by_number[0].excerpts]
            assert len(shown) > 1 and by_number[0].chars == len(long)
            assert any(address in text for text in shown) and any("07:41:09 sharp." in text for text in shown)
            for it in by_number[0].excerpts:
                assert long[it.start : it.start + len(it.text)] == it.text

    async def test_messages_that_are_nearly_the_same_are_one_hit_with_their_numbers(self, store_url: str) -> None:
        listing = "\n".join(f"src/part_{n}.py walrus" for n in range(40))
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [tool(str(n), listing) for n in range(4)])
            await store.append("s", [user("Where is the walrus?")])
            hits = (await store.search("walrus")).hits
            assert sorted((hit.seq, *hit.copies) for hit in hits if hit.role == "user") == [(4,)]
            (listed,) = [hit for hit in hits if hit.role == "tool"]
            assert {listed.seq, *listed.copies} == {0, 1, 2, 3}

    async def test_results_that_differ_in_numbers_or_in_a_word_are_one_hit(self, store_url: str) -> None:
        run = "walrus part {0} was built in 1.{0} s, and then {1} tests of the shore passed as they did before"
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            runs = [run.format(*them) for them in ((3, 17), (94, 105), (12, "all"))]
            other = "walrus part 3 was not built, because the compiler found no header; no test of the shore was run"
            await store.append("s", [tool(str(n), text) for n, text in enumerate((*runs, other))])
            hits = (await store.search("walrus shore")).hits
            assert sorted(sorted((hit.seq or 0, *hit.copies)) for hit in hits) == [[0, 1, 2], [3]]

    async def test_turns_that_differ_in_a_number_are_two_hits(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user(f"From now on the walrus gets {n} buckets of fish a day") for n in (48, 12)])
            assert not any(hit.copies for hit in (await store.search("walrus fish")).hits)

    async def test_words_of_the_projects_own_path_do_not_count(self, store_url: str) -> None:
        said = "We talked at length about many other things. " * 60 + "Then it was agreed: walrus, at most 48 to carry."
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [tool("said", said)])
            paths = [f"/home/ann/walrus/part{n}.py: carry {n}" for n in range(12)]
            await store.append("s", [tool(str(n), text) for n, text in enumerate(paths)])
            assert (await found(store, "walrus carry"))[0] == 0
            assert len(await found(store, "walrus")) == 13

    async def test_one_passage_does_not_fill_the_page(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            same = [
                assistant(f"I read many books and books, that is number {number} of today.") for number in range(30)
            ]
            others = [
                user("Books: the Tin Parade."),
                user("I closed my books and slept."),
                user("No books for me now."),
            ]
            await store.append("s", [*others, *same])
            assert {0, 1, 2} <= set((await found(store, "Which books did they read?"))[:10])

    async def test_a_short_turn_is_not_hidden_by_long_replies(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            reply = "There is a lot to say about a garden and what you plant in it. " + "Water it well and wait. " * 60
            talk = [user("I planted a fig in the garden."), *(assistant(f"{number}. {reply}") for number in range(20))]
            await store.append("s", talk)
            assert (await found(store, "What is planted in the garden?"))[0] == 0

    async def test_who_asks_for_something_of_their_own_told_it_and_who_was_told_it_asks_for_that(
        self, store_url: str
    ) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            told = user("By the way, I planted 12 olive trees behind the barn. Which mulch would you take?")
            advice = "Olive trees behind a barn want dry feet: olive trees planted in a row, mulch of gravel. "
            other = user("And what else should I know?")
            await store.append("s", [*_SMALL_TALK, told, assistant(advice * 20), other, assistant(advice * 20)])
            number = len(_SMALL_TALK)
            assert (await found(store, "How many olive trees did I plant behind the barn?"))[0] == number
            assert (await found(store, "Which mulch did you suggest for the olive trees?"))[0] in (
                number + 1,
                number + 3,
            )

    async def test_a_long_reply_is_on_a_page_once(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            reply = "".join(f"Point {number}: prune the quince in March, and again in June.\n" for number in range(90))
            asked = [user("When do I prune the quince?"), assistant(reply), user("And how do I prune it?")]
            await store.append("s", [*_SMALL_TALK, *asked, assistant(reply.replace("March", "May"))])
            hits = await found(store, "When should I prune my quince?")
            assert len(hits) == len(set(hits)) and len(_SMALL_TALK) in hits
