"""All rules in one table: the program's name, and the function that judges it."""

from dogwatch.guard.rules import (
    builds,
    filters,
    interpreters,
    machine,
    many,
    paths,
    printing,
    processes,
    runners,
    sessions,
    shell_builtins,
    version_control,
    wrappers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

RULES: "dict[str, Rule]" = {
    **filters.RULES,
    **printing.RULES,
    **wrappers.RULES,
    **many.RULES,
    **interpreters.RULES,
    **runners.RULES,
    **builds.RULES,
    **version_control.RULES,
    **paths.RULES,
    **machine.RULES,
    **shell_builtins.RULES,
    **sessions.RULES,
    **processes.RULES,
}
