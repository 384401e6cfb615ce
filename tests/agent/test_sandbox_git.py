"""A program inside the sandbox leaves no code that git runs outside, and sees no credentials; with the real program."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from clew.agent import Risk
from clew.agent.approvals import ApprovalAnswer, ApprovalMode, Approvals
from clew.agent.processes import BackgroundCommands
from clew.agent.sandbox import BubblewrapSandbox
from clew.agent.tools import CallContext
from clew.agent.tools.terminal import ProcessTool, TerminalTool
from clew.errors import SandboxUnavailable

CALL = CallContext("s", "c")
CREDENTIALS = (
    ".codex/auth.json .claude/.credentials.json .gemini/oauth_creds.json .local/share/opencode/auth.json .pi/auth.json "
    ".config/github-copilot/apps.json .cache/huggingface/token .huggingface/token .config/io.datasette.llm/keys.json "
    ".config/stripe/config.toml .local/share/com.vercel.cli/auth.json .config/sops/age/keys.txt .ssh/id_ed25519 .netrc "
    ".aws/credentials .npmrc .pypirc .docker/config.json .kube/config .git-credentials .cargo/credentials.toml "
    ".gradle/gradle.properties .m2/settings.xml .terraform.d/credentials.tfrc.json .config/gh/hosts.yml .bash_history "
    ".some-agent-of-tomorrow/token.json .config/another/session .config/git/credentials .julia/servers/x/auth.toml "
    ".local/share/uv/credentials/credentials.toml .dotnet/corefx/cryptography/x509stores/my/a.pfx keys/account.json"
).split()


class Sandboxed:
    """A project in a home folder with credentials, and a terminal inside the sandbox."""

    def __init__(self, folder: Path, *, has_git: bool = True) -> None:
        self.home, self.project, self.escaped = folder / "home", folder / "home/project", folder / "home/ESCAPED"
        self.project.mkdir(parents=True)
        for name in CREDENTIALS:
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(f"credential of {name}")
        for name in (".pyenv/bin/python9", ".cargo/bin/cargo9", "notes.txt"):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text("visible")
        (self.home / ".gitconfig").write_text("[user]\n\tname = T\n\temail = t@example.org\n")
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(self.home / "keys/account.json")
        if has_git:
            self.git("init", "-q", ".")
            (self.project / "a.txt").write_text("a\n")
            self.git("add", "a.txt")
            self.git("commit", "-qm", "first")
        self.sandbox = BubblewrapSandbox.open(self.environ, self.project, (), self.home / ".clew")
        self.terminal = TerminalTool(self.project, self.environ, sandbox=self.sandbox)

    def git(self, *words: str, folder: str = ".") -> str:
        """Git, outside the sandbox, as the person's shell prompt runs it."""
        ran = subprocess.run(
            ["git", *words], cwd=self.project / folder, env=self.environ, capture_output=True, text=True, timeout=30
        )
        return ran.stdout + ran.stderr

    async def run(self, command: str) -> str:
        return (await self.terminal.run({"command": command}, CALL)).text


def made(folder: Path, *, has_git: bool = True) -> Sandboxed:
    try:
        return Sandboxed(folder, has_git=has_git)
    except SandboxUnavailable as problem:
        pytest.skip(str(problem))


