"""Completion scripts for bash, zsh and fish, written from the tree of commands.

A script is static, so that Tab is answered without starting Clew; only sessions, which come and go, are asked for with
`clew completion --sessions`: one line each, the id, a tab, the title.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping

from clew.cli.command_tree import CommandNode, CommandOption, CommandValue

SESSIONS_COMMAND = "clew completion --sessions 2>/dev/null"

# -- bash --------------------------------------------------------------------------------------------------------------

# A word with = in it comes in three pieces, and the bash of macOS (3.2) has no mapfile.
_BASH = """\
# Completion of clew for bash, written by `clew completion bash`.
_clew() {
    local cur=${COMP_WORDS[COMP_CWORD]} path=clew position=0 expected= word i IFS=$'\\n'
    [[ $cur == = ]] && cur=
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then
            expected=${expected:-=}
        elif [[ $expected ]]; then
            expected=
        elif [[ $word == -* ]]; then
            case "$path $word" in
            @VALUED@) expected=$word ;;
            esac
        else
            case "$path $word" in
            @PATHS@) path="$path $word" ;;
            *) position=$((position + 1)) ;;
            esac
        fi
    done
    COMPREPLY=()
    if [[ $expected ]]; then
        case "$path $expected" in
@VALUES@
        esac
    elif [[ $cur == -* ]]; then
        case "$path" in
@OPTIONS@
        esac
    else
        case "$path $position" in
@ARGUMENTS@
        esac
    fi
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
_clew_words() { local IFS=$' \\t\\n'; COMPREPLY+=($(compgen -W "$1" -- "$cur")); }
_clew_files() { compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$cur")); }
_clew_folders() { compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "$cur")); }
_clew_sessions() { _clew_words "$(@SESSIONS@ | cut -f1)"; }
complete -F _clew clew
"""


def bash_script(root: CommandNode) -> str:
    nodes = list(root.walk())
    valued = [(node, option) for node in nodes for option in node.own_options if option.value.kind != "none"]
    names = [f"{_path(node)} {name}" for node, option in valued for name in option.names]
    parts = {
        "VALUED": _bash_patterns(names),
        "PATHS": _bash_patterns(_path(node) for node in nodes[1:]),
        "VALUES": "\n".join(
            f"        {_bash_patterns(f'{_path(node)} {name}' for name in option.names)}) {call} ;;"
            for node, option in valued
            if (call := _bash_call(option.value, root))
        ),
        "OPTIONS": "\n".join(
            f"        {_bash_patterns([_path(node)])}) _clew_words {_quoted_words(_option_names(node))} ;;"
            for node in nodes
        ),
        "ARGUMENTS": "\n".join(f"        {line}" for node in nodes for line in _bash_arguments(node, root)),
        "SESSIONS": SESSIONS_COMMAND,
    }
    return _filled(_BASH, parts)


def _bash_arguments(node: CommandNode, root: CommandNode) -> Iterator[str]:
    """What may stand at each position behind a command."""
    if node.children:
        yield f"{_bash_patterns([f'{_path(node)} 0'])}) _clew_words {_quoted_words(_child_names(node))} ;;"
    for position, argument in enumerate(node.arguments):
        if call := _bash_call(argument.value, root):
            pattern = f'"{_path(node)} "*' if argument.is_repeatable else f'"{_path(node)} {position}"'
            yield f"{pattern}) {call} ;;"


def _bash_call(value: CommandValue, root: CommandNode) -> str:
    words = _child_names(root) if value.kind == "commands" else value.words
    return f"_clew_words {_quoted_words(words)}" if words else _call_of(value)


def _bash_patterns(patterns: Iterable[str]) -> str:
    return " | ".join(f'"{pattern}"' for pattern in patterns)


# -- zsh ---------------------------------------------------------------------------------------------------------------

_ZSH = """\
#compdef clew
# Completion of clew for zsh, written by `clew completion zsh`.
_clew_sessions() {
    local -a found
    local id title
    while IFS=$'\\t' read -r id title; do found+=("${id//:/\\\\:}:${title:--}"); done < <(@SESSIONS@)
    _describe -t sessions session found
}
@FUNCTIONS@
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _clew "$@"
else
    compdef _clew clew
