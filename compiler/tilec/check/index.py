"""The list of rules in Markdown: ``python -m tilec.check.index > docs/rules/README.md``."""

from __future__ import annotations

from .registry import BY_NAME, PAGES, Rule

_PAGES_FROM_INDEX = "../../compiler/tilec/check/pages"
_HEAD = """# Rules

`tile-lsp rule CODE` prints a rule's page. The pages lie in `compiler/tilec/check/pages`; they are part of the
package, and the tests check their examples.
Select and ignore rules by code, by the beginning of a code (`TL5`), by name or by family.
"""


def index() -> str:
    parts, family = [_HEAD], ""
    for rule in BY_NAME.values():
        if rule.family != family:
            family = rule.family
            parts.append(f"\n## {family}\n\n| code | rule | severity | what it means |\n| --- | --- | --- | --- |")
        parts.append(row(rule))
    return "\n".join(parts)


def row(rule: Rule) -> str:
    name = (
        f"[{rule.name}]({_PAGES_FROM_INDEX}/{rule.name}.md)"
        if (PAGES / f"{rule.name}.md").is_file()
        else f"`{rule.name}`"
    )
    return f"| {rule.code} | {name} | {rule.severity} | {rule.summary} |"


if __name__ == "__main__":
    print(index())