CONFIG = "printf '[core]\\n\\tfsmonitor = \"touch {escaped}\"\\n' >> {config}"
ESCAPES = {
    "another repository in its place": (
        "mv .git .g; git init -q; " + CONFIG.format(escaped="{0}", config=".git/config"),
        ".",
    ),
    "a repository in a subfolder": (
        "git init -q sub; "
        + CONFIG.format(escaped="{0}", config="sub/.git/config")
        + "; touch sub/x; git -C sub add x",
        "sub",
    ),
    "a common folder of its own": (
        "mkdir -p c; cp -r .git/. c/; "
        + CONFIG.format(escaped="{0}", config="c/config")
        + "; echo ../c > .git/commondir",
        ".",
    ),
    "a git file that points elsewhere": (
        "git init -q --separate-git-dir=elsewhere sub; " + CONFIG.format(escaped="{0}", config="elsewhere/config"),
        "sub",
    ),
    "a bare repository": (
        "git init -q --bare b; "
        + CONFIG.format(escaped="{0}", config="b/config")
        + "; printf '\\tbare = false\\n\\tworktree = ..\\n' >> b/config",
        "b",
    ),
    "a hook": (
        "mkdir -p sub; cd sub; git init -q; printf '#!/bin/sh\\ntouch {0}\\n' > .git/hooks/post-index-change; "
        "chmod +x .git/hooks/post-index-change; touch x; git add x",
        "sub",
    ),
    "config of a worktree": (
        "git init -q sub; printf '[extensions]\\n\\tworktreeConfig = true\\n' >> sub/.git/config; "
        + CONFIG.format(escaped="{0}", config="sub/.git/config.worktree"),
        "sub",
    ),
    "an included config": (
        "git init -q sub; "
        + CONFIG.format(escaped="{0}", config="inc")
        + "; printf '[include]\\n\\tpath = ../../inc\\n' >> sub/.git/config",
        "sub",
    ),
    "a comment with a line break of other readers": (
        "git init -q sub; printf '[core]\n# \\013[color]\n\tfsmonitor = \"touch {0}\"\n' >> sub/.git/config; "
        "touch sub/x; git -C sub add x",
        "sub",
    ),
    "a comment with a line separator": (
        "git init -q sub; printf '[core]\n# \\342\\200\\250[color]\n\tfsmonitor = \"touch {0}\"\n' >> sub/.git/config; "
        "touch sub/x; git -C sub add x",
        "sub",
    ),
    "a filter": (
        "git init -q sub; cd sub; echo '* filter=x' > .gitattributes; "
        "git config filter.x.clean 'touch {0}; cat'; echo 1 > a; git add a; echo 2 > a; touch -d '1 hour ago' a",
        "sub",
    ),
}


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("has_git", [True, False], ids=["in a repository", "without one"])
async def test_no_code_is_left_that_git_runs_outside(escape: str, has_git: bool, tmp_path: Path) -> None:
    inside = made(tmp_path, has_git=has_git)
    command, folder = ESCAPES[escape]
    text = await inside.run(command.replace("{0}", str(inside.escaped)))
    where = folder if (inside.project / folder).is_dir() else "."
    for words in (["status"], ["diff"], ["log", "-1"], ["add", "-A"], ["commit", "-qm", "x"]):
        inside.git(*words, folder=where)
    assert not inside.escaped.exists(), text


HOOK = "mkdir -p {0}; printf '#!/bin/sh\\ntouch {{0}}\\n' > {0}/post-index-change; chmod +x {0}/post-index-change; "
ESCAPES_OF_TRUSTED = {
    "the personal hooks folder, in the repository": (
        "git config --global core.hooksPath .githooks",
        HOOK.format(".githooks") + "echo 2 > a.txt; git add a.txt",
        ".",
    ),
    "the personal hooks folder, in a new repository": (
        "git config --global core.hooksPath .githooks",
        "git init -q sub; " + HOOK.format("sub/.githooks") + "touch sub/x",
        "sub",
    ),
    "a program that a filter runs": (
        "mkdir tools; echo cat > tools/clean.sh; echo '*.txt filter=x' > .gitattributes; "
        "git config filter.x.clean 'sh tools/clean.sh'",
        "echo 'touch {0}; cat' > tools/clean.sh; echo 3 > a.txt",
        ".",
    ),
    "the end of a large program": (
        "mkdir tools; (echo '#!/bin/sh'; yes '# padding padding padding' | head -4000; echo cat) > tools/clean.sh; "
        "echo '*.txt filter=x' > .gitattributes; git config filter.x.clean 'sh tools/clean.sh'",
        "sed -i '$d' tools/clean.sh; echo 'touch {0}; cat' >> tools/clean.sh; echo 3 > a.txt",
        ".",
    ),
    "a config that an included config includes": (
        "git config include.path ../one.cfg; printf '[include]\n\tpath = two.cfg\n' > one.cfg",
        CONFIG.format(escaped="{0}", config="two.cfg"),
        ".",
    ),
    "a config that the personal one includes": (
        "git config --global include.path $HOME/project/team.cfg",
        CONFIG.format(escaped="{0}", config="team.cfg"),
        ".",
    ),
    "a repository inside .git": (
        "true",
        "git init -q .git/sub; " + CONFIG.format(escaped="{0}", config=".git/sub/.git/config"),
        ".git/sub",
    ),
    "hooks where there was no folder for them": ("rm -rf .git/hooks", HOOK.format(".git/hooks") + "touch x", "."),
}


