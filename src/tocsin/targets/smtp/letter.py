"""The mail of one attempt, as the bytes that a server is given.

The id of the mail is the execution's: the same over retries, so that a mailbox which got a mail twice can
tell. Every part that is not ASCII is encoded, so any server takes it.
"""

from datetime import datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final, cast

from tocsin.domain.message_target import SmtpTarget
from tocsin.targets.message.message import Message

_POLICY: Final = policy.SMTP.clone(cte_type="7bit")
_LEFT_OUT: Final = frozenset({"content-type"})
"""It says what our body is; a mail says that by itself."""


def letter(message: Message, sender: str, now: datetime) -> bytes:
    """Head and body, with the line ends of mail."""
    target = cast("SmtpTarget", message.target)
    mail = EmailMessage(_POLICY)
    mail["From"] = sender
    mail["To"] = ", ".join(target.to)
    mail["Subject"] = target.subject
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = message_id(message, sender)
    mail["Auto-Submitted"] = "auto-generated"
    for name, value in message.headers.items():
        if name not in _LEFT_OUT:
            mail[name.title()] = value
    mail.set_content(message.body.decode())
    return mail.as_bytes()


def message_id(message: Message, sender: str) -> str:
    """What the mail is known by."""
    return f"<{message.key}@{sender.rpartition('@')[2]}>"
