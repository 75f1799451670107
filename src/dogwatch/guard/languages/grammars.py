"""What other languages look like, and which of their functions run commands, send signals or change files."""

from dogwatch.guard.languages.tokens import Grammar

_C_BLOCKS = (("/*", "*/"),)
GRAMMARS = {
    "perl": Grammar(interpolates="$", patterns=True, perlish=True),
    "ruby": Grammar(interpolates="#{", patterns=True, hashes=True, blocks=(("=begin", "=end"),)),
    "javascript": Grammar(comments=("//",), blocks=_C_BLOCKS, interpolates="${", patterns=True),
    "php": Grammar(comments=("//", "#"), blocks=_C_BLOCKS, interpolates="$"),
    "lua": Grammar(comments=("--",), blocks=(("--[[", "]]"),), quotes="'\""),
    "awk": Grammar(quotes='"', patterns=True),
    "tcl": Grammar(quotes='"'),
    "applescript": Grammar(comments=("--", "#"), quotes='"'),
    "compiled": Grammar(comments=("//",), blocks=_C_BLOCKS, quotes='"'),
    "m4": Grammar(quotes='"'),
    "lisp": Grammar(comments=(";",), quotes='"', dashes=True),
    "generic": Grammar(comments=(), quotes="'\"`"),
}

_FROM_SHELL = "system exec spawn popen open2 open3 capture2 capture2e capture3 popen2 popen3 pipeline readpipe"
CALLS: dict[str, dict[str, str]] = {
    # What the arguments of a function are: "shell": a script or words; "words": words; "strings": each may be a
    # script; "kill": a signal and pids; "eval": a program; "open": a file or a pipe; "never": nothing that can be read.
    "perl": dict.fromkeys((*_FROM_SHELL.split(), "run3", "capture"), "shell")
    | {"open": "open", "kill": "kill", "eval": "eval", "syscall": "never", "ioctl": "never"},
    "ruby": dict.fromkeys(_FROM_SHELL.split(), "shell")
    | {"kill": "kill", "eval": "eval", "instance_eval": "eval", "class_eval": "eval", "syscall": "never"}
    | {"ioctl": "never", "sh": "shell"},
    "javascript": dict.fromkeys(
        "exec execSync spawn spawnSync execFile execFileSync execa execaSync Command execaCommand".split(), "shell"
    )
    | {"kill": "kill", "eval": "eval", "Function": "eval", "runInThisContext": "eval", "runInNewContext": "eval"}
    | {"dlopen": "never", "binding": "never"},
    "php": dict.fromkeys("exec shell_exec system passthru proc_open popen pcntl_exec".split(), "shell")
    | {"posix_kill": "kill", "eval": "eval", "assert": "eval", "create_function": "eval"},
    "lua": {"execute": "shell", "popen": "shell", "load": "eval", "loadstring": "eval", "kill": "kill"},
    "awk": {"system": "shell"},
    "tcl": {"exec": "words", "spawn": "words", "eval": "never", "kill": "kill"},
    "applescript": {"script": "shell"},
    "m4": {"syscmd": "words", "esyscmd": "words"},
    "compiled": dict.fromkeys("system popen execl execlp execle execv execvp Command new arg args".split(), "strings")
    | {"kill": "kill", "killpg": "kill", "Kill": "kill", "posix_spawn": "strings", "syscall": "never"}
    | {"exec": "strings", "ProcessBuilder": "strings", "Start": "strings", "FindProcess": "kill"},
    "lisp": dict.fromkeys(
        "system system* shell-command async-shell-command shell-command-to-string call-process"
        " call-process-shell-command start-process start-process-shell-command make-process process-lines compile"
        " subprocess process process* run-program open-input-pipe open-pipe open-pipe* sh exec execute popen".split(),
        "strings",
    )
    | {"kill": "kill", "signal-process": "kill"},
    "generic": dict.fromkeys(
        "system system2 shell run exec popen spawn execute cmd systemlist jobstart call start sh command"
        " callCommand".split(),
        "strings",
    )
    | {"ProcessBuilder": "strings", "kill": "kill", "pskill": "kill"},
}
CALLED_WITHOUT_BRACKETS = ("perl", "ruby", "lua", "tcl", "applescript", "lisp", "generic")
SIGNAL_FIRST = ("perl", "ruby")

MAKES_CHILD = frozenset("spawn fork exec execFile popen Popen pcntl_fork open2 open3 execa".split())
"""What these return is a process of one's own, or its pid."""
OWN_PIDS = frozenset(("getpid", "getmypid", "Getpid", "process-id", "$$"))
LOOKS_UP = ("pgrep ", "pidof ", "lsof ", "ps ")
"""Commands that print pids which may be anybody's."""
CHANGES_FILES = frozenset(
    (
        "unlink unlinkSync rm rmSync rmdir rmdirSync rename renameSync writeFile writeFileSync appendFile "
        "appendFileSync truncate truncateSync open rm_rf rm_r rmtree remove_tree remove FileUtils delete "
        "file_put_contents chmod chmodSync symlink symlinkSync copyFileSync"
    ).split()
)

EXECUTING_MODULES = ("child_process", "execa", "shelljs", "zx", "Deno", "Bun")
SENSITIVE_OBJECTS = ("process", "global", "globalThis", "window", "require", "child_process", "Deno", "Bun")
