"""Building blocks of command declarations: command classes, value types, shared options.

Types raise `BadValue` with the expected format. A time without a zone is in the local zone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import wraps
from typing import Any, NoReturn, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from clew.cli.console import Console
from clew.errors import InvalidArgument

Callback = TypeVar("Callback", bound=Callable[..., Any])
Run: TypeAlias = Callable[..., int | Coroutine[Any, Any, int]]
"""The function of a command."""
Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Adds an option to a command."""
Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
MODES = ("observe", "spill", "compact")
"""Modes of a gateway."""
STATE_KINDS = ("tasks", "branch", "commits", "tests", "services", "settings", "files", "rules", "decisions")
"""Kinds of facts of a conversation, in the order of `FACT_KINDS`."""
MAX_SUGGESTIONS = 3
MAX_COMPLETED_SESSIONS = 200
_MIN_PREFIX = 2
_SIMILARITY = 0.65
_AGO = re.compile(r"(\d{1,5})\s*(m|h|d|w)")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
EXPECTED_TIME = "a day (2026-03-01), a time (2026-03-01T14:30), today, yesterday, or so long ago: 30m, 12h, 7d, 2w"
FILE, FOLDER = click.Path(), click.Path(file_okay=False)
"""Types whose values a shell completes; whether a file is there is checked by the command."""


class CliCommand(click.Command):
    """A command that prints its epilog unchanged and has mutually exclusive options."""

    def __init__(self, *values: Any, exclusive: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*values, **options)
        self.exclusive = exclusive
        """Names of parameters of which at most one may be given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if ctx.resilient_parsing:
            return rest
        if rest:
            refuse(ctx, f"too many arguments: {' '.join(rest)}")
        given = [param for param in self.params if param.name in self.exclusive and _is_given(ctx, param)]
        if len(given) > 1:
            refuse(ctx, f"{shown_name(given[1])}: not allowed with {shown_name(given[0])}")
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = [self.options_metavar or ""]
        for param in (each for each in self.params if isinstance(each, click.Argument)):
            name = shown_name(param) if param.required else f"[{shown_name(param)}]"
            pieces.append(f"{name}{'...' if param.nargs == -1 else ''}")
        return pieces

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.epilog:
            formatter.write(f"\n{self.epilog}")


class NounGroup(click.Group):
    """A command with verbs and a default verb: `clew sessions --json` is `clew sessions list --json`."""

    command_class = CliCommand

    def __init__(self, *values: Any, default_verb: str = "", **options: Any) -> None:
        super().__init__(*values, **options)
        self.default_verb = default_verb

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they are declared

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        has_verb = args and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        if self.default_verb and not has_verb and not ctx.resilient_parsing:
            args = [self.default_verb, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            near = did_you_mean(args[0], self.list_commands(ctx))
            raise refusal(ctx, f"no command {args[0]!r}", f"{near}`{ctx.command_path} --help` lists them")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        own = super().shell_complete(ctx, incomplete)
        meant = self.get_command(ctx, self.default_verb) if incomplete.startswith("-") else None
        return own if meant is None else own + meant.shell_complete(ctx, incomplete)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        CliCommand.format_epilog(self, ctx, formatter)  # type: ignore[arg-type]


def _is_given(ctx: click.Context, param: click.Parameter) -> bool:
    source = ctx.get_parameter_source(param.name or "")
    return source is click.core.ParameterSource.COMMANDLINE and ctx.params[param.name or ""] not in (None, ())


class BadValue(click.BadParameter):
    """A value that is not allowed; `expects` describes allowed values."""

    def __init__(self, problem: str, expects: str) -> None:
        super().__init__(problem)
        self.expects = expects


def refusal(ctx: click.Context | None, problem: str, remedy: str = "") -> InvalidArgument:
    """The error for a wrong command line; the default remedy is the help of its command."""
    path = ctx.command_path if ctx else "clew"
    below = path.partition(" ")[2]
    help_hint = f"`{path} --help` describes it"
    return InvalidArgument(f"{below}: {problem}" if below else problem, remedy=remedy or help_hint)


def refuse(ctx: click.Context, problem: str) -> NoReturn:
    raise refusal(ctx, problem)


def wrong_use(error: click.UsageError) -> InvalidArgument:
    """Translate an error of click."""
    ctx, param = error.ctx, getattr(error, "param", None)
    if isinstance(error, click.NoSuchOption):
        known = [name for each in ctx.command.params for name in each.opts if name.startswith("--")] if ctx else []
        near = did_you_mean(error.option_name, [*known, "--help"])
        hint = f"`{ctx.command_path if ctx else 'clew'} --help` describes it"
        return refusal(ctx, f"unknown option {error.option_name}", near + hint)
    if isinstance(error, click.MissingParameter) and param is not None:
        return refusal(ctx, f"{shown_name(param)} is missing")
    if isinstance(error, BadValue) and param is not None:
        return refusal(ctx, f"{shown_name(param)}: {error.message}", error.expects)
    if isinstance(error, click.BadParameter) and param is not None:
        return refusal(ctx, f"{shown_name(param)}: {error.message.rstrip('.')}")
    if isinstance(error, click.BadOptionUsage):
        return refusal(ctx, f"{error.option_name}: expects a value")
    return refusal(ctx, error.format_message().rstrip("."))


def shown_name(param: click.Parameter) -> str:
    """The name of a parameter as it is typed."""
    return "/".join(param.opts) if isinstance(param, click.Option) else param.metavar or (param.name or "").upper()


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`did you mean X? ` for a word similar to a known one; else empty."""
    from difflib import get_close_matches  # late: only wrong use needs it

    by_word = {name.lstrip("-").lower(): name for name in known}
    wanted = given.lstrip("-").lower()
    begin = [word for word in by_word if len(wanted) >= _MIN_PREFIX and word.startswith(wanted)]
    near = begin[:MAX_SUGGESTIONS] or get_close_matches(wanted, by_word, 1, _SIMILARITY)
    return f"did you mean {' or '.join(by_word[word] for word in near)}? " if near else ""


