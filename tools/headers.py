"""Reads the headers of include/shoal: the public functions, and what their comments say of them.

How a comment is written, which stands above a function:

    /// The mean of the elements, as a float. Sentences that begin with "Throws" say what is thrown, and when.
    /// @param x An array or a number; one such line for each parameter.
    /// @return An array without the dimensions that are reduced.
    /// @example mean(array({1, 2, 4, 5}))
    ///   3.0

- A parameter that means the same in many functions is said once, by a line `// @param` at the beginning of the file or
  of a section (`// ---- Name.`), for all functions after it there. So may be `// @return` and sentences with Throws.
- The parameter `options` needs no line: each member of its struct has its comment.
- Functions of one name have one comment. Several that follow each other may share a comment of two slashes.
- An example is an expression, after statements with `@example auto x = …`; what it prints stands below it, indented. It
  is written for Python by itself; a line `@python` says how where that is not right.
"""

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include" / "shoal"


@dataclasses.dataclass
class Example:
    cpp: list[str] = dataclasses.field(default_factory=list)
    python: list[str] = dataclasses.field(default_factory=list)
    printed: str = ""


@dataclasses.dataclass
class Doc:
    text: str = ""  # Paragraphs, with empty lines between them.
    params: dict[str, str] = dataclasses.field(default_factory=dict)
    returns: str = ""
    throws: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # The error's class, and when.
    examples: list[Example] = dataclasses.field(default_factory=list)

    def is_empty(self):
        return not (self.text or self.params or self.returns or self.examples)


@dataclasses.dataclass
class Parameter:
    name: str
    type: str
    default: str = ""


@dataclasses.dataclass
class Function:
    name: str
    namespace: str  # "shoal::lax".
    signature: str
    parameters: list[Parameter]
    doc: Doc
    common: Doc  # What its section and its file say of all functions.
    header: str
    line: int


@dataclasses.dataclass
class Member:
    name: str
    declaration: str
    text: str


@dataclasses.dataclass
class Struct:
    name: str
    namespace: str
    doc: Doc
    members: list[Member]
    header: str
    is_open: bool = True  # Whether what comes next in it is public.


@dataclasses.dataclass
class Headers:
    functions: list[Function]
    structs: dict[str, Struct]  # By "shoal::lax::GroupOptions".

    def options_of(self, function):
        """The struct of the parameter that is a struct of options, or None."""
        for parameter in function.parameters:
            if parameter.name == "options":
                return self.struct(parameter.type, function.namespace)
        return None

    def result_of(self, function):
        """The struct that a function returns, or None."""
        plain = without_template(function.signature)
        before = plain[: DECLARED.search(plain).start()]
        return self.struct(re.sub(r"\b(?:inline|constexpr)\b", "", before), function.namespace)

    def struct(self, type_text, namespace):
        name = re.sub(r"^const\s+|[&*\s]+$", "", type_text.strip())
        while True:
            found = self.structs.get(f"{namespace}::{name}")
            if found is not None or "::" not in namespace:
                return found
            namespace = namespace.rpartition("::")[0]


# ---- Comments.

TAG = re.compile(r"@(param|return|throws|example|python)\b\s*(.*)")
ERROR = r"(?:InvalidArgument|IndivisibleError|DuplicateSpecError|ShardingTypeError|UnboundAxisError|TypeMismatch|" \
        r"KeyReuseError|OutOfRange|InvalidState|Unsupported|OutOfMemory|DistributedError|Disagreement|ProcessFailed|" \
        r"DeadlineExceeded|CheckpointError|Error)"
SENTENCE = re.compile(r"(?<=[.!])\s+(?=[A-Z0-9`-])")
THROWN = re.compile(rf"\b({ERROR})\b")


def sentences(paragraph):
    return SENTENCE.split(paragraph)


