"""``hybridjit completion``: print a script that completes commands and options in a shell.

Input: the name of a shell. Output: its script, made from the parsers of all commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import NamedTuple

Parsers = Mapping[str, argparse.ArgumentParser]


class Word(NamedTuple):
    """An option of a command: its help, the values that it takes, and whether it takes one."""

    name: str
    help: str
    values: tuple[str, ...]
    has_value: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", choices=sorted(_SCRIPTS), help="bash, zsh or fish"
    )
    parser.epilog = (
        'In ~/.bashrc: eval "$(hybridjit completion bash)". In ~/.zshrc, after compinit: '
        'eval "$(hybridjit completion zsh)". For fish: hybridjit completion fish > '
        "~/.config/fish/completions/hybridjit.fish"
    )


def script(shell: str, parsers: Parsers, meanings: Mapping[str, str]) -> str:
    """The script for a shell.

    parsers   a parser with all arguments for each command
    meanings  a line of help for each command
    """
    return _SCRIPTS[shell]({name: _words(one) for name, one in parsers.items()}, meanings)


def _words(parser: argparse.ArgumentParser) -> list[Word]:
    found = []
    for action in parser._actions:
        values = tuple(map(str, action.choices or ()))
        names = [n for n in action.option_strings if n.startswith("--")] or action.option_strings
        text = (action.help or "").replace("%(default)s", str(action.default)).partition(";")[0]
        found += [Word(name, text, values, action.nargs != 0) for name in names[:1]]
        if not names and values:
            found.append(Word("", text, values, True))  # a positional argument
    return found


def _bash(commands: Mapping[str, list[Word]], meanings: Mapping[str, str]) -> str:
    cases = []
    for name, words in commands.items():
        options = " ".join(word.name for word in words if word.name)
        others = " ".join(" ".join(word.values) for word in words if not word.name)
        cases.append(f"        {name}) words='{options}'; others='{others}' ;;")
    values = [
        f"        {name}:{w.name}) COMPREPLY=($(compgen -W '{' '.join(w.values)}' -- \"$word\"));"
        " return ;;"
        for name, words in commands.items()
        for w in words
        if w.values and w.name
    ]
    return "\n".join(
        [
            "_hybridjit() {",
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
            "    local words='' others=''",
            '    if [ "$COMP_CWORD" = 1 ]; then',
            f"        COMPREPLY=($(compgen -W '{' '.join(meanings)}' -- \"$word\")); return",
            "    fi",
            "    case ${COMP_WORDS[1]}:$before in",
            *values,
            "    esac",
            "    case ${COMP_WORDS[1]} in",
            *cases,
            "    esac",
            "    case $word in",
            '        -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;',
            '        *) COMPREPLY=($(compgen -W "$others" -- "$word") $(compgen -f -- "$word")) ;;',
            "    esac",
            "}",
            "complete -o filenames -F _hybridjit hybridjit",
        ]
    )


def _zsh(commands: Mapping[str, list[Word]], meanings: Mapping[str, str]) -> str:
    cases = []
    for name, words in commands.items():
        specs = " ".join(map(_zsh_spec, words))
        cases.append(f"        {name}) _arguments {specs} '*:file:_files' ;;")
    listed = " ".join(_quoted(f"{name}:{text}") for name, text in meanings.items())
    return "\n".join(
        [
            "#compdef hybridjit",
            "_hybridjit() {",
            "    if (( CURRENT == 2 )); then",
            f"        local -a commands=({listed})",
            "        _describe command commands; return",
            "    fi",
            "    local command=$words[2]",
            "    shift words; (( CURRENT-- ))",
            "    case $command in",
            *cases,
            "    esac",
            "}",
            "compdef _hybridjit hybridjit",
        ]
    )


def _zsh_spec(word: Word) -> str:
    text = word.help.replace("[", "(").replace("]", ")").replace(":", " -")
    values = f"({' '.join(word.values)})" if word.values else "_files"
    if not word.name:
        return _quoted(f"1:{text}:{values}")
    value = f":value:{values}" if word.has_value else ""
    return _quoted(f"*{word.name}[{text}]{value}")


def _fish(commands: Mapping[str, list[Word]], meanings: Mapping[str, str]) -> str:
    lines = [
        f"complete -c hybridjit -n __fish_use_subcommand -f -a {name} -d {_quoted(text)}"
        for name, text in meanings.items()
    ]
    for name, words in commands.items():
        start = f"complete -c hybridjit -n '__fish_seen_subcommand_from {name}'"
        for word in words:
            option = f" -l {word.name[2:]}" if word.name.startswith("--") else ""
            values = f" -x -a {_quoted(' '.join(word.values))}" if word.values else ""
            need = " -r" if option and word.has_value and not values else ""
            if option or values:
                lines.append(f"{start}{option}{need}{values} -d {_quoted(word.help)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPTS: dict[str, Callable[[Mapping[str, list[Word]], Mapping[str, str]], str]] = {
    "bash": _bash,
    "fish": _fish,
    "zsh": _zsh,
}


def run(args: argparse.Namespace) -> int:
    parsers, meanings = args.all_commands()
    print(script(args.shell, parsers, meanings))
    return 0
