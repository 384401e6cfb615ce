"""Parts: what of a text may be quoted, and noise, which may not."""

from __future__ import annotations

import json
import random

import pytest

from clew.facts import Part, PartKind, code_parts, file_parts, output_parts, prose_parts
from clew.facts.parts import code_feature, lines_shown

RANDOM = random.Random(7)
SVG = "M" + " ".join(f"{RANDOM.uniform(0, 99):.2f},{RANDOM.uniform(0, 99):.2f}" for _ in range(60))
BASE64 = "".join(RANDOM.choices("ABCDEFabcdef0123456789+/", k=900)).replace("/", "k")
MINIFIED = ";".join(f"a{n}=(b)=>b+{n},c{n}.push(a{n}({n}))" for n in range(60))
MINIFIED_JS = ";".join(f"var a{n}=function(b){{return b+{n}}}" for n in range(60))
LISTING = "\n".join(f"src/pkg/module_{n}.py" for n in range(40))
LINKS = "\n".join(f"- [page {n}](https://example.org/{n})" for n in range(6))
PROGRESS = "Downloading wheel 3.1 MB\nReceiving objects: 40% (4/10)\n 80%|████    | 8/10"
PERMISSIONS = "-rw-r--r-- 1 me me 120 Jan 1 10:00 a.txt\ndrwxr-xr-x 2 me me 4096 Jan 1 10:00 src"


def pieces(parts: list[Part]) -> list[str]:
    return [piece for part in parts for piece in part.pieces]


@pytest.mark.parametrize(
    "noise", [SVG, BASE64, MINIFIED, LISTING, LINKS, PROGRESS, PERMISSIONS],
    ids=["svg", "base64", "minified", "listing", "links", "progress", "permissions"],
)  # fmt: skip
def test_noise_is_never_quoted(noise: str) -> None:
    parts = output_parts(f"The build began.\n{noise}\nThe build took 41 s.")
    assert pieces(parts) == ["The build began.", "The build took 41 s."]


def test_minified_code_with_blanks_is_noise_too() -> None:
    assert pieces(output_parts(MINIFIED_JS)) == []


def test_a_few_names_in_a_row_are_no_listing() -> None:
    assert pieces(output_parts("src/a.py\nsrc/b.py")) == ["src/a.py", "src/b.py"]


def test_json_becomes_lines_of_keys_and_values() -> None:
    text = json.dumps({"region": "eu-west-1", "limits": {"cpu": 4, "memory": "8Gi"}, "tags": ["a", "b"], "none": None})
    assert pieces(output_parts(text)) == ["region: eu-west-1", "limits: cpu: 4, memory: 8Gi", "tags: a, b"]


def test_the_text_that_a_tool_wraps_into_json_is_read_as_text() -> None:
    assert pieces(output_parts(json.dumps({"output": "line one\nline two", "exit_code": 0}))) == [
        "exit_code: 0", "line one", "line two",
    ]  # fmt: skip


def test_colours_and_line_numbers_are_stripped() -> None:
    assert pieces(output_parts("\x1b[32mok\x1b[0m all green")) == ["ok all green"]
    numbered = "".join(f"{n:>6}\t{line}\n" for n, line in enumerate(("import os", "LIMIT = 5", "print(LIMIT)"), 1))
    assert "LIMIT = 5" in pieces(file_parts(numbered, "a.py"))


def test_pieces_of_a_numbered_file_have_the_numbers_of_their_lines() -> None:
    lines = ("# Limits of a run,", "# in seconds.", "", "LIMIT = 5", "def run(): ...")
    numbered = "<file>\n" + "".join(f"{n:>6}\t{line}\n" for n, line in enumerate(lines, 41)) + "</file>"
    [part] = file_parts(numbered, "a.py")
    assert dict(zip(part.pieces, part.line_numbers, strict=True)) == {
        "# Limits of a run, in seconds.": "41", "LIMIT = 5": "44", "def run(): ...": "45",
    }  # fmt: skip


def test_a_document_is_prose_and_any_other_file_is_code() -> None:
    assert [part.kind for part in file_parts("We ship weekly.", "docs/plan.md")] == [PartKind.PROSE]
    assert [part.kind for part in file_parts("ship = weekly()", "src/plan.py")] == [PartKind.CODE]
    assert [part.kind for part in code_parts("ship = weekly()")] == [PartKind.CODE]


def test_fenced_code_in_a_message_is_code() -> None:
    parts = prose_parts("Use this.\n```python\nLIMIT = 5\n```\nThen restart.")
    assert [part.kind for part in parts] == [PartKind.PROSE, PartKind.CODE, PartKind.PROSE]