def thrown_by(sentence):
    """The classes that a sentence with Throws names, each with when: "Throws A if b, and C for d." """
    text = re.sub(r"^(?:Calls throw|Functions throw|Throws?)\s+", "", sentence).rstrip(".")
    parts, last = [], 0
    for match in THROWN.finditer(text):
        if match.start() > 0 and not re.search(r"(?:^|[,;] (?:and |or )?|\band |\bor )$", text[: match.start()]):
            continue
        if parts:
            parts[-1] = (parts[-1][0], text[last : match.start()])
        parts.append((match[1], ""))
        last = match.end()
    if not parts:
        return []
    parts[-1] = (parts[-1][0], text[last:])
    found, when = [], ""
    for error, text in reversed(parts):  # "A and B if b" is A if b, too.
        when = re.sub(r"[,;]?\s*\b(?:and|or)?\s*$", "", text).strip(" ,;") or when
        found.insert(0, (error, when))
    return found


def without_throws(text):
    """The text without its sentences with Throws, and what they say."""
    paragraphs, thrown = [], []
    for paragraph in text.split("\n\n"):
        kept = []
        for sentence in sentences(paragraph):
            found = thrown_by(sentence) if re.match(r"(?:Throws?|Calls throw)\b", sentence) else []
            thrown += found
            if not found:
                kept.append(sentence)
        if kept:
            paragraphs.append(" ".join(kept))
    return "\n\n".join(paragraphs), thrown


def read_comment(lines):
    """What the lines of a comment, without their slashes, say."""
    doc, text, tag, name = Doc(), [], None, ""
    for line in lines:
        stripped = line.strip()
        match = TAG.match(stripped)
        if match:
            tag, rest = match[1], match[2]
            if tag == "param":
                name, _, rest = rest.partition(" ")
                doc.params[name] = rest.strip()
            elif tag == "return":
                doc.returns = rest
            elif tag == "throws":
                error, _, when = rest.partition(" ")
                doc.throws.append((error, when))
            elif tag == "example":
                if not doc.examples or not doc.examples[-1].cpp[-1].startswith("auto "):
                    doc.examples.append(Example())
                doc.examples[-1].cpp.append(rest)
            else:
                doc.examples[-1].python.append(rest)
        elif tag in ("example", "python") and line.startswith("   "):
            doc.examples[-1].printed += line[3:] + "\n"
        elif not stripped:
            tag = None
            text.append("")
        elif tag == "param":
            doc.params[name] += " " + stripped
        elif tag == "return":
            doc.returns += " " + stripped
        elif tag == "throws":
            error, when = doc.throws[-1]
            doc.throws[-1] = (error, when + " " + stripped)
        else:
            tag = None
            text.append(stripped)
    joined = re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(text).strip())
    doc.text, thrown = without_throws(re.sub(r"\n{2,}", "\n\n", joined))
    doc.throws += [one for one in thrown if one not in doc.throws]
    return doc


def together(outer, inner):
    """What is said of all functions of a file, and of those of one of its sections."""
    return Doc(inner.text, outer.params | inner.params, inner.returns or outer.returns, outer.throws + inner.throws)


# ---- Declarations.


