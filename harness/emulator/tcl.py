"""As much of Tcl as OpenOCD's configuration files and ``-c`` lines need.

Words, braces, quotes, ``$`` and ``[]``; ``set``, ``if``, ``catch``, ``proc``, ``echo`` and ``info
exists``.  Everything else is a command of the program that embeds it, or an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

Command = Callable[[Sequence[str]], str]
DEPTH = 40
ESCAPES = {"n": "\n", "t": "\t", "\n": " "}


class TclError(Exception):
    """A script went wrong; the text is what Tcl would print."""


class Tcl:
    """An interpreter with ``commands`` besides its own; ``say`` prints what ``echo`` is given."""

    def __init__(self, commands: Mapping[str, Command], say: Callable[[str], None]) -> None:
        self.variables: dict[str, str] = {}
        self._procedures: dict[str, str] = {}
        self._outer = commands
        self._say = say
        self._depth = 0
        self._own: Mapping[str, Command] = {
            "set": self._set,
            "if": self._if,
            "catch": self._catch,
            "proc": self._proc,
            "echo": self._echo,
            "puts": self._echo,
            "info": self._info,
        }

    def run(self, script: str) -> str:
        """The result of the script's last command.  Raises :class:`TclError`."""
        self._depth += 1
        try:
            if self._depth > DEPTH:
                raise TclError("too many nested evaluations")
            return self._commands(script)
        finally:
            self._depth -= 1

    def _commands(self, script: str) -> str:
        result = ""
        at = 0
        while at < len(script):
            if script[at] in " \t\r\n;":
                at += 1
            elif script[at] == "#":
                end = script.find("\n", at)
                at = len(script) if end < 0 else end
            else:
                words, at = self._words(script, at)
                result = self._call(words)
        return result

    def _call(self, words: Sequence[str]) -> str:
        name, arguments = words[0], words[1:]
        if name in self._procedures:
            return self.run(self._procedures[name])
        command = self._outer.get(name) or self._own.get(name)
        if command is None:
            raise TclError(f'invalid command name "{name}"')
        return command(arguments)

    def _words(self, script: str, at: int) -> tuple[list[str], int]:
        """The words of the command at ``at``, and where it ends."""
        words: list[str] = []
        while at < len(script) and script[at] not in ";\n":
            if script[at] in " \t\r":
                at += 1
            elif script.startswith("\\\n", at):
                at += 2
            elif script[at] == "{":
                end = _closing(script, at, "{", "}")
                words.append(script[at + 1 : end])
                at = end + 1
            elif script[at] == '"':
                word, at = self._substituted(script, at + 1, '"')
                words.append(word)
                at += 1
            else:
                word, at = self._substituted(script, at, " \t\r\n;")
                words.append(word)
        return words, at

    def _substituted(self, script: str, at: int, ends: str) -> tuple[str, int]:
        out: list[str] = []
        while at < len(script) and script[at] not in ends:
            char = script[at]
            if char == "\\" and at + 1 < len(script):
                out.append(ESCAPES.get(script[at + 1], script[at + 1]))
                at += 2
            elif char == "[":
                end = _closing(script, at, "[", "]")
                out.append(self.run(script[at + 1 : end]))
                at = end + 1
            elif char == "$" and (name := re.compile(r"\{([^}]*)\}|(\w+)").match(script, at + 1)):
                out.append(self._value(name[1] or name[2]))
                at = name.end()
            else:
                out.append(char)
                at += 1
        if ends == '"' and at >= len(script):
            raise TclError('missing "')
        return "".join(out), at

    def _value(self, name: str) -> str:
        if name not in self.variables:
            raise TclError(f'can\'t read "{name}": no such variable')
        return self.variables[name]

    def _set(self, words: Sequence[str]) -> str:
        match words:
            case [name]:
                return self._value(name)
            case [name, value]:
                self.variables[name] = value
                return value
        raise TclError('wrong # args: should be "set varName ?newValue?"')

    def _if(self, words: Sequence[str]) -> str:
        match [word for word in words if word != "then"]:
            case [condition, body] | [condition, body, "else", _] if self._true(condition):
                return self.run(body)
            case [_, _]:
                return ""
            case [_, _, "else", body]:
                return self.run(body)
        raise TclError('wrong # args: should be "if condition trueBody ?else? falseBody"')

    def _true(self, condition: str) -> bool:
        text, _ = self._substituted(condition, 0, "\0")
        text = text.strip()
        for sign in ("==", "!="):
            if sign in text:
                left, _, right = (part.strip().strip('"') for part in text.partition(sign))
                return (left == right) is (sign == "==")
        inverted = text.startswith("!")
        return (text.lstrip("! ") not in ("", "0", "false")) is not inverted

    def _catch(self, words: Sequence[str]) -> str:
        if not words:
            raise TclError('wrong # args: should be "catch script ?resultVarName?"')
        try:
            result, code = self.run(words[0]), "0"
        except TclError as error:
            result, code = str(error), "1"
        if len(words) > 1:
            self.variables[words[1]] = result
        return code

    def _proc(self, words: Sequence[str]) -> str:
        if len(words) != 3 or words[1].strip():
            raise TclError("only procedures without arguments are known to the stand-in")
        self._procedures[words[0]] = words[2]
        return ""

    def _echo(self, words: Sequence[str]) -> str:
        self._say(" ".join(word for word in words if word != "-n"))
        return ""

    def _info(self, words: Sequence[str]) -> str:
        if len(words) != 2 or words[0] != "exists":
            raise TclError(f'bad subcommand "{" ".join(words)}"')
        return "1" if words[1] in self.variables else "0"


def _closing(script: str, at: int, opens: str, closes: str) -> int:
    """Where what opens at ``at`` closes."""
    depth = 0
    for place in range(at, len(script)):
        if script[place] == opens:
            depth += 1
        elif script[place] == closes:
            depth -= 1
            if depth == 0:
                return place
    raise TclError(f"unmatched {opens!r}")
