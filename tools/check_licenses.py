#!/usr/bin/env python3
"""Checks that the code of others that Shoal contains has its licence in licenses/ and its line in NOTICE.

  check_licenses.py               what sources include
  check_licenses.py LINKED        also what is linked: FILE lists a target and its libraries per line, with commas
  check_licenses.py --self-test   checks itself

A library that is not known, a licence that nothing needs and a line missing in NOTICE are errors.
"""

import pathlib
import re
import sys

# What is contained: the file in licenses/, the headers that are its, and the libraries as they are linked.
CONTAINED = {
    "Boost": (r"boost/", r"Boost::headers"),
    "CLI11": (r"CLI/", r"CLI11::CLI11"),
    "fmt": (r"fmt/", r"fmt::fmt"),
    "Highway": (r"hwy/", r"hwy::hwy(_contrib)?"),
    "LAPACK": (r"cblas\.h", r".*/libopenblas\.a"),
    "LLVM": (r"llvm/", r"LLVM\w+"),
    "OpenBLAS": (r"cblas\.h", r".*/libopenblas\.a"),
    "libsodium": (r"sodium\.h", r".*/libsodium\.(a|so)"),
    "nanobind": (r"nanobind/", r"nanobind.*"),
    "nlohmann-json": (r"nlohmann/", r"nlohmann_json::nlohmann_json"),
    "robin-map": (r"nanobind/", r"nanobind.*"),
    "xxHash": (r"xxhash\.h", None),
}
# What the system has, as shared libraries, the compiler's own and Shoal's.
NOT_CONTAINED = (r"(oneapi/)?dnnl|mpi\.h|Python\.h|gtest/|gmock/",
                 r".*/libdnnl\.so|.*/libmpi\.so|Threads::Threads|OpenMP::OpenMP_CXX|dl|m|shoal|shoal_flags|shoal::shoal")
# Headers of C++, C and the system.
SYSTEM = re.compile(r"[a-z_0-9]+|(sys|net|netinet|arpa|linux)/.*|[a-z_0-9]+intrin\.h|[a-z_0-9]+\.h")

INCLUDE = re.compile(r"\s*#\s*include\s*<([^>]+)>")
FOLDERS = ["src", "include", "tools/shoal", "python/bindings"]
SYSTEM_HEADERS_OF_OTHERS = re.compile(r"sodium\.h|xxhash\.h|cblas\.h|mpi\.h|dnnl.*")


def included(root):
    """The headers in angle brackets, each with a file that includes it."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".h", ".cc", ".inc"} and not path.name.endswith("_test.cc"):
                for line in path.read_text(encoding="utf-8").splitlines():
                    if match := INCLUDE.match(line):
                        found.setdefault(match[1], path.relative_to(root).as_posix())
    return found


def linked(text):
    """The libraries of a list, each with a target that links it."""
    found = {}
    for line in text.splitlines():
        target, *libraries = [word for word in re.split(r"[,;\s]+", line) if word]
        for library in libraries:
            wrapped = re.fullmatch(r"\$<(?:LINK_ONLY|BUILD_INTERFACE):(.*)>", library)
            found.setdefault(wrapped[1] if wrapped else library, target)
    return found


def check(headers, libraries, licenses, notice):
    """The complaints about what is contained."""
    lines, used = [], set()
    for header, file in sorted(headers.items()):
        owners = {name for name, (pattern, _) in CONTAINED.items() if re.match(pattern, header)}
        used |= owners
        is_system = SYSTEM.fullmatch(header) and not SYSTEM_HEADERS_OF_OTHERS.fullmatch(header)
        if not owners and not is_system and not re.match(NOT_CONTAINED[0] + "|shoal/", header):
            lines.append(f"{file} includes <{header}>, whose licence tools/check_licenses.py does not know")
    for library, target in sorted(libraries.items()):
        owners = {name for name, (_, pattern) in CONTAINED.items() if pattern and re.fullmatch(pattern, library)}
        used |= owners
        if not owners and not re.fullmatch(NOT_CONTAINED[1], library):
            lines.append(f"{target} links {library}, whose licence tools/check_licenses.py does not know")
    for name in sorted(set(CONTAINED) - used):
        lines.append(f"nothing contains {name} any more; take it from tools/check_licenses.py, licenses/ and NOTICE")
    for name in sorted(used):
        if name not in licenses:
            lines.append(f"licenses/{name}.txt is missing")
        if not re.search(rf"^  {re.escape(name)} ", notice, re.MULTILINE):
            lines.append(f"NOTICE has no line for {name}")
    for name in sorted(licenses - set(CONTAINED)):
        lines.append(f"licenses/{name}.txt belongs to nothing that Shoal contains")
    return lines


def self_test():
    notice = "".join(f"  {name}  MIT\n" for name in CONTAINED if name != "xxHash")
    headers = {"vector": "a.cc", "sys/socket.h": "a.cc", "unistd.h": "a.cc", "shoal/array.h": "a.cc", "mpi.h": "a.cc",
               "zlib/zlib.h": "b.cc"}
    headers |= {"boost/pfr.hpp": "", "CLI/CLI.hpp": "", "hwy/highway.h": "", "llvm/IR/Module.h": "", "cblas.h": "",
                "sodium.h": "", "nanobind/nanobind.h": "", "nlohmann/json.hpp": "", "xxhash.h": ""}
    libraries = linked("shoal,fmt::fmt,/usr/lib/libsodium.a,$<LINK_ONLY:shoal_flags>\n"
                       "shoal_jit,LLVMX86CodeGen,/usr/lib/libz.a\n")
    found = check(headers, libraries, set(CONTAINED) - {"Boost"} | {"zlib"}, notice)
    expected = [
        "b.cc includes <zlib/zlib.h>, whose licence tools/check_licenses.py does not know",
        "shoal_jit links /usr/lib/libz.a, whose licence tools/check_licenses.py does not know",
        "licenses/Boost.txt is missing",
        "NOTICE has no line for xxHash",
        "licenses/zlib.txt belongs to nothing that Shoal contains",
    ]
    if found != expected:
        sys.exit("\n".join(["self test failed; found:", *found, "expected:", *expected]))
    del headers["CLI/CLI.hpp"]
    if "nothing contains CLI11 any more" not in "\n".join(check(headers, libraries, set(CONTAINED), notice)):
        sys.exit("self test failed: a licence that nothing needs was not found")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(__file__).resolve().parent.parent
    libraries = linked(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")) if len(sys.argv) > 1 else {}
    licenses = {path.stem for path in (root / "licenses").glob("*.txt")}
    complaints = check(included(root), libraries, licenses, (root / "NOTICE").read_text(encoding="utf-8"))
    if complaints:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main()