def split_outside(text, separator=","):
    """The parts between commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for i, character in enumerate(text):
        if character in "(<[{":
            depth += 1
        elif character in ")]}" or (character == ">" and text[i - 1] != "-"):
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


def without_template(text):
    text = text.strip()
    while text.startswith("template"):
        depth, i = 0, text.index("<")
        while True:
            depth += {"<": 1, ">": -1}.get(text[i], 0)
            i += 1
            if depth == 0:
                break
        text = text[i:].strip()
        if text.startswith("requires"):
            i = text.index("(")
            depth = 0
            while True:
                depth += {"(": 1, ")": -1}.get(text[i], 0)
                i += 1
                if depth == 0:
                    break
            text = text[i:].strip()
    return text


DECLARED = re.compile(r"([A-Za-z_]\w*)\s*\(")


def function_of(text):
    """The name and the parameters of a declaration, or None."""
    plain = without_template(text)
    match = DECLARED.search(plain)
    if match is None or "operator" in plain[: match.end()] or "=" in plain[: match.start()]:
        return None
    if plain[: match.start()].endswith("::"):  # What a class or a part below it declares elsewhere.
        return None
    if match[1] in ("requires", "static_assert", "decltype") or plain.startswith(("friend", "using", "typedef")):
        return None
    depth, i = 0, match.end() - 1
    while i < len(plain):
        depth += {"(": 1, ")": -1}.get(plain[i], 0)
        if depth == 0:
            break
        i += 1
    parameters = []
    for part in split_outside(plain[match.end() : i]):
        declared, default = part, ""
        depth = 0
        for j, character in enumerate(part):
            depth += {"(": 1, "<": 1, "{": 1, ")": -1, ">": -1, "}": -1}.get(character, 0)
            if character == "=" and depth == 0:
                declared, default = part[:j].strip(), part[j + 1 :].strip()
                break
        inner = re.search(r"\(\s*[&*]?\s*(\w+)\s*\)|([A-Za-z_]\w*)$", declared)
        name = (inner[2] or inner[1]) if inner else ""
        if name and (declared != name):
            parameters.append(Parameter(name, declared[: declared.rindex(name)].strip(), default))
    return match[1], parameters


class Reader:
    """One pass over a header."""

    def __init__(self, path):
        self.path = path
        self.functions, self.structs = [], {}
        self.file_doc, self.section = Doc(), Doc()
        self.scopes = []  # ("namespace", "lax"), ("struct", Struct) or ("skip", None).
        self.pending, self.group = [], []
        self.latest = None  # The function above, if a comment after it can be its own.
        self.trailing, self.trailing_of = "", None

    def namespace(self):
        return "::".join(name for kind, name in self.scopes if kind == "namespace")

    def is_public(self):
        return all(kind == "namespace" and "detail" not in name for kind, name in self.scopes) and self.scopes

    def read(self):
        lines = self.path.read_text(encoding="utf-8").split("\n")
        head = [line[3:] if line.startswith("// ") else "" for line in lines[: lines.index("#pragma once")]] \
            if "#pragma once" in lines else []
        self.file_doc = read_comment(head)
        statement, depth, begin = "", 0, 0
        i = len(head)
        in_macro = False
        while i < len(lines):
            line = lines[i]
            stripped = line.strip()
            i += 1
            if in_macro or stripped.startswith("#"):
                in_macro = stripped.endswith("\\")
                continue
            if not statement.strip():
                if not stripped:
                    self.pending, self.group = [], []
                    continue
                if stripped in ("public:", "protected:", "private:"):
                    self.scopes[-1][1].is_open = stripped == "public:"
                    continue
                if stripped.startswith("///<"):
                    self.add_trailing(stripped[4:].strip())
                    continue
                if stripped.startswith("///"):
                    if self.group:
                        self.group = []
                    self.pending.append(stripped[3:])
                    continue
                if stripped.startswith("// ----"):
                    section = [re.sub(r"^// -+ ?", "", stripped)]
                    while i < len(lines) and lines[i].strip().startswith("//") and not lines[i].strip().startswith("///"):
                        section.append(re.sub(r"^// ?(?:-+ )?", "", lines[i].strip()))
                        i += 1
                    self.section = read_comment(section)
                    self.pending, self.group = [], []
                    continue
                if stripped.startswith("//"):
                    self.group.append(stripped[2:])
                    continue
                begin = i
            code, trailing = self.cut_comment(line)
            macro = re.fullmatch(r"SHOAL_(?:OF_ARGUMENTS|\w+)\((\w+)[^;]*\)", code.strip())
            if not statement and macro and self.is_public():
                if code.strip().startswith("SHOAL_OF_ARGUMENTS"):
                    self.emit(f"template <class F, class... Args> auto {macro[1]}(F f, const Args&... args)", begin)
                continue
            for character in code + "\n":
                if character == "{" and depth == 0:
                    head_text = statement.strip()
                    if self.opens(head_text):
                        statement = ""
                        continue
                    depth = 1
                    statement += character
                elif character in "({[":
                    depth += 1
                    statement += character
                elif character in ")}]":
                    if depth == 0:
                        self.closes()
                        statement = ""
                        continue
                    depth -= 1
                    statement += character
                    if depth == 0 and character == "}" and self.is_body(statement):
                        self.emit(statement, begin)
                        statement = ""
                    elif depth == 0 and "".join(statement.split()) == "{}":  # After a list of braced members.
                        statement = ""
                elif character == ";" and depth == 0:
                    self.emit(statement, begin)
                    statement = ""
                else:
                    statement += character
            if not statement.strip():
                statement = ""
            if trailing is not None and not statement:
                self.add_trailing(trailing)
        return self

    @staticmethod
    def cut_comment(line):
        """The code of a line, and the text of its comment that begins with ///<."""
        in_string = False
        for j in range(len(line) - 1):
            if line[j] == '"' and (j == 0 or line[j - 1] != "\\"):
                in_string = not in_string
            if not in_string and line[j : j + 2] == "//":
                comment = line[j:]
                return line[:j], comment[4:].strip() if comment.startswith("///<") else None
        return line, None

    def opens(self, text):
        match = re.match(r"(?:inline )?namespace ([\w:]*)", text)
        if match:
            self.scopes.append(("namespace", match[1] or "detail"))
            self.pending, self.group = [], []
            return True
        plain = without_template(text) if text.startswith("template") else text
        match = re.match(r"(struct|class|enum(?: class)?|union|extern) ", plain)
        if match and "(" not in plain.replace("requires(", ""):
            name = re.match(r"(?:struct|class|enum(?: class)?|union|extern) (?:\[\[nodiscard\]\] )?(\w+)", plain)
            struct = Struct(name[1] if name else "", self.namespace(), self.take_doc(), [], self.path.name,
                            match[1] != "class")
            if self.is_public() and match[1] == "struct":
                self.structs[f"{self.namespace()}::{struct.name}"] = struct
            self.scopes.append(("struct", struct))
            return True
        return False

    def closes(self):
        if self.scopes:
            self.scopes.pop()
        self.pending, self.group = [], []

    @staticmethod
    def is_body(statement):
        """Whether what has just been closed is a function's body, not the braces of a value."""
        plain = without_template(statement.strip())
        opened = plain.index("{") if "{" in plain else 0
        before = plain[:opened].rstrip()
        # The braces of a default are inside the parentheses; those of a member come after its name or "=".
        depth = 0
        for j, character in enumerate(plain):
            if character == "(":
                depth += 1
            elif character == ")":
                depth -= 1
            elif character == "{" and depth == 0:
                before = plain[:j].rstrip()
                break
        return "(" in before and not before.endswith("=")

    def take_doc(self):
        lines = self.pending or self.group
        self.pending = []
        return read_comment(lines)

    def emit(self, statement, line):
        text = " ".join(statement.split())
        if not text or text in ("public:", "private:"):
            return
        text = re.sub(r"^(?:public|private|protected):\s*", "", text)
        kind, struct = self.scopes[-1] if self.scopes else ("namespace", "")
        if kind == "struct":
            pending = self.take_doc()
            self.latest = None
            found = function_of(self.head_of(text))
            outer = self.scopes[:-1]
            is_seen = struct.is_open and all(one == "namespace" and "detail" not in name for one, name in outer)
            if found and is_seen and "~" not in text and "= delete" not in text and "= default" not in text:
                self.latest = Function(f"{struct.name}::{found[0]}", self.namespace(), self.head_of(text), found[1],
                                       pending, together(self.file_doc, self.section), self.path.name, line)
                self.functions.append(self.latest)
                return
            if "(" not in text.split("=")[0].split("{")[0]:
                match = re.match(r"(.*?)([A-Za-z_]\w*)\s*(?:=.*|\{.*)?$", text)
                if match and not text.startswith(("using", "friend", "enum", "static")):
                    struct.members.append(Member(match[2], text, pending.text))
            return
        doc = self.take_doc()
        found = function_of(self.head_of(text))
        self.latest = None
        if found is None or not self.is_public():
            return
        function = Function(found[0], self.namespace(), self.head_of(text), found[1], doc,
                            together(self.file_doc, self.section), self.path.name, line)
        self.functions.append(function)
        self.latest = function

    @staticmethod
    def head_of(text):
        """A declaration without its body."""
        depth = 0
        for j, character in enumerate(text):
            if character in "(":
                depth += 1
            elif character in ")":
                depth -= 1
            elif depth == 0 and (character == "{" or (character == ":" and text[:j].rstrip().endswith(")"))):
                return text[:j].rstrip()
        return text

    def add_trailing(self, text):
        """What a comment after a declaration says of it."""
        kind, struct = self.scopes[-1] if self.scopes else ("namespace", "")
        if kind == "struct" and self.latest is None:
            if struct.members:
                member = struct.members[-1]
                member.text = f"{member.text} {text}".strip()
        elif self.latest is not None:
            last = self.latest
            self.trailing = f"{self.trailing} {text}" if self.trailing_of is last else text
            self.trailing_of = last
            last.doc = read_comment([self.trailing])