def one_of_these(given: str, known: Sequence[str]) -> str:
    """The remedy for a word that is not allowed."""
    near = did_you_mean(given, known)
    return f"{near}{'It' if near else 'it'} takes {', '.join(known)}"


def shown_setups(command: str, name: str, setups: Sequence[Any], find: Callable[[str], Any]) -> Sequence[Any]:
    """The setups for `--show NAME`; raises `InvalidArgument` for an unknown program."""
    if name == "all":
        return setups
    if chosen := find(name):
        return (chosen,)
    known = [*(setup.name for setup in setups), "all"]
    raise InvalidArgument(f"{command}: --show: {name!r} is not known", remedy=one_of_these(name, known))


class OneOf(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.3
    """One of some words."""

    name = "word"

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.words:
            return value
        raise BadValue(f"{value!r} is not allowed", one_of_these(str(value), self.words))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _beginning_with(incomplete, self.words)


def parse_tokens(text: str, least: int = 1) -> int:
    """A number of tokens: `10000`, `10,000` or `10k`."""
    plain = text.strip().lower().replace(",", "")
    number, unit = (plain[:-1], 1_000) if plain.endswith("k") else (plain, 1)
    try:
        tokens = int(float(number) * unit) if unit > 1 else int(number)
    except (ValueError, OverflowError):
        tokens = -1
    if not least <= tokens <= sys.maxsize:
        raise BadValue(f"{text!r} is not allowed", f"expects a number of tokens, {least} or more")
    return tokens


def parse_count(text: str, least: int = 0) -> int:
    """A whole number."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if number < least:
        raise BadValue(f"{text!r} is not allowed", f"expects a whole number, {least} or more")
    return number


def parse_address(text: str) -> str:
    """The address of an endpoint."""
    if not text.startswith(("http://", "https://")):
        raise BadValue(f"{text!r} is not an address", "give one that begins with http:// or https://")
    return text


def one_or_more(text: str) -> int:
    return parse_count(text, 1)


def message_number(text: str) -> int:
    """The number of a message: `m120` or `120`."""
    return parse_count(text.removeprefix("m"))


def parse_since(text: str) -> datetime:
    """The start of a period; a day starts at midnight."""
    return _parse_time(text, end=False)


def parse_until(text: str) -> datetime:
    """The end of a period; a day is included."""
    return _parse_time(text, end=True)


def _parse_time(text: str, *, end: bool) -> datetime:
    wanted = text.strip().lower()
    try:
        if ago := _AGO.fullmatch(wanted):
            return datetime.now(UTC) - int(ago[1]) * _UNITS[ago[2]]
        if wanted in ("today", "yesterday"):
            return _day_boundary(datetime.now().astimezone().date() - timedelta(days=wanted == "yesterday"), end)
        if _DAY.fullmatch(wanted):
            return _day_boundary(date.fromisoformat(wanted), end)
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise BadValue(f"{text!r} is not a time", f"expects {EXPECTED_TIME}") from None


def _day_boundary(day: date, end: bool) -> datetime:
    return datetime.combine(day + timedelta(days=1) if end else day, datetime.min.time()).astimezone()


def _beginning_with(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from clew.config import declared_settings

    ending = "=" if "--set" in param.opts else ""
    return _beginning_with(incomplete, (f"{key}{ending}" for key in declared_settings()))


def complete_providers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from clew.providers import PROVIDER_PRESETS

    return _beginning_with(incomplete, sorted({preset.name for preset in PROVIDER_PRESETS}))


def complete_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from clew.providers import FETCHABLE_MODELS

    return _beginning_with(incomplete, ("local", *(row.name for row in FETCHABLE_MODELS)))


def complete_sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest sessions, each with its short id and title."""
    import asyncio

    from clew.cli.store_access import all_session_ids, short_ids, store_location
    from clew.cli.text import clip, printable
    from clew.config import read_config
    from clew.store import Session

    console: Console = ctx.find_root().obj
    location = store_location(read_config(console.environ, ctx.params.get("flags") or ()).settings, console.environ)
    if not location.exists:
        return []

    async def read() -> tuple[list[Session], dict[str, str]]:
        async with location.open() as store:
            newest = await store.list_sessions(limit=MAX_COMPLETED_SESSIONS, only_tips=True)
            return newest, short_ids((each.id for each in newest), await all_session_ids(store))

    newest, ids = asyncio.run(read())
    # An id that is shown by its end alone begins with an ellipsis, which is not typed.
    names = [(each.id if not ids[each.id].isascii() else ids[each.id], each.title or "") for each in newest]
    return [
        CompletionItem(name, help=clip(printable(title), 60)) for name, title in names if name.startswith(incomplete)
    ]


def option(name: str, metavar: str, about: str, completes: Completer | None = None, **more: Any) -> Option:
    """An option that takes a value; `completes` lists the values for a shell."""
    return click.option(*name.split(), metavar=metavar, help=about, shell_complete=completes, **more)


json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")
set_option = option("--set flags", "KEY=VALUE", "a setting for this run only", complete_settings, multiple=True)
model_option = option("--model", "M", "count and price for this model, not the one the file names")
base_url_option = option("--base-url", "URL", "address of the endpoint", type=parse_address)
session_argument = click.argument("session", metavar="SESSION", shell_complete=complete_sessions)
file_argument = click.argument("file", metavar="FILE", type=FILE)
provider_option = option(
    "--provider", "NAME", "the provider: openai, anthropic, openrouter, ..., local", complete_providers
)
mode_option = option("--mode", "MODE", "observe, spill or compact (default)", type=OneOf(MODES), default="compact")


def tokens_option(name: str, about: str, least: int = 1) -> Option:
    """An option that takes a number of tokens."""
    return option(name, "TOKENS", about, type=lambda text: parse_tokens(text, least))


def store_options(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that opens the store."""
    return json_option(set_option(callback))


def period_options(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Options that limit a command to a period."""
    since = option("--since", "WHEN", "from then on: 2026-03-01, yesterday, 7d, 12h", type=parse_since)
    return since(option("--until", "WHEN", "up to then; a day counts whole", type=parse_until)(callback))


def sentence(about: str) -> str:
    """The short help of a command as a sentence."""
    return f"{about[0].upper()}{about[1:]}."


def command(
    epilog: str = "", *, exclusive: Sequence[str] = (), cls: type[CliCommand] = CliCommand, **settings: Any
) -> Callable[[Run], CliCommand]:
    """Declare a command.

    Its function may be async, gets the console with the values of `--json` and `--set`, and returns the exit code.
    """

    def declare(run: Run) -> CliCommand:
        @click.pass_obj
        @wraps(run)
        def invoke(console: Console, /, as_json: bool = False, flags: Sequence[str] = (), **given: Any) -> int:
            code = run(replace(console, as_json=as_json, flags=flags), **given)
            if isinstance(code, int):
                return code
            import asyncio  # late, as everything that `--help` does not need

            return asyncio.run(code)

        return click.command(cls=cls, epilog=epilog, exclusive=exclusive, **settings)(invoke)

    return declare


def verb(
    noun: click.Group, name: str, about: str, epilog: str = "", *, exclusive: Sequence[str] = ()
) -> Callable[[Run], CliCommand]:
    """Declare a command below a noun."""

    def declare(run: Run) -> CliCommand:
        made = command(epilog, exclusive=exclusive)(run)
        made.name, made.short_help, made.help = name, about, sentence(about)
        noun.add_command(made)
        return made

    return declare


def noun(default_verb: str, epilog: str = "") -> NounGroup:
    """Declare a command with verbs."""
    return NounGroup(default_verb=default_verb, epilog=epilog)
