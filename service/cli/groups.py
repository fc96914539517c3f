"""How the words of a command line are ordered: ``--url`` at any place, groups that list, ids that need no ``show``."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from service.cli.advice import RUNNING

MOST_WAYS = 4


class Commands(TyperGroup):
    """A group of commands, the whole of ``prefsvm`` among them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--url`` before the name of the command, too."""
        parsed: list[str] = super().parse_args(ctx, _url_behind_the_name(args))
        return parsed

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Note which command runs, for what is said of its options."""
        if self.get_command(ctx, args[0]) is None and (ways := self._ways(args[0])):
            ctx.fail(f"There is no command {args[0]!r} here; there is {' and '.join(ways)}.")
        found = super().resolve_command(ctx, args)
        if found[1] is not None:
            RUNNING.begin(option for each in found[1].params for option in each.opts)
        return found

    def _ways(self, word: str) -> list[str]:
        """Return what a word may have meant that is no command: one of a group, or an option of a command."""
        ways = []
        for name, command in self.commands.items():
            if word in getattr(command, "commands", ()):
                ways.append(f"prefsvm {name} {word}")
            elif any(f"--{word}" in parameter.opts for parameter in command.params):
                ways.append(f"prefsvm {name} … --{word}")
        return ways[:MOST_WAYS]


class Listing(Commands):
    """A group with a command ``list``: alone it lists, and with an id it shows."""

    def __init__(self, **described: Any) -> None:
        super().__init__(**described | {"subcommand_metavar": "[COMMAND] [ARGS]..."})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the name of the command where it was left out."""
        args = _url_behind_the_name(args)
        if not args or args[0].split("=")[0] == "--url":
            args = ["list", *args]
        elif "show" in self.commands and args[0] not in self.commands and _is_all_that_is_named(args):
            args = ["show", *args]
        return super().parse_args(ctx, args)


class WithShow(TyperCommand):
    """A command of which ``prefsvm models show X`` is another way to say ``prefsvm models X``, as of the groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Drop the words ``show`` before a name and ``list`` before none."""
        named = len(args) > 1 and not args[1].startswith("-")
        if args and args[0] == ("show" if named else "list"):
            args = args[1:]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


class NamedByOut(TyperCommand):
    """A command that takes what it writes from the name of the file, and not from an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say so where a form is written as an option."""
        form = next((arg.partition("=")[0] for arg in args if arg.startswith(("--svg", "--png", "--json"))), None)
        if form is not None:
            ctx.fail(f"There is no option {form}: --out FILE.{form[2:]} says what is written by the name of the file.")
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


def _is_all_that_is_named(args: list[str]) -> bool:
    return not args[0].startswith("-") and (len(args) == 1 or args[1].startswith("-"))


def _url_behind_the_name(args: list[str]) -> list[str]:
    """Move a leading ``--url ADDRESS`` behind the first word that is none of it."""
    taken = 2 if args[:1] == ["--url"] else 1 if args and args[0].startswith("--url=") else 0
    if not taken or len(args) <= taken or args[taken].startswith("-"):
        return args
    return [args[taken], *args[:taken], *args[taken + 1 :]]