ROW = re.compile(r'^SHOAL_(UNARY|BINARY)\((\w+), (\w+), (\w+), "((?:[^"\\]|\\.)*)"', re.MULTILINE)
KINDS = {
    "kAny": "Of any dtype.",
    "kAnyOrKey": "Of any dtype, also keys of random numbers.",
    "kNumbers": "Of any dtype but bool.",
    "kArithmetic": "Of any dtype; bool counts as i32.",
    "kFractions": "Of any dtype: integers of 64 bits are taken as f64, other integers and bool as f32.",
    "kFloats": "Of real floats: integers of 64 bits are taken as f64, other integers and bool as f32.",
    "kReals": "Of real numbers.",
    "kOrdered": "Of real numbers, or bool.",
    "kCounts": "Of real numbers; bool counts as i32.",
    "kIntegers": "Of integers; bool counts as i32.",
    "kBits": "Of integers, or bool.",
}
RESULTS = {
    "kSame": "of the dtype that {} promoted to",
    "kBool": "of bool",
    "kReal": "of the dtype that {} promoted to, for complex numbers of the real one",
}


def elementwise_functions(text):
    """The rows of elementwise.def: all that is said of them follows from their columns."""
    functions = []
    for match in ROW.finditer(text):
        arity, name, kind, result, sentence = match.groups()
        is_binary = arity == "BINARY"
        names = ["x", "y"] if is_binary else ["x"]
        of = KINDS.get(kind, "")
        params = {"x": f"An array or a number. {of}".strip()}
        if is_binary:
            params["y"] = "The same, of a shape that broadcasts with that of x."
        shape = "An array of the shape to which both broadcast" if is_binary else "An array of the shape of x"
        returns = f"{shape}, {RESULTS[result].format('both are' if is_binary else 'it is')}."
        throws = [] if kind in ("kAny", "kAnyOrKey", "kArithmetic", "kFractions") else \
            [("TypeMismatch", "for other dtypes")]
        if is_binary:
            throws.append(("InvalidArgument", "for shapes that do not broadcast"))
        doc = Doc(sentence.replace('\\"', '"'), params, returns, throws)
        declared = f"Array {name}({', '.join(f'const Operand& {one}' for one in names)})"
        parameters = [Parameter(one, "const Operand&") for one in names]
        line = text[: match.start()].count("\n") + 1
        functions.append(Function(name, "shoal", declared, parameters, doc, Doc(), "elementwise.def", line))
    return functions


