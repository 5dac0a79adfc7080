"""The command ``tile-lsp``: picks the subcommand, loads its module alone, and turns every failure into one paragraph."""
from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

DEBUG_VARIABLE = "TILE_LSP_DEBUG"
EXIT_OK, EXIT_FINDINGS, EXIT_FAILED = 0, 1, 2
INTERRUPTED = 130

# name -> module (in this package) and the line `tile-lsp --help` shows; a module is imported only when its command is used.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("serve", "run the language server (standard input and output unless --tcp)"),
    "check": ("check", "report faults in TileLang kernels without running them"),
    "lower": ("lower", "print what a kernel becomes: tile program, IR, CUDA, PTX, SASS"),
    "run": ("run", "compile and run a kernel, compare the result, measure the time"),
    "bench": ("bench", "measure kernels at all their instances, beside their reference"),
    "exec": ("exec_script", "run a script that imports tilelang on this compiler"),
    "rule": ("rule", "explain a rule"),
    "api": ("api", "tell what changed between two TileLang releases"),
    "config": ("config", "show the configuration that applies, or its JSON schema"),
    "doctor": ("doctor", "tell what was found on this machine and how to get what is missing"),
}


# Python packages a command may lack -> the extra of tilec that brings them ("": tilec itself).
_EXTRAS = {"tvm": "compile", "tvm_ffi": "compile", "torch": "run", "pygls": "", "lsprotocol": "", "rich": ""}


class UsageError(Exception):
    """What the user asked for cannot be done; the text says where, why and what to do instead."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    ours = _ours(arguments)
    if "--debug" in arguments[:ours]:
        arguments.remove("--debug")
        debug = True
        os.environ[DEBUG_VARIABLE] = "1"  # for child processes too
    try:
        code = _dispatch(arguments)
        if not sys.stdout.closed:  # the language server's client takes it along
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _quiet_pipe()
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        print(f"tile-lsp: {_paragraph(error)}", file=sys.stderr)
        return EXIT_FAILED


def _ours(arguments: list[str]) -> int:
    """How many of the arguments are this program's: those of a script that ``exec`` runs are the script's."""
    if "exec" not in arguments or any(not a.startswith("-") for a in arguments[:arguments.index("exec")]):
        return len(arguments)
    after = arguments.index("exec") + 1
    return next((i for i in range(after, len(arguments)) if arguments[i] in ("-m", "--") or not arguments[i].startswith("-")), len(arguments))


def _dispatch(arguments: list[str]) -> int:
    name = next((a for a in arguments if not a.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        raise UsageError(_no_command(name))
    gc.disable()  # loading a command makes many objects and no garbage: collecting would take a fifth of the start
    if name == "exec" and arguments[_ours(arguments):][:1] == ["-m"]:
        arguments.insert(_ours(arguments), "--")  # it begins like an option and is none of ours
    parser = _parser(name if name in COMMANDS else None)
    gc.freeze()
    gc.set_threshold(400_000, 20, 20)  # a syntax tree is tens of thousands of objects and no garbage
    gc.enable()
    options, strange = parser.parse_known_args(arguments)
    if strange:
        own = f"{name}: " if name else ""
        raise UsageError(f"{own}unrecognized arguments: {' '.join(strange)} (tile-lsp {f'{name} ' if name else ''}--help tells the options)")
    if not hasattr(options, "execute"):
        parser.print_help()
        return EXIT_OK
    return int(options.execute(options))


def _no_command(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"there is no command {name!r}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}")


class _Parser(argparse.ArgumentParser):
    """Options that make no sense are told in one paragraph, like everything else."""

    def error(self, message: str) -> NoReturn:
        own = self.prog.removeprefix("tile-lsp").strip()
        own = f"{own}: " if own else ""
        raise UsageError(f"{own}{message} ({self.prog} --help tells the options)")


def _parser(only: str | None) -> argparse.ArgumentParser:
    """The parser with the chosen command's options; without one, with every command's name and line alone."""
    parser = _Parser(
        prog="tile-lsp", description="Language server, checker and compiler for TileLang kernels.",
        epilog=f"`tile-lsp COMMAND --help` tells a command's options. --debug or {DEBUG_VARIABLE}=1 shows the trace of an unexpected error.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog=parser.prog)  # else worked out, with shutil
    if only is None:
        for name, (_, line) in COMMANDS.items():
            subparsers.add_parser(name, help=line)
        return parser
    module = _command_module(only)
    module.add_parser(subparsers)
    # Every command module exposes execute(args); the parser needs no knowledge of it.
    subparsers.choices[only].set_defaults(execute=module.execute)
    return parser


def _command_module(name: str):
    module = f"tile_lsp.cli.{COMMANDS[name][0]}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise UsageError(f"the command {name!r} is not part of this installation; reinstall tilec.") from None
        raise


class _Version(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"tile-lsp {version('tilec')}")
        except PackageNotFoundError:
            print("tile-lsp (not installed: running from its sources)")
        parser.exit(EXIT_OK)


def _paragraph(error: Exception) -> str:
    """An exception in one paragraph."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in _EXTRAS:
        return _missing(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror or error}."
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UsageError):
        return text
    return (f"unexpected error, {type(error).__name__}: {text}. This is a fault of tile-lsp; "
            f"run again with --debug for the trace and please report it.")


def _missing(error: ModuleNotFoundError) -> str:
    name = (error.name or "").split(".")[0]
    extra = _EXTRAS.get(name)
    wanted = f"'tilec[{extra}]'" if extra else "tilec"
    return f"this command needs the Python package {name!r}, which is not installed here. Install it with: pip install {wanted}"


def _quiet_pipe() -> int:
    """The reader of our output has gone (``| head``); keep the interpreter from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())
