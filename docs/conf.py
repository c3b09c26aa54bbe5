"""Settings of the documentation site, which `make docs` builds without a network.

Besides the usual settings, this file defines four steps of a build. Matplotlib draws formulas as outlines in SVG, so
the pages need no mathematical font and no script. Each build writes one reference page per package and one page per
chapter of the course. Docstrings, which are plain text with names in single backticks, are converted to
reStructuredText. Links to source files are changed to links to their pages in the site.
"""

import pkgutil
import re
from html import escape
from pathlib import Path

import numpy as np
from docutils import nodes
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.textpath import TextPath
from sphinx.addnodes import download_reference
from sphinx.transforms.post_transforms import SphinxPostTransform

import handloom
from handloom.course.chapter import chapters, with_links

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project, author, release = "handloom", "handloom's authors", handloom.__version__
copyright = author
html_title = "handloom"
html_theme = "furo"
html_show_sphinx = html_copy_source = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "outlines"
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True, "ignore-module-all": True}
autodoc_mock_imports = ["starlette", "numba", "llvmlite"]  # other optional packages are imported inside functions
add_module_names = False
toc_object_entries = False


# -- formulas ------------------------------------------------------------------------------------------------------


EM = 9.0  # height of the text, in the units of a formula's drawing
FONT = FontProperties(size=10, math_fontfamily="stix")
CLOSE = 79
SEGMENTS = {1: "M", 2: "L", 3: "Q", 4: "C", CLOSE: "Z"}  # SVG's letter for each code of a matplotlib path


def outlines(tex: str) -> str:
    """Returns a formula as an `<svg>` that is as high as the text around it and has the same baseline."""
    parsed = MathTextParser("path").parse(f"${tex}$", 72, FONT)
    path = TextPath((0, 0), f"${tex}$", prop=FONT)
    drawn = "".join(
        SEGMENTS[int(code)] + " ".join(f"{x:.2f}" for x in points * np.resize([1, -1], len(points)) if code != CLOSE)
        for points, code in path.iter_segments(simplify=False)
    )
    width, height, depth = parsed.width, parsed.height + 1, parsed.depth + 1  # margin for slanted letters
    return (
        f'<svg class="formula" role="img" aria-label="{escape(tex.strip())}" fill="currentColor" '
        f'viewBox="0 {depth - height:.2f} {width:.2f} {height:.2f}" '
        f'style="width:{width / EM:.3f}em;height:{height / EM:.3f}em;vertical-align:{-depth / EM:.3f}em">'
        f'<path d="{drawn}"/></svg>'
    )


def visit_inline(translator, node):
    translator.body.append(outlines(node.astext()))
    raise nodes.SkipNode


def visit_block(translator, node):
    text = outlines(node.astext().replace("\n", " "))
    translator.body.append(f'<div class="math" style="text-align:center;overflow-x:auto">{text}</div>\n')
    raise nodes.SkipNode


# -- the reference -------------------------------------------------------------------------------------------------


def modules() -> dict[str, list[str]]:
    """Returns the names of the modules of each package, with the package's name as key."""
    found: dict[str, list[str]] = {"handloom": []}
    for module in pkgutil.walk_packages(handloom.__path__, "handloom."):
        package = module.name.rpartition(".")[0]
        if module.ispkg:
            found[module.name] = []
        elif package == "handloom.examples":  # these are scripts, which importing could run
            continue
        elif not module.name.endswith(("__main__", "handloom.setup")):  # these are commands and the build script
            found[package].append(module.name)
    return found


def write_reference(app) -> None:
    folder = DOCS / "api"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.rst"):
        old.unlink()
    for package, names in modules().items():
        page = [package, "=" * len(package), "", f".. automodule:: {package}", ""]
        for name in names:
            page += [name, "-" * len(name), "", f".. automodule:: {name}", ""]
        (folder / f"{package}.rst").write_text("\n".join(page), encoding="utf-8")


SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")
ITEM = re.compile(r"(- |\* |\d+\. )")
CODE = re.compile(r"(`[^`]+`)")


def as_markup(app, what, name, obj, options, lines: list[str]) -> None:
    """Converts a docstring to reStructuredText.

    Indented text is kept verbatim, except in a section such as `Args:`, where the items become a list.
    """
    out: list[str] = []
    in_section = False
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        rows = block.split("\n")
        in_section = bool(SECTION.match(rows[0])) or (in_section and rows[0].startswith("    "))
        if in_section:
            out += section(rows)
        elif rows[0].startswith(" ") or sum("   " in row.strip() for row in rows) > 1:
            out += ["", "::", "", *(f"    {row}" for row in rows)]
        else:
            in_list = False
            for row in rows:
                starts = ITEM.match(row)
                if in_list != bool(starts or (in_list and row.startswith(" "))):
                    in_list = not in_list
                    out.append("")
                out.append(escaped(row if in_list else row.strip(), skip=starts.end() if starts else 0))
        out.append("")
    lines[:] = out


def section(rows: list[str]) -> list[str]:
    """Converts a section of a docstring to a list, with one item for each indented "name: text"."""
    out: list[str] = []
    for row in rows:
        heading, text = SECTION.match(row), row.strip()
        if heading:
            out += ["", f"**{heading[1]}**", ""]
        elif row.startswith("     "):
            out.append(f"  {escaped(text)}")
        else:
            name, colon, rest = text.partition(": ")
            out.append(f"* **{escaped(name)}**: {escaped(rest)}" if colon else f"* {escaped(text)}")
    return out


def escaped(row: str, skip: int = 0) -> str:
    """Returns the row with Sphinx's special characters escaped, except in code and the first `skip` characters."""
    parts = CODE.split(row[skip:])
    marked = (part if i % 2 else re.sub(r"([*|\\`]|_\b)", r"\\\1", part) for i, part in enumerate(parts))
    return row[:skip] + "".join(marked)


# -- the course ----------------------------------------------------------------------------------------------------


def write_course(app) -> None:
    """Writes one page for each chapter, from the chapter's text in the course."""
    folder = DOCS / "course"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    for chapter in chapters():
        text = with_links(chapter.text, "../..").replace("](images/", "](../../course/chapters/images/")
        (folder / f"{chapter.stem}.md").write_text(text, encoding="utf-8")


def link_chapters(app, docname, source: list[str]) -> None:
    """Changes links to the texts of chapters to links to the chapters' pages in the site."""
    source[0] = re.sub(r"\]\(\.\./course/chapters/(\w+\.md)", r"](course/\1", source[0])


# -- links to the sources ------------------------------------------------------------------------------------------


class SourceLinks(SphinxPostTransform):
    """Replaces links that download the package's Python files by links to the files' pages in the site."""

    default_priority = 5

    def run(self, **options) -> None:
        known = getattr(self.env, "_viewcode_modules", {})
        for link in list(self.document.findall(download_reference)):
            path = (DOCS / self.env.docname).parent.joinpath(link["reftarget"]).resolve()
            name = ".".join(["handloom", *path.relative_to(ROOT).with_suffix("").parts])
            if path.suffix == ".py" and name.removesuffix(".__init__") in known:
                up = "../" * self.env.docname.count("/")
                page = f"{up}_modules/{name.removesuffix('.__init__').replace('.', '/')}.html"
                link.replace_self(nodes.reference("", "", *link.children, refuri=page, internal=True))


def setup(app) -> None:
    app.add_html_math_renderer("outlines", (visit_inline, None), (visit_block, None))
    app.connect("builder-inited", write_reference)
    app.connect("builder-inited", write_course)
    app.connect("source-read", link_chapters)
    app.connect("autodoc-process-docstring", as_markup)
    app.add_post_transform(SourceLinks)