def read_headers(include=INCLUDE):
    functions, structs = [], {}
    for path in sorted(include.glob("*.h")):
        reader = Reader(path).read()
        functions += reader.functions
        structs |= reader.structs
    functions += elementwise_functions((include / "elementwise.def").read_text(encoding="utf-8"))
    # Functions of one name share what the first of them says, as far as they say nothing themselves.
    first = {}
    for function in functions:
        key = (function.namespace, function.name)
        if key in first and function.doc.is_empty():
            function.doc = first[key].doc
        elif not function.doc.is_empty():
            first.setdefault(key, function)
    return Headers(functions, structs)


def errors_of_python(include=INCLUDE):
    """The exceptions of Python that those of error.h are: {"InvalidArgument": "ValueError"...}."""
    text = (include / "error.h").read_text(encoding="utf-8")
    found = {"Error": "Exception"}
    for comment, name, base in re.findall(r"((?:///[^\n]*\n)+)class (\w+) : public ([\w:]+)", text):
        match = re.search(r"\(Python: (\w+)\)", comment)
        found[name] = match[1] if match else found.get(base, "RuntimeError")
    found.setdefault("CheckpointError", "OSError")
    return found


if __name__ == "__main__":
    headers = read_headers()
    print(len(headers.functions), len(headers.structs))
