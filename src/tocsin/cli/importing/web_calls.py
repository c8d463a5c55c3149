"""`curl` and `wget` lines as HTTP targets.

Only what keeps its meaning is taken: an option that is not known here makes the line `Unfit`, since leaving
it out would make another call of it. Credentials become secrets, under a name made from their value, so that
the same one in many lines is one secret.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote, urlencode

from tocsin.cli.importing.reading import Unfit
from tocsin.cli.importing.shell_words import read_line

_SECRET_HEADER: Final = re.compile(
    r"authorization|cookie|.*(api-?key|token|secret|password|signature).*", re.IGNORECASE
)
_FORM: Final = "application/x-www-form-urlencoded"
_HTTP: Final = re.compile(r"https?://", re.IGNORECASE)
_BY_HAND: Final = "create it by hand: tocsin jobs create --help"
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")


@dataclass
class Call:
    """An HTTP call in the making."""

    url: str | None = None
    method: str | None = None
    headers: dict[str, Any] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)
    body_type: str = _FORM
    query: bool = False
    timeout: str | None = None
    auth: dict[str, Any] | None = None
    user: str | None = None
    job: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)

    def target(self) -> dict[str, Any]:
        """The target as the API takes it."""
        if self.url is None:
            raise Unfit("it names no URL")
        url = self.url if _HTTP.match(self.url) else f"http://{self.url}"
        text = "&".join(self.body)
        if self.query and text:
            url, text = f"{url}{'&' if '?' in url else '?'}{text}", ""
        target: dict[str, Any] = {"kind": "http", "url": url}
        target["method"] = self.method or ("POST" if self.body and not self.query else "GET")
        body, headers = _body(text, self.body_type, self.headers)
        optional = {"headers": headers, "body": body, "timeout": self.timeout, "auth": self.auth}
        return target | {name: value for name, value in optional.items() if value}

    def header(self, text: str) -> None:
        """`Name: value`; a secret one is kept apart."""
        name, colon, value = (part.strip() for part in text.partition(":"))
        if not colon:
            raise Unfit(f"{text[:40]!r} is not a header")
        kind, _, credential = value.partition(" ")
        if name.lower() == "authorization" and kind.lower() == "bearer":
            self.auth = {"kind": "bearer", "token": self.secret(credential.strip())}
        elif _SECRET_HEADER.fullmatch(name):
            self.headers[name] = self.secret(value)
        else:
            self.headers[name] = value

    def login(self, text: str) -> None:
        """`user:password`."""
        username, _, password = text.partition(":")
        if not password:
            raise Unfit("it asks for a password")
        self.auth = {"kind": "basic", "username": username, "password": self.secret(password)}

    def secret(self, value: str) -> dict[str, str]:
        """A reference to a value that is stored as a secret."""
        name = secret_name(value)
        if name not in self.secrets:
            self.notes.append(f"its credential becomes the secret {name}")
        self.secrets[name] = value
        return {"secret": name}

    def wait(self, text: str) -> None:
        """How long the call may take."""
        found = _SPAN.fullmatch(text)
        if found is None:
            raise Unfit(f"{text!r} is not a number of seconds")
        self.timeout = f"{found[1]}{found[2] or 's'}"

    def tries(self, more: int, text: str) -> None:
        """How many attempts there are, if a number of tries or of retries is given."""
        if not text.isdigit():
            raise Unfit(f"{text!r} is not a number of tries")
        self.job["retry"] = {"max_attempts": max(1, min(100, int(text) + more))}

    def set_url(self, url: str) -> None:
        """Its address; one is enough for a target."""
        if self.url is not None:
            raise Unfit("it calls more than one URL", "make a job of each")
        self.url = url


_Flag = Callable[[Call], None]
_Setter = Callable[[Call, str], None]


@dataclass(frozen=True)
class _Program:
    """The options of a program: those that stand alone, and those with a value."""

    flags: Mapping[str, _Flag]
    values: Mapping[str, _Setter]

    def read(self, words: Sequence[str], call: Call) -> None:
        left = list(words)
        while left:
            word = left.pop(0)
            if word in self.flags:
                self.flags[word](call)
            elif word.startswith("--") and len(word) > 2:
                name, equals, value = word.partition("=")
                self._set(name, value if equals else None, left, call)
            elif word.startswith("-") and len(word) > 1:
                self._letters(word[1:], left, call)
            else:
                call.set_url(word)

    def _letters(self, letters: str, left: list[str], call: Call) -> None:
        """`-fsSX POST` is four options, of which the last has a value."""
        while letters:
            name, letters = f"-{letters[0]}", letters[1:]
            if name not in self.flags:
                self._set(name, letters or None, left, call)
                return
            self.flags[name](call)

    def _set(self, name: str, value: str | None, left: list[str], call: Call) -> None:
        if name not in self.values:
            raise Unfit(f"an HTTP target has nothing like the option {name}", _BY_HAND)
        if value is None and not left:
            raise Unfit(f"{name} has no value")
        self.values[name](call, left.pop(0) if value is None else value)


def secret_name(value: str) -> str:
    """What a credential is stored under."""
    return f"imported-{sha256(value.encode()).hexdigest()[:12]}"


def web_call(command: str, variables: Mapping[str, str]) -> Call | None:
    """The call that a command line makes; None if it is not curl or wget."""
    if not re.search(r"\b(curl|wget)\b", command):
        return None
    line = read_line(command, variables)
    call = Call()
    words = _unwrapped(line.words, call)
    program = PurePosixPath(words[0]).name if words else ""
    if program not in _PROGRAMS:
        return None
    _PROGRAMS[program].read(words[1:], call)
    if line.outputs:
        call.notes.append(f"its output no longer goes to {line.outputs[0]}; the execution keeps the answer")
    return call


def _unwrapped(words: Sequence[str], call: Call) -> list[str]:
    """The command without what is put in front of it: nice, timeout, flock, env."""
    left = list(words)
    while left:
        name = PurePosixPath(left[0]).name
        if name in ("nice", "ionice", "exec", "nohup", "chronic", "env"):
            left = _after_options(left[1:], {"-n", "-c"})
        elif name == "timeout":
            left = _after_options(left[1:], {"-k", "-s"})
            if left:
                call.wait(left.pop(0))
        elif name == "flock":
            left = _after_options(left[1:], {"-w", "-E"})[1:]
            call.job["overlap"] = "skip"
            call.notes.append("flock became overlap: skip")
        elif re.fullmatch(r"[A-Za-z_]\w*=.*", left[0], re.DOTALL):
            left.pop(0)
        else:
            break
    return left


def _after_options(words: list[str], with_value: set[str]) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in with_value else words[1:]
    return words


def _body(text: str, body_type: str, headers: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The body and the headers. JSON is kept as JSON, everything else as the text it is."""
    named = {name.lower(): name for name in headers}
    kept = dict(headers)
    if not text:
        return None, kept
    given = kept.get(named.get("content-type", ""), body_type)
    if isinstance(given, str) and given.partition(";")[0].strip().lower() == "application/json":
        try:
            body = json.loads(text)
        except ValueError:
            return text, kept | ({} if "content-type" in named else {"Content-Type": given})
        if not isinstance(body, str) and body is not None:
            kept.pop(named.get("content-type", ""), None)
            return body, kept
    if "content-type" not in named:
        kept["Content-Type"] = body_type
    return text, kept


