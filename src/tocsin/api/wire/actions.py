"""What is said along with actions of many resources: nothing, a reason, how long the old one stays valid.

What an action of one resource takes and answers is in that resource's own module.
"""

from typing import Annotated

import msgspec

from tocsin.api.endpoint import MAX_REASON
from tocsin.domain.written import UpToAMonth, line


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an action that takes no instructions: none, or an empty object."""


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is done, for later readers."""

    reason: Annotated[str, line(MAX_REASON)] | None = None


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the old one stays valid beside the new one."""

    overlap: UpToAMonth = "1d"
