"""Which exact strings and which sentences of a text are kept."""

from __future__ import annotations

import pytest

from clew.ledger import (
    Ledger,
    LedgerStatement,
    atoms_in,
    is_name,
    is_opening,
    is_path,
    is_question,
    rule_replaced_by,
    rules_in,
)
from clew.ledger.extract import quotable_texts
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


def rules(text: str) -> list[str]:
    return [rule.text for rule in rules_in(text, 1)]


@pytest.mark.parametrize(
    "rule",
    [
        "Never touch prod.db.",
        "Please don't touch the public API.",
        "don’t push to main",
        "Use httpx, not requests.",
        "No new dependencies, please.",
        "For commits here: imperative mood, and no prefixes.",
        "At most 5 tries per batch.",
        "Make sure the tests are green before each commit.",
        "Make sure that all logs are set to UTC.",
        "Use ruff to format the code.",
        "A rule for all renames: the old name stays for a release.",
        "I prefer small dataclasses to tuples.",
        "btw, could we keep the old parser around for comparison?",
        "yes need to be fully green",
        "Everything has to be always in sync.",
        "Please don't provide defaults.",
        "We don't support old browsers.",
        "It is slow, but don't get rid of the cache.",
        "Since the parser is slow, don't call it twice.",
        "Do nothing until I say so, and never push.",
        "From now on, run the tests first.",
        "The key never leaves this machine.",
        "Forget the draft in notes.md.",
        "Remember that the build needs make 4.",
        "Remember to run the linter.",
        "This script must never delete a file.",
        "Could you please never push to main?",
        "Fass die Migrationen auf keinen Fall an.",
        "Antworte auf Deutsch.",
        "Nie auf main pushen.",
        "不要改数据库结构。",
        "所有日志必须写英文。",
        "请勿删除 fixtures。",
        "本番DBには触らないでください。",
        "必ずテストを実行すること。",
        "운영 DB는 건드리지 마세요.",
        "반드시 테스트를 먼저 실행하세요.",
        "Ne touche jamais à prod.db.",
        "N'utilise pas requests.",
        "Nunca toques prod.db.",
        "No borres nada.",
        "Usa solo la biblioteca estándar.",
    ],
)
def test_a_rule_is_kept_word_for_word_in_many_languages(rule: str) -> None:
    assert rules(f"{rule}\n") == [rule]
    # ... also between sentences that are none.
    assert rules(f"Good morning.\n{rule}\nGo ahead.\n") == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "The monthly report never finishes on the box.",
        "It always fails on Mondays.",
        "I don't know what is going on.",
        "I really don't understand this.",
        "What happens when we never commit?",
        "Just a question, do not change anything: what happens when the disk is full?",
        "How do we make sure that it always asks?",
        "No problem.",
        "Please fix the upload.",
        "```\nnever do this\n```",
        "~~~\nmust not\n~~~",
        "<system-reminder>You must never do this.</system-reminder>",
        "<file path='a.md'>Always do that.</file>",
        "<environment_context>never</environment_context>",
        'This one comes twice:\n{"id": 7, "note": "Never leave the tap open.", "by": "the keeper"}',
        "",
        "Never mind the scheduler, we stay with cron.",
        "alright, i think there's only one file left to fix up, read it in full",
        "if i change the theme, not everything updates correctly",
        "ok, i think this component doesn't adhere to the invariant that no line must be wider",
        "no, that's not it, both use the dark theme.",
        "write some markdown here in chat, anything you can do in markdown",
        "no, dimGray should be that, no need for linkGray",
        "Model sheets don't provide a way to list rows.",
        "Subcommands don’t retain the colours.",
        "The second pass yields even rows that don't need sorting.",
        "Since the parser splits on commas, instead of taking a list, the pattern is mangled.",
        "`wide` and `high` in `Frame.cells` do nothing.",
        "It prints `Limit(1)` instead of the expected `Limit(2)`.",
        "Please note that this error only occurs with two columns.",
        "TypeError: int() argument must be a string, not 'Lazy'",
        "should we keep the old code?",
        "the config needs to be updated",
        "This has to be fully rewritten.",
        "can leave it",
        "also remember the docs/refactor.md file btw. could read it now",
        "i remember seeing a code there",
        "this plan must be written in such a way that you can start a new session from it",
        "I don't have the order number at hand.",
        "I'm a teacher, so I don't typically deal with codes.",
        "I noticed that these values don't currently come from the form.",
        "i think we only do this in interactive mode no?",
        "And you said that only managers may do it, so there's no other way?",
        "You can avoid this by instead using \\A and \\Z.",
        'It says:\n400 {"type":"error","error":{"message":"Each call\nmust have a result in\nthe next."},"id":"r1"}',
        "I only know the name of the event.",
        "<issue_description>The form must never accept this.\n# Don't include archived ones</issue_description>",
        "I think this was booked as a guest rather than with an account.",
        "ana@box ~ % ./audit.sh\nScreen sharing must be enabled from the settings.\nNever run this twice.",
        "➜  shop git:(main) make\nerror: a target must not be empty",
        "make sure the scanner is set to strict",
        "Please ensure that the tunnel is enabled.",
        "Build the image. Make sure docker is running.",
        "use the cable to the router to troubleshoot the missing connection",
        "Check (2) again (use your rights to find technical evidence).",
    ],
)
def test_what_describes_asks_or_is_pasted_is_no_rule(text: str) -> None:
    assert rules(text) == []