@pytest.mark.parametrize("escape", ESCAPES_OF_TRUSTED)
async def test_what_a_trusted_or_personal_config_names_is_not_changed_inside(escape: str, tmp_path: Path) -> None:
    inside = made(tmp_path)
    before, command, folder = ESCAPES_OF_TRUSTED[escape]
    subprocess.run(["bash", "-c", before], cwd=inside.project, env=inside.environ, check=True)  # noqa: ASYNC221
    sandbox = BubblewrapSandbox.open(inside.environ, inside.project, (), inside.home / ".clew")
    terminal = TerminalTool(inside.project, inside.environ, sandbox=sandbox)
    text = (await terminal.run({"command": command.replace("{0}", str(inside.escaped))}, CALL)).text
    where = folder if (inside.project / folder).is_dir() else "."
    for words in (["status"], ["diff"], ["add", "-A"], ["commit", "-qm", "x"]):
        inside.git(*words, folder=where)
    assert not inside.escaped.exists(), text


async def test_a_password_in_the_personal_git_config_is_not_there(tmp_path: Path) -> None:
    inside = made(tmp_path, has_git=False)
    config = inside.home / ".gitconfig"
    config.write_text(
        config.read_text()
        + '[url "https://oauth2:glpat-Zx81kQmT0aPwLr5v@git.example/"]\n\tinsteadOf = https://git.example/\n'
    )
    text = await inside.run("cat ~/.gitconfig; git config user.name")
    assert "glpat-" not in text and "T" in text.splitlines()
    assert "glpat-" in config.read_text()


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there yet"])
@pytest.mark.parametrize(
    ("setting", "value", "file", "text"),
    [
        ("core.hooksPath", ".githooks", ".githooks/pre-commit", "#!/bin/sh\ntouch {0}\n"),
        ("core.hooksPath", ".husky/_", ".husky/pre-commit", "#!/bin/sh\ntouch {0}\n"),
        ("include.path", "../shared.gitconfig", "shared.gitconfig", '[core]\n\tfsmonitor = "touch {0}"\n'),
    ],
)
async def test_files_that_a_trusted_repository_runs_are_not_changed_inside(
    setting: str, value: str, file: str, text: str, is_there: bool, tmp_path: Path
) -> None:
    first = made(tmp_path)
    first.git("config", setting, value)
    path = first.project / file
    if "_" in value:
        (first.project / value).mkdir(parents=True)
        (first.project / value / "pre-commit").write_text(
            '#!/bin/sh\n[ -f "$0/../../pre-commit" ] || . .husky/pre-commit\n'
        )
        (first.project / value / "pre-commit").chmod(0o755)
    if is_there:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if "include" in setting else "#!/bin/sh\n")
        path.chmod(0o755)
    sandbox = BubblewrapSandbox.open(first.environ, first.project, (), first.home / ".clew")
    terminal = TerminalTool(first.project, first.environ, sandbox=sandbox)
    script = text.replace("{0}", str(first.escaped))
    command = f"mkdir -p {path.parent}; cat > {path} <<'E'\n{script}E\nchmod +x {path}; echo b >> a.txt"
    told = (await terminal.run({"command": command}, CALL)).text
    for words in (["status"], ["commit", "-qam", "x"]):
        first.git(*words)
    assert not first.escaped.exists(), told


async def test_what_was_set_aside_is_named_and_kept(tmp_path: Path) -> None:
    inside = made(tmp_path)
    command = ESCAPES["a repository in a subfolder"][0].replace("{0}", str(inside.escaped))
    text = await inside.run(command)
    assert "sub/.git" in text and "core.fsmonitor" in text
    assert (inside.project / "sub/.git.untrusted/config").exists()


