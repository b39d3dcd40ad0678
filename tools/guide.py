#!/usr/bin/env python3
"""The programs of the guide, docs/guide: each page holds them in C++ and in Python, in pieces, each with what it prints.

    tools/guide.py --source FILE      # writes all programs in C++ as one source; what it becomes runs the one that is named
    tools/guide.py --check BINARY     # runs these, and compares what they print with the pages
    tools/guide.py --fill BINARY      # runs the programs in both languages, and writes what they print into the pages

Without pages after the options, it is for all of them. The programs in Python are compared by python/tests/test_readme.py.

How a page is read:
- A page is one program in each language, which has the name of the page: 3_partitioning.md is `partitioning`. A block
  marked `sh` begins another program; its lines say how it is run, each ending in `./NAME` or `python NAME.py`, which gives
  the program its name.
- Blocks marked `cpp` and `python` are the pieces of the program, in order. Those of C++ stand in `main`; lines that begin
  with #include stand above it.
- A block without a mark is what the piece above prints. Where a piece in C++ and one in Python follow each other, it is
  what both print. A piece without such a block prints nothing.
- `…` stands for any text within a line.
"""

import argparse
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "guide"
PIECE_ENDS = "\x1e"  # Printed by each process, on a line of its own, after each piece. ASCII calls it record separator.
LANGUAGES = {"cpp": "C++", "python": "Python"}


@dataclasses.dataclass
class Block:
    mark: str
    begin: int  # The line of the page, from 0, that follows the opening fence.
    end: int  # The line of the closing fence.
    text: str


@dataclasses.dataclass
class Piece:
    source: str
    printed: Block | None = None


@dataclasses.dataclass
class Program:
    """The pieces in one language, and the command that runs it, or "" if it is run alone."""

    name: str
    command: str = ""
    pieces: list[Piece] = dataclasses.field(default_factory=list)


def blocks_of(text):
    """The fenced blocks of a page."""
    blocks, begin, mark = [], None, ""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if begin is None:
            begin, mark = number + 1, line[3:].strip()
        else:
            blocks.append(Block(mark, begin, number, "".join(f"{one}\n" for one in lines[begin:number])))
            begin = None
    return blocks


def programs_of(page):
    """The programs of a page in both languages: {"cpp": [Program...], "python": [Program...]}."""
    programs = {language: [Program(re.sub(r"^\d+_", "", page.stem))] for language in LANGUAGES}
    before = None  # The language of the block above, or None.
    waiting = []  # Pieces whose printed text is still to come.
    for block in blocks_of(page.read_text()):
        if block.mark in LANGUAGES:
            piece = Piece(block.text)
            programs[block.mark][-1].pieces.append(piece)
            waiting = [*waiting, piece] if before == "cpp" and block.mark == "python" else [piece]
            before = block.mark
        elif block.mark == "sh":
            for line in block.text.splitlines():
                command, name = re.fullmatch(r"(.*?)(?:\./|python )(\w+)(?:\.py)?", line).groups()
                programs["python" if line.endswith(".py") else "cpp"].append(Program(name, command))
            before, waiting = None, []
        elif block.mark == "":
            if not waiting:
                raise SystemExit(f"{page}:{block.begin}: a printed text without a piece above it")
            for piece in waiting:
                piece.printed = block
            before, waiting = None, []
        else:
            raise SystemExit(f"{page}:{block.begin}: blocks are marked cpp, python or sh, not {block.mark!r}")
    return {language: [one for one in found if one.pieces] for language, found in programs.items()}


def pages():
    return sorted(FOLDER.glob("[0-9]*_*.md"), key=lambda page: int(page.stem.split("_")[0]))


# ---- C++: one source for all programs.

SOURCE = """\
// Written by tools/guide.py of the pages in docs/guide.
#include <shoal/shoal.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
{includes}
// All programs are in one file, and written as users write them: what stands in a lambda has the names of what is outside.
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

using namespace shoal;

namespace {{

// Ends a piece: what it has printed is complete.
void end_piece() {{ std::cout << "\\x1e\\n" << std::flush; }}

{functions}
}}  // namespace

int main(int, char** arguments) {{
  const std::map<std::string, void (*)()> programs{{
{table}  }};
  programs.at(arguments[1])();
}}
"""


def cpp_source(of_pages):
    includes, functions, table = [], "", ""
    for program in (one for page in of_pages for one in programs_of(page)["cpp"]):
        functions += f"void run_{program.name}() {{\n"
        number = 1
        for piece in program.pieces:
            lines = piece.source.splitlines()
            includes += [line for line in lines if line.startswith("#include") and line not in includes]
            body = "\n".join("" if line.startswith("#include") else line for line in lines)
            functions += f'#line {number} "{program.name}.cc"\n{body}\n  end_piece();\n'
            number += len(lines)
        functions += "}\n\n"
        table += f'      {{"{program.name}", run_{program.name}}},\n'
    return SOURCE.format(includes="".join(f"{line}\n" for line in includes), functions=functions, table=table)


