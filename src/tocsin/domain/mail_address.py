"""Addresses of mail: the plain form that every server takes, without names, comments and quoting."""

import re
from typing import Annotated, Final

from tocsin.domain.errors import Refused
from tocsin.domain.written import described

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = rf"{_ATOM}(\.{_ATOM})*@{_LABEL}(\.{_LABEL})*"
_FORM: Final = re.compile(_ADDRESS)
_MOST: Final = 254
WrittenMailAddress = Annotated[
    str, described(maxLength=_MOST, pattern=f"^{_ADDRESS}$", examples=["ops@example.com"])
]


def check_mail_address(address: str, field: str) -> None:
    """Refuse what no mail could be sent to."""
    if len(address) > _MOST or not _FORM.fullmatch(address):
        raise Refused(f"{address[:60]!r} is not a mail address such as ops@example.com", field=field)