def test_what_a_person_says_behind_pasted_output_may_be_a_rule() -> None:
    assert rules("ana@box ~ % ./audit.sh\nIt must be enabled.\n\nNever run it as root.") == ["Never run it as root."]


def test_rules_in_a_list_are_found_one_by_one_without_their_marks() -> None:
    assert rules("Rules:\n- never A\n* always B\n3. Do not C.\n") == ["Rules:", "never A", "always B", "Do not C."]


def test_a_rule_that_was_broken_over_two_lines_stays_whole() -> None:
    text = "When you write the migration of the accounts table please make sure that you\nnever drop a column.\nThanks"
    assert [" ".join(rule.split()) for rule in rules(text)] == [
        "When you write the migration of the accounts table please make sure that you never drop a column."
    ]


def test_an_abbreviation_does_not_end_a_rule() -> None:
    assert rules("Use a queue, e.g. redis, not files.") == ["Use a queue, e.g. redis, not files."]


def test_a_long_prohibition_is_kept_and_a_pasted_page_is_not_searched() -> None:
    long = f"Never touch {', '.join(f'table_{number}' for number in range(60))}."
    assert rules(long) == [long]
    page = "The page says so. " * 1000
    assert rules(f"{page} You must not read this here. {page}") == []
    assert rules(f"Read this, and never print it.\n{page}") == ["Read this, and never print it."]


def test_prohibitions_and_demands_are_hard_and_preferences_are_not() -> None:
    assert [rule.is_hard for rule in rules_in("Never A. I prefer B. Always C. 不要删。", 1)] == [
        True,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("old", "new", "is_replaced"),
    [
        ("requests is fine.", "httpx, not requests.", True),
        ("Always answer in German.", "Answer in English from now on.", True),
        ("At most 5 tries per batch, above that the office bans us.", "Forget the 5 tries.", True),
        ("Never touch prod.db.", "Actually, touching prod.db is fine now.", True),
        ("日志请用中文。", "日志改用英文。", True),
        # Something else that is said of the same thing takes no prohibition back.
        ("Never delete tests.", "Only edit files in src, not tests.", False),
        ("Never touch prod.db.", "From now on, read prod.db before each run.", False),
        ("Never touch prod.db.", "Actually, use tabs.", False),
        ("Use tabs.", "Always run the tests.", False),
        ("Use tabs.", "Forget it.", False),
    ],
)
def test_a_change_of_mind_takes_back_what_it_is_about_and_nothing_else(old: str, new: str, is_replaced: bool) -> None:
    before, after = LedgerStatement(old, 1), LedgerStatement(new, 2)
    assert (rule_replaced_by(after, [before]) is before) == is_replaced