def test_a_fence_inside_a_fenced_document_does_not_turn_code_into_prose() -> None:
    text = "I wrote it.\n```markdown\nSetup of all.\n```bash\nmake all\n```\nRun it.\n```\nAll done."
    assert [(part.kind, part.pieces) for part in prose_parts(text)] == [
        (PartKind.PROSE, ("I wrote it.",)),
        (PartKind.CODE, ("Setup of all.", "make all", "Run it.")),
        (PartKind.PROSE, ("All done.",)),
    ]


def test_of_fences_that_are_not_closed_each_begins_or_ends_a_block() -> None:
    text = "First.\n```python\nx = 1\n```python\nSecond.\n```python\ny = 2"
    assert [part.kind for part in prose_parts(text)] == [PartKind.PROSE, PartKind.CODE] * 2


def test_sentences_of_a_wrapped_paragraph_are_joined() -> None:
    text = "The import is slow because it commits after every single row that it writes, and\nthe disk syncs each time."
    assert len(pieces(prose_parts(text))) == 1


def test_a_line_is_wrapped_where_the_next_word_had_no_room() -> None:
    text = (
        "- The endpoint answers at `/api/v1/chat/completions` (it does) and\n"
        "  OpenCode's request reaches it with the name of the model that is\n"
        "  configured.\n"
        "- Streaming works.\n\n"
        "> Any claim must go through the register of promises first, with\n"
        "> Receipts. It has an owner.\n"
    )
    assert pieces(prose_parts(text)) == [
        "- The endpoint answers at `/api/v1/chat/completions` (it does) and OpenCode's request reaches it with the "
        "name of the model that is configured.",
        "- Streaming works.",
        "Any claim must go through the register of promises first, with Receipts.",
        "It has an owner.",
    ]


def test_a_block_of_code_is_quoted_without_the_numbers_of_its_lines() -> None:
    parts = prose_parts("It is here:\n```python\n  510\tif parent.isdir():\n  511\t    self.roots = col\n```")
    assert parts[-1].pieces == ("if parent.isdir():", "self.roots = col")


def test_signs_that_belong_to_a_line_are_quoted() -> None:
    for line in (">=3.11,<3.14 and no other version", ">>> backoff(1)"):
        assert pieces(prose_parts(line)) == [line]
    assert pieces(code_parts("#TODO fix the retry\n#TODO fix the pause")) == ["#TODO fix the retry TODO fix the pause"]
    assert pieces(output_parts("_____init_____\n----- delta = -1 -")) == ["_____init_____", "----- delta = -1 -"]


def test_the_lines_that_a_result_numbers_are_known() -> None:
    assert lines_shown("<file>\n   41\tLIMIT = 5\n   42\trun()\n</file>") == (41, 42)
    assert lines_shown("id\tname\n1\tfoo\n2\tbar\n3\tbaz") is None
    assert lines_shown("LIMIT = 5\nrun()") is None


def test_a_title_in_a_ruled_line_is_quoted_without_the_rule() -> None:
    (part,) = output_parts("======= FAILURES =======\n_______ test_jitter _______\n-------------\nassert 3 == 5")
    assert part.pieces == ("FAILURES", "test_jitter", "assert 3 == 5")


def test_what_a_harness_adds_to_every_result_is_not_quoted() -> None:
    added = "<environment_details>\n# Time\n9:04 PM\n</environment_details>"
    result = f"[execute_command for 'ls'] Result:\nmain.py 12 lines\n{added}"
    assert [part.pieces for part in output_parts(result)] == [("main.py 12 lines",)]
    assert [part.pieces for part in file_parts(result, "notes.md")] == [("main.py 12 lines",)]


@pytest.mark.parametrize("line", ["rows = []", "self.cache = None;", 'name = ""'])
def test_an_empty_value_is_a_statement_and_no_value(line: str) -> None:
    assert code_feature(line) == "statement"
    assert code_feature(line.rpartition(" ")[0] + " 4711") == "value"


def test_letters_drawn_with_signs_are_noise() -> None:
    banner = [r" _   _  ____ ", r"| | | ||  _ \ ", r"| |_| || |_) |", r" \__,_||  __/ ", "██████ ░░ ██", "+----+----+"]
    (part,) = output_parts("\n".join([*banner, "listening on port 8470"]))
    assert part.pieces == ("listening on port 8470",)
    assert output_parts("__init__.py\n---- 2 failed ----")[0].pieces == ("__init__.py", "---- 2 failed ----")
