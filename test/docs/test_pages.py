# SPDX-License-Identifier: Apache-2.0
"""What the pages say holds: links lead somewhere, commands have the options shown, messages are those of the tools."""

import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BY_HAND = [page for page in PAGES if "<!-- Generated from" not in page.read_text()]

# Messages of the tools that ftlm is installed and built with.
FOREIGN = {"Unable to locate package libmlir-22-dev", 'Could not find a configuration file for package "MLIR"'}


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    # A rationale becomes the beginning of a page in the same folder.
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{name(page)} links to {target}, which is not there"


def test_every_page_can_be_reached_from_the_readme():
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        todo += [(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text())]
    missing = [name(page) for page in PAGES if page not in seen and not page.name.endswith(".rationale.md")]
    assert not missing


def help_of(*command):
    return subprocess.run([str(ROOT / "build" / "bin" / command[0]), *command[1:], "--help"], capture_output=True, text=True,
                          check=True).stdout


def commands(page):
    """The ftlmc and ftlm-run commands in a page's shell examples, as lists of words."""
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), flags=re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and pathlib.Path(words[0]).name in ("ftlmc", "ftlm-run"):
                yield [pathlib.Path(words[0]).name, *words[1:]]


@pytest.mark.parametrize("page", [page for page in BY_HAND if list(commands(page))], ids=name)
def test_commands_have_the_options_shown(page):
    for words in commands(page):
        program = words[:2] if words[0] == "ftlm-run" else words[:1]
        known = set(re.findall(r"--[a-z][\w-]*", help_of(*program)))
        used = {word.split("=")[0] for word in words if re.match(r"--[a-z]", word)}
        assert used <= known | {"--version"}, f"{name(page)}: {' '.join(words)}: no option {used - known}"


def test_troubleshooting_quotes_messages_of_the_tools():
    # Literals that stand behind one another are one text; \" is ".
    text = "\n".join(file.read_text() for folder in ("compiler", "dialects", "runtime", "schema", "tools")
                     for file in sorted((ROOT / folder).rglob("*")) if file.is_file() and file.suffix in (".cpp", ".h", "", ".sh"))
    text = re.sub(r'"\s*\n\s*"', "", text).replace('\\"', '"')
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "troubleshooting.md").read_text(), flags=re.M)
    quotes = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row)]
    assert len(quotes) > 15
    for quote in quotes:
        if quote in FOREIGN:
            continue
        # Numbers, dtypes and dots stand for what differs from case to case.
        for part in re.split(r"\d+|<\w+|\.\.\.", quote):
            assert part.strip() in text, f"no tool says {part.strip()!r} (of {quote!r})"