class Person:
    """Answers the questions about what a command left."""

    def __init__(self, answer: ApprovalAnswer) -> None:
        self._answer = answer
        self.asked: list[Risk] = []

    async def __call__(self, tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        del tool
        self.asked.append(risk)
        return self._answer, ""

    def call(self, mode: ApprovalMode = "ask") -> CallContext:
        approvals = Approvals(mode, self)
        return CallContext("s", "c", confirm=lambda risk: approvals.confirm("terminal", risk))


LEAVES_REPOSITORY = "git init -q sub; git -C sub config alias.st '!git status'"


@pytest.mark.parametrize("answer", ["once", "no"])
async def test_a_person_decides_what_becomes_of_new_git_metadata(answer: ApprovalAnswer, tmp_path: Path) -> None:
    inside, person = made(tmp_path), Person(answer)
    await inside.terminal.run({"command": LEAVES_REPOSITORY}, person.call())
    await inside.terminal.run({"command": "true"}, person.call())
    assert (inside.project / "sub/.git/config").exists() is (answer == "once")
    assert ["sub/.git" in risk.action and "alias" in risk.text for risk in person.asked] == [True]


async def test_what_a_mode_allows_keeps_no_new_git_metadata(tmp_path: Path) -> None:
    inside, person = made(tmp_path), Person("once")
    await inside.terminal.run({"command": LEAVES_REPOSITORY}, person.call("allow"))
    assert not (inside.project / "sub/.git").exists() and not person.asked


async def test_a_person_is_asked_about_what_a_background_command_left(tmp_path: Path) -> None:
    inside, person = made(tmp_path), Person("once")
    started = await inside.terminal.run({"command": LEAVES_REPOSITORY, "background": True}, person.call())
    process = ProcessTool(inside.terminal.background)
    await process.run({"action": "wait", "id": started.text.split()[0]}, person.call())
    assert len(person.asked) == 1 and (inside.project / "sub/.git/config").exists()


async def test_metadata_that_changes_while_a_person_reads_stays_aside(tmp_path: Path) -> None:
    inside = made(tmp_path)

    async def confirm(risk: Risk) -> bool:
        (inside.project / "sub/.git.untrusted/config").write_text(CONFIG)
        return True

    await inside.terminal.run({"command": LEAVES_REPOSITORY}, CallContext("s", "c", confirm=confirm))
    assert not (inside.project / "sub/.git").exists()


async def test_settings_of_mercurial_are_set_aside(tmp_path: Path) -> None:
    inside = made(tmp_path)
    text = await inside.run("mkdir .hg; printf '[alias]\nstatus = !true\n' > .hg/hgrc")
    assert ".hg" in text and not (inside.project / ".hg").exists()


async def test_a_pipe_in_the_place_of_a_config_is_not_waited_for(tmp_path: Path) -> None:
    inside = made(tmp_path)
    async with asyncio.timeout(60):
        await inside.run("git init -q sub; rm sub/.git/config; mkfifo sub/.git/config")
    assert not (inside.project / "sub/.git").exists()


PRE_COMMIT = "printf '#!/bin/sh\n{}\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
RUN_BY_HOOKS = {
    "a script": ("mkdir s; echo true > s/l.sh; " + PRE_COMMIT.format("sh s/l.sh"), "s/l.sh"),
    "a script that is not there yet": (PRE_COMMIT.format("sh s/l.sh"), "s/l.sh"),
    "a script of a script": (
        'mkdir s; echo \'. "$(dirname "$0")/m.sh"\' > s/l.sh; echo true > s/m.sh; ' + PRE_COMMIT.format("sh s/l.sh"),
        "s/m.sh",
    ),
    "the config of pre-commit": (
        "touch .pre-commit-config.yaml; " + PRE_COMMIT.format("exec pre-commit"),
        ".pre-commit-config.yaml",
    ),
    "the config of lefthook": ("touch lefthook.yml; " + PRE_COMMIT.format("lefthook run"), "lefthook.yml"),
    "a script of husky": (
        "mkdir -p .husky/_; printf '#!/bin/sh\n. .husky/pre-commit\n' > .husky/_/pre-commit; "
        "echo 'sh lint.sh' > .husky/pre-commit; echo true > lint.sh; git config core.hooksPath .husky/_",
        "lint.sh",
    ),
    "what a package.json runs": (
        """echo '{"scripts": {"test": "node t.js"}}' > package.json; echo 1 > t.js; """ + PRE_COMMIT.format("npm test"),
        "t.js",
    ),
    "what a filter runs": (
        "mkdir tools; echo 'sh tools/real.sh' > tools/clean.sh; echo cat > tools/real.sh; "
        "git config filter.x.clean 'sh tools/clean.sh'",
        "tools/real.sh",
    ),
}


@pytest.mark.parametrize("case", RUN_BY_HOOKS)
@pytest.mark.parametrize("answer", ["once", "no", None])
async def test_a_change_of_what_a_hook_runs_is_asked_about(
    case: str, answer: ApprovalAnswer | None, tmp_path: Path
) -> None:
    first, (before, name) = made(tmp_path), RUN_BY_HOOKS[case]
    subprocess.run(["bash", "-c", before], cwd=first.project, env=first.environ, check=True)  # noqa: ASYNC221
    sandbox = BubblewrapSandbox.open(first.environ, first.project, (), first.home / ".clew")
    terminal, person = TerminalTool(first.project, first.environ, sandbox=sandbox), Person(answer or "no")
    call = CALL if answer is None else person.call()
    command = f"mkdir -p s; echo 'true # changed' >> {name}; echo 1 > README.md"
    text = (await terminal.run({"command": command}, call)).text
    again = (await terminal.run({"command": "true"}, call)).text
    assert name in text and name not in again and "README" not in text
    assert [risk.text.count("# changed") for risk in person.asked] == ([] if answer is None else [1])
    assert (first.project / name).exists() is (answer != "no")


async def test_a_new_dependency_is_no_change_of_what_a_package_runs(tmp_path: Path) -> None:
    inside = made(tmp_path)
    package = inside.project / "package.json"
    package.write_text('{"scripts": {"test": "node t.js"}}')
    hook = inside.project / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nnpm test\n")
    sandbox = BubblewrapSandbox.open(inside.environ, inside.project, (), inside.home / ".clew")
    terminal = TerminalTool(inside.project, inside.environ, sandbox=sandbox)
    command = """echo '{"dependencies": {"a": "1"}, "scripts": {"test": "node t.js"}}' > package.json"""
    assert "package.json" not in (await terminal.run({"command": command}, CALL)).text


async def test_a_background_command_leaves_no_code_either(tmp_path: Path) -> None:
    inside = made(tmp_path)
    background = BackgroundCommands(sandbox=inside.sandbox)
    command = ESCAPES["a repository in a subfolder"][0].replace("{0}", str(inside.escaped))
    started = await background.start(command, inside.project, inside.environ)
    await started.wait(20)
    await background.close()
    inside.git("status", folder="sub")
    assert not inside.escaped.exists()


async def test_git_works_inside_as_it_does_outside(tmp_path: Path) -> None:
    inside = made(tmp_path)
    text = await inside.run(
        "echo b > b.txt; git add b.txt; git commit -qm second && git checkout -q -b other && git log --oneline | wc -l"
    )
    assert "2" in text.split()
    assert "second" in inside.git("log", "-1")
    assert "nothing to commit" in inside.git("status")


async def test_a_plain_new_repository_stays(tmp_path: Path) -> None:
    inside = made(tmp_path, has_git=False)
    await inside.run("git init -q . && git init -q sub && echo a > a && git add a && git commit -qm first")
    assert "first" in inside.git("log", "-1")
    assert (inside.project / "sub/.git/config").exists()


async def test_a_repository_that_was_there_before_is_not_touched(tmp_path: Path) -> None:
    inside = made(tmp_path)
    (inside.project / "own").mkdir()
    inside.git("init", "-q", ".", folder="own")
    inside.git("config", "alias.st", "!git status", folder="own")
    again = TerminalTool(
        inside.project,
        inside.environ,
        sandbox=BubblewrapSandbox.open(inside.environ, inside.project, (), inside.home / ".clew"),
    )
    await again.run({"command": "echo 1 > own/x; git -C own add x; git -C own commit -qm x"}, CALL)
    assert "!git status" in inside.git("config", "alias.st", folder="own")
    assert "x" in inside.git("log", "-1", "--format=%s", folder="own")


@pytest.mark.parametrize("name", CREDENTIALS)
async def test_a_credential_of_the_home_folder_is_not_there(name: str, tmp_path: Path) -> None:
    inside = made(tmp_path, has_git=False)
    text = await inside.run(f"cat ~/{name}; ls -A ~/{Path(name).parent} | wc -l; cat ~/.*/* ~/.*/*/* ~/.* 2>/dev/null")
    assert "credential of" not in text


async def test_tools_and_documents_of_the_home_folder_are_there(tmp_path: Path) -> None:
    inside = made(tmp_path, has_git=False)
    text = await inside.run(
        "cat ~/.pyenv/bin/python9 ~/.cargo/bin/cargo9 ~/notes.txt ~/.gitconfig; touch ~/.cargo/bin/x ~/x"
    )
    assert text.count("visible") == 3 and "t@example.org" in text
    assert text.count("Read-only file system") == 2