fi
"""


def zsh_script(root: CommandNode) -> str:
    functions = "\n".join(_zsh_function(node, root) for node in root.walk())
    return _filled(_ZSH, {"SESSIONS": SESSIONS_COMMAND, "FUNCTIONS": functions})


def _zsh_function(node: CommandNode, root: CommandNode) -> str:
    name = _zsh_name(node)
    specs = [spec for option in node.options for spec in _zsh_option(option, root)]
    if not node.children:
        for argument in node.arguments:
            place = "*" if argument.is_repeatable else ""
            optional = ":" if argument.is_optional and not argument.is_repeatable else ""
            specs.append(f"{place}{optional}:{_zsh_text(argument.value.name)}:{_zsh_action(argument.value, root)}")
        return f"{name}() {{\n    _arguments -s {_zsh_lines(specs)}\n}}"
    named = " ".join(shlex.quote(f"{child.name}:{child.about}") for child in node.children)
    calls = "\n".join(f"        {child.name}) {_zsh_name(child)} ;;" for child in node.children)
    lines = [f"{name}() {{", "    local curcontext=$curcontext state line", "    typeset -A opt_args"]
    if node.default_child:
        lines.append(f"    if [[ $words[2] == -* ]]; then {name}__{node.default_child}; return; fi")
    lines.append(f"    local -a commands=({named})")
    lines.append(f"    _arguments -C {_zsh_lines([*specs, '1: :->command', '*:: :->rest'])}")
    lines.append("    case $state in")
    lines.append("    command) _describe -t commands command commands ;;")
    lines.append(f"    rest)\n        case $words[1] in\n{calls}\n        esac ;;")
    return "\n".join([*lines, "    esac", "}"])


def _zsh_option(option: CommandOption, root: CommandNode) -> Iterator[str]:
    value = option.value
    takes = "" if value.kind == "none" else f":{_zsh_text(value.name)}:{_zsh_action(value, root)}"
    repeat = "*" if option.is_repeatable else ""
    for name in option.names:
        yield f"{repeat}{name}[{_zsh_text(option.about)}]{takes}"


def _zsh_action(value: CommandValue, root: CommandNode) -> str:
    words = _child_names(root) if value.kind == "commands" else value.words
    if words and words[0].endswith("="):
        return f"compadd -S '' -- {' '.join(words)}"
    if words:
        return f"({' '.join(words)})"
    return {"files": "_files", "folders": "_files -/", "sessions": "_clew_sessions"}.get(value.kind, " ")


def _zsh_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", r"\[").replace("]", r"\]").replace(":", r"\:")


def _zsh_lines(specs: Iterable[str]) -> str:
    return " \\\n        ".join(map(shlex.quote, specs))


def _zsh_name(node: CommandNode) -> str:
    # A double underline parts them from the functions that list values.
    return "_clew" + "".join(f"__{name}" for name in node.path[1:])


# -- fish --------------------------------------------------------------------------------------------------------------

_FISH = """\
# Completion of clew for fish, written by `clew completion fish`.
function __clew_at
    set -l words
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; and break
        set -a words $word
    end
    set -l here (string join ' ' -- $words)
    test "$here" = "$argv[1]"; and return 0
    contains -- alone $argv[2]; and return 1
    string match -q -- "$argv[1] *" "$here"
end
complete -c clew -f
@LINES@
"""


def fish_script(root: CommandNode) -> str:
    lines = [line for node in root.walk() for line in _fish_lines(node, root)]
    return _filled(_FISH, {"LINES": "\n".join(lines)})


def _fish_lines(node: CommandNode, root: CommandNode) -> Iterator[str]:
    place = " ".join(node.path[1:])
    exactly = f"complete -c clew -n {_fish_quoted(f'__clew_at {shlex.quote(place)} alone')}"
    below = f"complete -c clew -n {_fish_quoted(f'__clew_at {shlex.quote(place)}')}"
    for child in node.children:
        yield f"{exactly} -a {child.name} -d {_fish_quoted(child.about)}"
    for option in node.own_options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        takes = "" if option.value.kind == "none" else f" {_fish_value(option.value, root) or '-x'}"
        yield f"{exactly if node.children else below} {names}{takes} -d {_fish_quoted(option.about)}"
    for argument in node.arguments:
        if value := _fish_value(argument.value, root).replace("-x ", "").replace("-r ", ""):
            yield f"{below} {value}"


def _fish_value(value: CommandValue, root: CommandNode) -> str:
    words = _child_names(root) if value.kind == "commands" else value.words
    if words:
        return f"-x -a {_fish_quoted(' '.join(words))}"
    folders = _fish_quoted("(__fish_complete_directories)")
    sessions = _fish_quoted(f"({SESSIONS_COMMAND})")
    kinds = {"files": "-r -F", "folders": f"-x -a {folders}", "sessions": f"-x -a {sessions}"}
    return kinds.get(value.kind, "")


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# -- all ---------------------------------------------------------------------------------------------------------------

SCRIPTS: Mapping[str, Callable[[CommandNode], str]] = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}


def _path(node: CommandNode) -> str:
    return " ".join(node.path)


def _option_names(node: CommandNode) -> list[str]:
    return [name for option in node.own_options for name in option.names]


def _child_names(node: CommandNode) -> list[str]:
    return [child.name for child in node.children]


def _quoted_words(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def _call_of(value: CommandValue) -> str:
    return {"files": "_clew_files", "folders": "_clew_folders", "sessions": "_clew_sessions"}.get(value.kind, "")


def _filled(template: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        template = template.replace(f"@{name}@", part)
    return template