def _data(call: Call, text: str) -> None:
    if text.startswith("@"):
        raise Unfit("it sends a file of its machine")
    call.body.append(text)


def _json(call: Call, text: str) -> None:
    _data(call, text)
    call.body_type = "application/json"
    call.headers.setdefault("Accept", "application/json")


def _encoded(call: Call, text: str) -> None:
    name, equals, value = text.partition("=")
    if "@" in name:
        raise Unfit("it sends a file of its machine")
    call.body.append(
        urlencode({name: value}, quote_via=quote) if equals and name else quote(value or text, safe="")
    )


def _output(call: Call, text: str) -> None:
    if text not in ("-", "/dev/null"):
        call.notes.append(f"its answer no longer goes to {text}; the execution keeps it")


def _method(call: Call, text: str) -> None:
    call.method = text.upper()


def _head(call: Call) -> None:
    call.method = "HEAD"


def _query(call: Call) -> None:
    call.query = True


def _redirects(call: Call) -> None:
    call.notes.append("redirects are not followed")


def _unchecked(_call: Call) -> None:
    raise Unfit("it does not check the server's certificate, and Tocsin always does", _BY_HAND)


def _user(call: Call, text: str) -> None:
    call.user = text


def _password(call: Call, text: str) -> None:
    call.login(f"{call.user or ''}:{text}")