# ---- Running.

# Runs the pieces of a Python program, each with the lines that it has in the whole.
DRIVER = """\
import guide
program = next(one for one in guide.programs_of(guide.Path({page!r}))["python"] if one.name == {name!r})
names = {{"__name__": "__main__"}}
begin = 0
for piece in program.pieces:
    exec(compile("\\n" * begin + piece.source, {name!r} + ".py", "exec"), names)
    begin += piece.source.count("\\n")
    print(guide.PIECE_ENDS, flush=True)
"""


def run(program, command, timeout):
    """What each piece of a program prints, in a folder of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "XLA_", "JAX_"))}
    environment |= {k: v for k, v in os.environ.items() if k == "SHOAL_CHECKED"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout)
    is_alone = not program.command  # What a launcher tells of a job has numbers of processes in it.
    if done.returncode != 0 or (is_alone and done.stderr):
        raise RuntimeError(f"{program.name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    text = re.sub(f"^\\[[1-9]\\d*\\] {PIECE_ENDS}\n", "", done.stdout, flags=re.MULTILINE)
    *printed, rest = re.split(f"^(?:\\[0\\] )?{PIECE_ENDS}\n", text, flags=re.MULTILINE)
    if len(printed) != len(program.pieces) or rest:
        raise RuntimeError(f"{program.name}: {len(printed)} of {len(program.pieces)} pieces were run:\n{done.stdout}")
    return printed


def run_python(page, program, shoal, timeout=180):
    """What each piece of a program in Python prints; `shoal` is the tool."""
    driver = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    driver += DRIVER.format(page=str(page.resolve()), name=program.name)
    return run(program, [*launcher(program, shoal), sys.executable, "-c", driver], timeout)


def run_cpp(program, binary, shoal, timeout=180):
    """What each piece of a program in C++ prints."""
    return run(program, [*launcher(program, shoal), binary, program.name], timeout)


def launcher(program, shoal):
    words = shlex.split(program.command)
    return [shoal if word == "shoal" else word for word in words]


def is_like(expected, printed):
    """Whether a text is what a page shows, where … stands for any text within a line."""
    return re.fullmatch("".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", expected)), printed)


def differences(program, texts):
    """What the pieces of a program print otherwise than its page shows."""
    found = []
    for piece, text in zip(program.pieces, texts, strict=True):
        expected = piece.printed.text if piece.printed else ""
        if not is_like(expected, text):
            found.append(f"{program.name}:\n{piece.source}---- prints\n{text}---- and the page shows\n{expected}")
    return found


def check_cpp(page, binary, shoal):
    """Compares what the programs of a page in C++ print with the page."""
    return [one for program in programs_of(page)["cpp"] for one in differences(program, run_cpp(program, binary, shoal))]


def fill(page, binary, shoal):
    """Writes what its programs print into a page, where it does not stand there yet."""
    lines = page.read_text().split("\n")
    new = {}
    programs = programs_of(page)
    for language, found in programs.items():
        if language == "cpp" and not binary:
            continue
        for program in found:
            texts = run_cpp(program, binary, shoal) if language == "cpp" else run_python(page, program, shoal)
            for piece, text in zip(program.pieces, texts, strict=True):
                block = piece.printed
                if block is None:
                    if text:
                        print(f"{page.name}: {LANGUAGES[language]} piece prints without a block:\n{piece.source}{text}")
                elif not is_like(block.text, text):
                    if new.get(block.begin, (block, text))[1] != text:
                        print(f"{page.name}: the languages differ:\n{new[block.begin][1]}---- {language}\n{text}")
                    new[block.begin] = (block, text)
    for block, text in sorted(new.values(), key=lambda pair: -pair[0].begin):
        lines[block.begin : block.end] = text.split("\n")[:-1]
    page.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", metavar="FILE", help="write the programs in C++")
    parser.add_argument("--fill", metavar="BINARY", help="write what programs print into the pages; '': of Python alone")
    parser.add_argument("--check", metavar="BINARY", help="compare what programs in C++ print with the pages")
    parser.add_argument("--shoal", default="shoal", help="the tool that starts programs of several processes")
    parser.add_argument("pages", nargs="*", type=Path, help="pages to fill; default: all")
    options = parser.parse_args()
    options.shoal = os.path.abspath(shutil.which(options.shoal) or options.shoal)
    if options.source:
        Path(options.source).write_text(cpp_source(options.pages or pages()))
    if options.check:
        binary = str(Path(options.check).resolve())
        found = [one for page in options.pages or pages() for one in check_cpp(page, binary, options.shoal)]
        print("\n".join(found), end="")
        sys.exit(1 if found else 0)
    if options.fill is not None:
        for page in options.pages or pages():
            fill(page, options.fill and str(Path(options.fill).resolve()), options.shoal)


if __name__ == "__main__":
    main()
