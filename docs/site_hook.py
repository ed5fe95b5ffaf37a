"""Hook of MkDocs: takes files outside ``docs`` into the site, so that every link of the repository works there.

Each Markdown file of ``PAGES`` becomes a page. So does every other file that a page links to: as its source, or as a
list of files if it is a folder. Links are rewritten from the repository's paths to those of the site. The search has no
sources. ``llms.txt`` lists the pages for language models.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
#: Path in the repository → path in the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "core/README.md": "plugins/core.md",
    "examples/README.md": "examples/index.md",
    "examples/plugin/README.md": "examples/plugin.md",
    "examples/estimator/README.md": "examples/estimator.md",
    "tests/mutants/README.md": "mutants.md",
    **{
        f"plugins/{each.parent.name}/README.md": f"plugins/{each.parent.name}.md"
        for each in ROOT.glob("plugins/*/README.md")
    },
}
#: URI in the site → what `make docs` has fetched: the first draws the diagrams, and only pages with one load it; the
#: second lets the search run from a disk.
SCRIPTS = {
    f"assets/javascripts/{name}": ROOT / ".venv" / "docs" / name for name in ("mermaid.min.js", "iframe-worker.js")
}
_MERMAID_URI, _ = SCRIPTS
_LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".sh": "sh"}
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: What a fence says to the tests; MkDocs would not take it for a fence.
_NOT_RUN = re.compile(r'^(```+\w+) not_run=".*"$', re.MULTILINE)
#: Pages whose tables need the whole width.
_HIDDEN = {
    "conformance.md": ["navigation"],
    "mutants.md": ["navigation", "toc"],
    "operators.md": ["navigation"],
    "troubleshooting.md": ["navigation"],
}
#: A diagram with more arrows keeps its natural size.
_MANY_ARROWS = 20
#: Code that is one long word, and where it may break: otherwise it makes columns of tables wide.
_LONG_CODE = re.compile(r"<code>([\w./=-]{20,})</code>")
_BREAKS = re.compile(r"(?<=[._/=])(?=\w)")
_FENCE = re.compile(r"^([ \t]*)(```+|~~~+).*?^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=\))")


class _Site:
    """What the site has of the repository."""

    def __init__(self, files: Files) -> None:
        self.uris = {f"docs/{file.src_uri}": file.src_uri for file in files} | PAGES
        self.paths = {uri: path for path, uri in self.uris.items()}
        self.texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in self.uris if path.endswith(".md")}
        waiting = list(self.texts)
        for path in waiting:
            for target, _ in _links(self.texts[path]):
                file = self.of(path, target)
                if file not in self.uris and (ROOT / file).exists():
                    self.uris[file] = f"source/{file}.md"
                    self.paths[f"source/{file}.md"] = file
                    self.texts[file] = _source(file)
                    waiting.append(file)

    def of(self, page: str, target: str) -> str:
        """The path in the repository of a page's link."""
        base = page if (ROOT / page).is_dir() else posixpath.dirname(page)
        path = posixpath.normpath(posixpath.join(base, target))
        return f"{path}/README.md" if (ROOT / path / "README.md").exists() else path

    def rewritten(self, text: str, uri: str) -> str:
        """A page's text with links to the site's own pages."""
        page = self.paths[uri]

        def rewrite(match: re.Match[str]) -> str:
            target = self.uris.get(self.of(page, match[1]))
            if target is None:
                return match[0]  # MkDocs reports it
            return posixpath.relpath(target, posixpath.dirname(uri) or ".") + (match[2] or "")

        return _outside_fences(text, lambda part: _LINK.sub(rewrite, part))


def _outside_fences(text: str, change: Any) -> str:
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def _links(text: str) -> list[tuple[str, str]]:
    return _LINK.findall(_FENCE.sub("", text))


