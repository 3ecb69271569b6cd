"""Text templates: what the generator writes is text with $holes, filled by a class beside it."""

import re
from string import Template


def fill(template: str, subject) -> str:
    """Holes take attributes of `subject`, methods called; a list alone on its line gives lines."""
    values = {name: getattr(subject, name) for name in Template(template).get_identifiers()}
    values = {name: v() if callable(v) else v for name, v in values.items()}
    lines = []
    for line in template.splitlines():
        alone = re.fullmatch(r"(\s*)\$(\w+)", line)
        if alone and isinstance(values[alone[2]], list):
            lines += [alone[1] + item for item in values[alone[2]]]
        else:
            lines.append(Template(line).substitute(values))
    return "\n".join(lines) + "\n"


class Emitter:
    """Writes something about a subject: a hole that the emitter does not fill, the subject does."""

    def __init__(self, subject):
        self.subject = subject

    def __getattr__(self, name):
        return getattr(self.subject, name)

    def text(self) -> str:
        return fill(self.template, self)


def quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def addresses(names: list[str]) -> str:
    """{&self, &other}"""
    return "{" + ", ".join("&" + n for n in names) + "}"


def pascal(name: str) -> str:
    return "".join(p[:1].upper() + p[1:] for p in name.split("_"))
