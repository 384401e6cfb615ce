"""Skills: where they are found, what makes one, and how it is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.agent.skills import Skill, find_skills
from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.memory_and_skill import MAX_SKILL_CHARS, MAX_SKILL_FILES, SkillTool
from clew.tokens import count_tokens

HERE = CallContext("s", "c1")


def write_skill(parent: Path, name: str, text: str | None = None) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    path = folder / "SKILL.md"
    path.write_text(f"---\nname: {name}\ndescription: About {name}.\n---\nDo it.\n" if text is None else text)
    return path


async def opened(skills: tuple[Skill, ...], name: object) -> ToolResult:
    return await SkillTool(skills).run({"name": name}, HERE)


def test_skills_are_found_in_three_places_and_sorted_by_name(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    write_skill(project / ".claude" / "skills", "middle")
    write_skill(project / ".clew" / "skills", "zebra")
    path = write_skill(home / "skills", "apple")
    skills, notices = find_skills(project, home)
    assert [skill.name for skill in skills] == ["apple", "middle", "zebra"]
    assert skills[0] == Skill("apple", "About apple.", path)
    assert notices == ()


def test_the_first_of_a_name_wins_and_the_other_is_told(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    first = write_skill(project / ".clew" / "skills", "build")
    write_skill(project / ".claude" / "skills", "build")
    write_skill(home / "skills", "build")
    skills, notices = find_skills(project, home)
    assert [skill.path for skill in skills] == [first]
    assert len(notices) == 2 and str(first) in notices[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no front matter", "has to begin with front matter"),
        ("---\nname: x\n", "has to begin with front matter"),
        ("---\nname: x\n---\n", "no description"),
        ("---\ndescription: ''\n---\n", "no description"),
        ("---\ndescription: [a]\n---\n", "no description"),
        ("---\nname: a b\ndescription: d\n---\n", "its name has to be"),
        ("---\nname: 3\ndescription: d\n---\n", "its name has to be"),
        ("---\nname: ../x\ndescription: d\n---\n", "its name has to be"),
        ("---\n: : :\n- x\n---\n", "is no YAML"),
        ("---\ndescription: 2020-99-99\n---\n", "is no YAML"),
        ("---\n" + "[" * 5_000 + "\n---\n", "is no YAML"),
        ("---\n- a\n---\n", "keys and values"),
        ("---\n!!python/object/apply:os.getcwd []\n---\n", "is no YAML"),
    ],
)
def test_a_broken_skill_is_a_notice_and_the_others_are_found(tmp_path: Path, text: str, told: str) -> None:
    write_skill(tmp_path / "skills", "broken", text)
    write_skill(tmp_path / "skills", "good")
    skills, notices = find_skills(tmp_path / "project", tmp_path)
    assert [skill.name for skill in skills] == ["good"]
    assert len(notices) == 1 and told in notices[0] and "broken" in notices[0]


def test_odd_files_are_notices_too(tmp_path: Path) -> None:
    (tmp_path / "skills" / "folder" / "SKILL.md").mkdir(parents=True)
    (tmp_path / "skills" / "pipe").mkdir()
    os.mkfifo(tmp_path / "skills" / "pipe" / "SKILL.md")
    (tmp_path / "skills" / "gone").mkdir()
    (tmp_path / "skills" / "gone" / "SKILL.md").symlink_to("nowhere")
    write_skill(tmp_path / "skills", "latin").write_bytes(b"---\ndescription: caf\xe9\n---\n")
    write_skill(tmp_path / "skills", "huge").write_bytes(b"x" * 2_000_000)
    (tmp_path / "skills" / "no-skill").mkdir()
    (tmp_path / "skills" / "file.md").write_text("")
    skills, notices = find_skills(tmp_path / "project", tmp_path)
    assert skills == () and len(notices) == 5


def test_a_description_is_one_line_and_bounded_and_the_folder_names_the_nameless(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "plain", "\ufeff---\r\ndescription: >\r\n  two\r\n  lines\x85\r\n---\r\nText")
    write_skill(tmp_path / "skills", "long", "---\ndescription: " + "word " * 1_000 + "\n---\n")
    skills, _ = find_skills(tmp_path / "project", tmp_path)
    assert {skill.name: skill.description for skill in skills}["plain"] == "two lines"
    assert len(skills[0].description) == 500


async def test_an_opened_skill_is_verbatim_pinned_and_names_its_other_files(tmp_path: Path) -> None:
    path = write_skill(tmp_path / "skills", "build")
    (path.parent / "scripts").mkdir()
    (path.parent / "scripts" / "run.sh").write_text("")
    (path.parent / "notes.md").write_text("")
    (path.parent / ".git").mkdir()
    (path.parent / ".git" / "config").write_text("")
    skills, _ = find_skills(tmp_path / "project", tmp_path)
    result = await opened(skills, " Build ")
    assert not result.is_error and result.pinned_as == "skill build"
    assert path.read_text() in result.text and str(path.parent) in result.text
    assert result.text.endswith("- notes.md\n- scripts/run.sh")


async def test_a_long_skill_is_cut_with_the_file_to_read_on(tmp_path: Path) -> None:
    path = write_skill(tmp_path / "skills", "long", "---\ndescription: d\n---\n" + "x" * MAX_SKILL_CHARS)
    for number in range(MAX_SKILL_FILES + 5):
        (path.parent / f"{number}.txt").write_text("")
    result = await opened(find_skills(tmp_path / "project", tmp_path)[0], "long")
    assert f"read on in {path}" in result.text and "(and more)" in result.text
    assert result.text.count(".txt") == MAX_SKILL_FILES


async def test_an_unknown_or_vanished_skill_is_a_result(tmp_path: Path) -> None:
    path = write_skill(tmp_path / "skills", "build")
    skills, _ = find_skills(tmp_path / "project", tmp_path)
    for name in ("bild", None, 3):
        result = await opened(skills, name)
        assert result.is_error and "there are: build" in result.text and result.pinned_as is None
    path.unlink()
    assert (await opened(skills, "build")).is_error
    assert "there are: none" in (await opened((), "x")).text
    assert count_tokens([], tools=[SkillTool(skills).schema], model="gpt-4o") < 200