def _header_of(name: str) -> _Setter:
    return lambda call, text: call.header(f"{name}: {text}")


def _nothing(_call: Call, _text: str = "") -> None:
    """An option about the terminal, the file system or the connection, which a target does without."""


_CURL: Final = _Program(
    flags={
        **dict.fromkeys(
            (
                "-s", "--silent", "-S", "--show-error", "-f", "--fail", "--fail-with-body", "-v", "--verbose",
                "-i", "--include", "--compressed", "-4", "--ipv4", "-6", "--ipv6", "-O", "--remote-name", "-N",
                "--no-buffer", "--http1.1", "--http2", "-#", "--progress-bar", "-g", "--globoff",
                "--no-progress-meter", "-q", "--retry-connrefused", "--retry-all-errors", "--tlsv1.2",
                "--tlsv1.3",
            ),
            _nothing,
        ),
        **dict.fromkeys(("-L", "--location"), _redirects),
        **dict.fromkeys(("-k", "--insecure"), _unchecked),
        **dict.fromkeys(("-G", "--get"), _query),
        **dict.fromkeys(("-I", "--head"), _head),
    },
    values={
        **dict.fromkeys(("-X", "--request"), _method),
        **dict.fromkeys(("-H", "--header"), Call.header),
        **dict.fromkeys(("-d", "--data", "--data-ascii", "--data-binary"), _data),
        "--data-raw": lambda call, text: call.body.append(text),
        "--data-urlencode": _encoded,
        "--json": _json,
        **dict.fromkeys(("-u", "--user"), Call.login),
        "--oauth2-bearer": lambda call, text: call.header(f"Authorization: Bearer {text}"),
        **dict.fromkeys(("-m", "--max-time"), Call.wait),
        "--retry": lambda call, text: call.tries(1, text),
        **dict.fromkeys(("-A", "--user-agent"), _header_of("User-Agent")),
        **dict.fromkeys(("-e", "--referer"), _header_of("Referer")),
        **dict.fromkeys(("-b", "--cookie"), _header_of("Cookie")),
        **dict.fromkeys(("-o", "--output"), _output),
        **dict.fromkeys(
            ("-w", "--write-out", "--connect-timeout", "--retry-delay", "--retry-max-time"), _nothing
        ),
        "--url": Call.set_url,
    },
)  # fmt: skip
_WGET: Final = _Program(
    flags={
        **dict.fromkeys(
            (
                "-q", "--quiet", "-nv", "--no-verbose", "-v", "--verbose", "-4", "-6", "--no-cache",
                "--no-cookies", "-b", "--background", "-S", "--server-response", "--content-on-error",
            ),
            _nothing,
        ),
        "--no-check-certificate": _unchecked,
        "--spider": _head,
    },
    values={
        **dict.fromkeys(("-O", "--output-document"), _output),
        **dict.fromkeys(("-o", "--output-file", "-a", "--append-output", "-w", "--wait"), _nothing),
        "--header": Call.header,
        **dict.fromkeys(("--post-data", "--body-data"), _data),
        "--method": _method,
        **dict.fromkeys(("-T", "--timeout"), Call.wait),
        **dict.fromkeys(("-t", "--tries"), lambda call, text: call.tries(0, text)),
        **dict.fromkeys(("-U", "--user-agent"), _header_of("User-Agent")),
        "--referer": _header_of("Referer"),
        **dict.fromkeys(("--user", "--http-user"), _user),
        **dict.fromkeys(("--password", "--http-password"), _password),
    },
)  # fmt: skip
_PROGRAMS: Final = {"curl": _CURL, "wget": _WGET}