def _source(path: str) -> str:
    """A page that shows a file, or lists the files of a folder."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(each.name for each in file.iterdir() if each.suffix in _LANGUAGES and each.name != "__init__.py")
        return f"# `{path}`\n\n" + "\n".join(f"- [{name}]({name})" for name in names)
    text = file.read_text(encoding="utf-8")
    fence = "````" if "```" in text else "```"
    return f"# `{path}`\n\n{fence}{_LANGUAGES.get(file.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"


_site: _Site
_nav: Any


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of files outside ``docs``."""
    global _site
    _site = _Site(files)
    for path, uri in _site.uris.items():
        if files.get_file_from_path(uri) is None:
            level = InclusionLevel.INCLUDED if path in PAGES else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, uri, content=_site.texts[path], inclusion=level))
    for uri, script in SCRIPTS.items():
        if script.exists():
            files.append(File.generated(config, uri, abs_src_path=os.fspath(script)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite the links, the indentation of lists, the fences and the boxes of diagrams."""
    page.meta["hide"] = _HIDDEN.get(page.file.src_uri, [])
    if page.file.src_uri.startswith("source/"):
        page.meta["search"] = {"exclude": True}
    page.edit_url = edit_url(config.repo_url, config.extra["edit_path"], _site.paths[page.file.src_uri])
    markdown = _NOT_RUN.sub(r"\1", _indented(_site.rewritten(markdown, page.file.src_uri)))
    return _MERMAID.sub(_diagram, markdown)


def edit_url(repo_url: str | None, edit_path: str, path: str) -> str | None:
    """The address at which a file of the repository is edited; ``None`` without the repository's address."""
    return f"{repo_url.rstrip('/')}/{edit_path.strip('/')}/{path}" if repo_url else None


def _diagram(match: re.Match[str]) -> str:
    """A diagram in a box in which it scrolls, because shrunk to the width of a phone nobody can read it (site.css)."""
    kind = "diagram large" if match[1].count("-->") > _MANY_ARROWS else "diagram"
    return f'<div class="{kind}" markdown>\n\n{match[0]}\n\n</div>'


def _indented(markdown: str) -> str:
    """What belongs to a numbered item, indented by four spaces: fewer end the list for MkDocs, and only there."""
    lines, is_in_item = list[str](), False
    for line in markdown.split("\n"):
        if re.match(r"\d+\. ", line):
            if is_in_item and lines[-1].startswith("    "):
                lines.append("")
            is_in_item = True
        elif line and not line.startswith("   "):
            is_in_item = False
        elif line and is_in_item:
            line = f" {line}"
        lines.append(line)
    return "\n".join(lines)


def on_nav(nav: Any, **_: Any) -> Any:
    """Keep the navigation for ``llms.txt``."""
    global _nav
    _nav = nav
    return nav


def on_post_build(config: Any, **_: Any) -> None:
    """Write ``llms.txt``."""
    text = llms_txt(
        config.site_name,
        config.site_description,
        [
            (section.title, [_entry(page, config.site_url or "") for page in _pages_below(section)])
            for section in _nav.items
        ],
    )
    (Path(config.site_dir) / "llms.txt").write_text(text, encoding="utf-8")


def _entry(page: Any, base: str) -> tuple[str, str, str]:
    """Title, address and opening sentence of a page."""
    return page.title, base + page.url, opening(_site.texts[_site.paths[page.file.src_uri]])


def _pages_below(item: Any) -> list[Any]:
    if item.is_page:
        return [item]
    return [page for child in item.children or () for page in _pages_below(child)]


def llms_txt(name: str, description: str, groups: list[tuple[str, list[tuple[str, str, str]]]]) -> str:
    """The pages as the format llms.txt has them: a title, a summary, and a list of links for each group.

    Args:
        name: name of the site.
        description: its summary, one sentence.
        groups: title of each group, with the title, address and opening sentence of each page.
    """
    lines = [f"# {name}", "", f"> {description}"]
    for title, pages in groups:
        lines += ["", f"## {title}", ""]
        lines += [f"- [{page}]({url})" + (f": {summary}" if summary else "") for page, url, summary in pages]
    return "\n".join(lines) + "\n"


def opening(text: str) -> str:
    """The first sentence of a page, as plain text; empty for a page that does not begin with a paragraph."""
    text = re.sub(r"^---\n.*?\n---\n", "", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", _FENCE.sub("", text)):
        words = " ".join(paragraph.split())
        if not re.match(r"[A-Za-z*`\[]", words):
            continue
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("**", "")
        return re.split(r"(?<=[.!?])\s", plain, maxsplit=1)[0]
    return ""


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Let long names break after dots and the like; load what draws diagrams where there are some."""
    output = _LONG_CODE.sub(lambda match: f"<code>{_BREAKS.sub('<wbr>', match[1])}</code>", output)
    if 'class="mermaid"' not in output:
        return output
    script = posixpath.relpath(_MERMAID_URI, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</body>", f'<script src="{script}"></script></body>')
