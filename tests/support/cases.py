"""Many small cases in one test: a case costs microseconds, a test of its own costs milliseconds in every process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import pytest

Test: TypeAlias = Callable[..., Any]


def every_case(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test once for each case, as `pytest.mark.parametrize` does, but as one test that reports all failures.

    For pure functions: fixtures are made once and shared by all cases.
    """
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_values(case, len(fields)) for case in cases]

    def decorate(test: Test) -> Test:
        def arguments(fixtures: dict[str, Any]) -> list[dict[str, Any]]:
            assert rows, "there are no cases"
            return [{**fixtures, **dict(zip(fields, row, strict=True))} for row in rows]

        @functools.wraps(test)
        def run(*given: Any, **fixtures: Any) -> None:
            failures = []
            for case in arguments(fixtures):
                try:
                    test(*given, **case)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append(_named(error, case))
            _report(failures, len(rows))

        @functools.wraps(test)
        async def run_async(*given: Any, **fixtures: Any) -> None:
            failures = []
            for case in arguments(fixtures):
                try:
                    await test(*given, **case)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append(_named(error, case))
            _report(failures, len(rows))

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in fields]
        chosen: Test = run_async if inspect.iscoroutinefunction(test) else run
        chosen.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return chosen

    return decorate


def _named(error: BaseException, case: dict[str, Any]) -> Exception:
    """The failure with the arguments that led to it; what `pytest.fail` raises is no `Exception`, and becomes one."""
    if not isinstance(error, ExceptionGroup):
        error.add_note(f"case: {case!r:.500}")
    return error if isinstance(error, Exception) else AssertionError(str(error))


def _report(failures: list[Exception], cases: int) -> None:
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {cases} cases failed", failures[:20])


def _values(case: Any, count: int) -> tuple[Any, ...]:
    if type(case).__name__ == "ParameterSet":  # made by pytest.param
        return tuple(case.values)
    return (case,) if count == 1 else tuple(case)