def test_decisions_are_kept_with_their_reasons_and_guesses_are_not() -> None:
    ledger = Ledger.of(
        [
            user("Which one?"),
            assistant("I looked. We go with httpx because requests has no async client. Next the tests."),
            assistant("Maybe it fails because of the clock. Is it because of the cache?"),
            assistant("决定改用 httpx，因为 requests 没有异步客户端。"),
        ]
    )
    assert [(said.number, said.text) for said in ledger.decisions] == [
        (1, "We go with httpx because requests has no async client."),
        (3, "决定改用 httpx，因为 requests 没有异步客户端。"),
    ]


def test_a_question_is_recorded_with_the_first_sentence_of_its_answer() -> None:
    ledger = Ledger.of([user("Does it resume?"), assistant("Only in parts. The rest is long."), user("Good.")])
    asked = ledger.requests[0]
    assert (asked.text, asked.answer, asked.answer_number) == ("Does it resume?", "Only in parts.", 1)
    assert not ledger.requests[1].answer


def test_a_question_is_known_in_chinese_too() -> None:
    assert is_question("真的吗？")
    assert is_question("(really?)")
    assert not is_question("Really.")


@pytest.mark.parametrize(
    "said",
    ["Now run the reproduction script.", "Creating requirements-dev.txt", "Next, update the call.", "Running tests:"],
)
def test_what_is_about_to_be_done_is_an_opening(said: str) -> None:
    assert is_opening(said)


@pytest.mark.parametrize(
    "said", ["Now both use the same colour.", "Testing showed that the retry waits 8 s.", "Run it."]
)
def test_what_came_of_it_is_none(said: str) -> None:
    assert not is_opening(said)


def test_a_question_without_its_mark_is_no_rule() -> None:
    assert rules_in("how do we ensure that no secrets are left there", 3) == []


@pytest.mark.parametrize(
    "said",
    [
        "That must have been awesome.",
        "It must've felt special at your wedding.",
        "I've always had a love for horses!",
        "I'm always here for you, Mel!",
        "It is hard, even if it's not always easy to say so.",
        "Tough times don't last, and hope exists.",
        "It reminds me to go on and never give up!",
        "Keep it up!",
        "I couldn't have done it without them.",
        "I can be me without fear.",
        "I'll do my best to make sure these kids have a home.",
        "It made me remember how kind they were.",
        "Thanks for always having my back.",
        "Must be awesome to see your stuff on display.",
        "Don't worry, it's fine.",
    ],
)
def test_what_is_said_in_a_talk_about_life_is_no_rule(said: str) -> None:
    assert rules_in(said, 3) == []


@pytest.mark.parametrize(
    "said",
    [
        "Every handler must have a timeout.",
        "The name must be unique.",
        "Always keep the log, they need it.",
        "Never give the key to a test.",
        "We don't use tabs here.",
        "Ship it without them only if I say so.",
    ],
)
def test_rules_that_look_like_it_are_rules(said: str) -> None:
    assert rules_in(said, 3)


def test_how_a_search_shall_print_is_not_quoted() -> None:
    wanted = call("Grep", {"pattern": "HallLayout", "output_mode": "content", "glob": "*.toml"})
    assert quotable_texts(assistant(None, [wanted]))[1].split("\n\n") == ["HallLayout", "glob: *.toml"]


def test_a_line_that_a_harness_cut_in_pieces_is_not_quoted() -> None:
    shown = (
        "<returncode>0</returncode>\n<output_head>\ndef rows_of(hall):\n    return hall.ro\n</output_head>\n"
        "<elided_chars>\n6515 characters elided\n</elided_chars>\n<output_tail>\name': self.new_name,\ndef last():\n"
        "</output_tail>"
    )
    lines = [line.strip() for line in quotable_texts(tool("a", shown))[0].split("\n")]
    assert [line for line in lines if line and "elided" not in line] == ["def rows_of(hall):", "def last():"]
