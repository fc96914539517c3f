"""How HTML is made here of templates: everything is escaped, cut and readable, whatever a template forgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

from service import shown_text


def html_templates(folder: Path, filters: Iterable[Callable[..., Any]]) -> Environment:
    """Return the templates of a folder; each filter is called as its function is."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown_text.finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    ours: tuple[Callable[..., Any], ...] = (shown_text.name, shown_text.number, shown_text.percent, shown_text.chance)
    for function in (*ours, *filters):
        environment.filters[function.__name__] = _at_each_request(function)
    return environment


def _at_each_request(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that Jinja does not apply once for all to what stands in a template: languages differ."""

    @pass_context
    def told(_: Any, *given: Any, **named: Any) -> Any:
        return function(*given, **named)

    return told
