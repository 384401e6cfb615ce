"""An operation as steps: a generator that yields statements and gets their rows. Knows no driver.

Whoever runs the steps wraps them in one transaction: all of them happen, or none.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
ROW_LOCK = " FOR_UPDATE"


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with `?` for parameters; where it is `many`, `params` holds one sequence per execution and no row comes back.

    A statement that ends in `FOR_UPDATE` locks its rows. Where one writer holds the whole database it is not run at
    all, and no row comes back.
    """

    sql: str
    params: Sequence[Any] = ()
    many: bool = False


Steps: TypeAlias = Generator[Statement, list[Row], T]


def one(sql: str, *params: Any) -> Steps[Row | None]:
    """The first row, or None."""
    rows = yield Statement(sql, params)
    return rows[0] if rows else None


def rows(sql: str, *params: Any) -> Steps[list[Row]]:
    return (yield Statement(sql, params))


def run(sql: str, *params: Any) -> Steps[None]:
    yield Statement(sql, params)


def run_many(sql: str, params: Sequence[Sequence[Any]]) -> Steps[None]:
    if params:
        yield Statement(sql, params, many=True)
