"""`tocsin secrets …` and `tocsin webhook-secret …`: what targets need, and what requests are signed with."""

import sys
from collections.abc import Iterator
from typing import Any, Final, TextIO

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.progress import progress
from tocsin.cli.show import api_command, line, rows, say, table

# What is being written while it should be resealed is left for the next time round.
_PASSES: Final = 3


@click.group(cls=Group)
def secrets() -> None:
    """Store values that targets name and nobody can read back.

    \b
    Examples:
      tocsin secrets put billing-token < token.txt
      tocsin secrets list
      tocsin secrets reseal
    """


@secrets.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Page size.")
@click.option("--cursor", help="Continue a listing.")
@api_command
def list_secrets(client: Client, limit: int, cursor: str | None) -> tuple[Any, Any]:
    """List names of secrets."""
    columns = [("NAME", "name"), ("UPDATED", "updated_at")]
    return client.get("secrets", limit=limit, cursor=cursor), table(columns)


@secrets.command()
@click.argument("name")
@click.option("--file", type=click.File("r"), help="Read the value from a file instead of standard input.")
@api_command
def put(client: Client, name: str, file: TextIO | None) -> tuple[Any, Any]:
    """Create a secret or replace its value: from standard input, from a file, or typed without echo."""
    if file is not None:
        value = file.read()
    elif sys.stdin.isatty():
        value = click.prompt("value", hide_input=True)
    else:
        value = sys.stdin.read()
    body = {"value": value.rstrip("\r\n")}
    return client.put("secrets", name, body=body), say("secret {name} is set")


@secrets.command()
@click.argument("name")
@api_command
def delete(client: Client, name: str) -> tuple[Any, Any]:
    """Delete a secret; calls that need it are rejected from then on."""
    return client.delete("secrets", name), say("deleted")


@secrets.command()
@api_command
def reseal(client: Client) -> tuple[Any, Any, int]:
    """Encrypt every secret and webhook secret anew, under the first key of TOCSIN_SECRET_KEY. For operators.

    Run it after a new key has been put before the old one on every process. When nothing remains, the old key
    can be taken away. You can stop it and run it again at any time.
    """
    total: dict[str, Any] = {"secrets": 0, "webhook_secrets": 0}
    with progress() as bar:
        task = bar.add_task("resealing", total=None, words="")
        for _ in range(_PASSES):
            total["unopened"] = []
            for answer in _batches(client):
                for name in ("secrets", "webhook_secrets", "unopened"):
                    total[name] += answer[name]
                total |= {name: answer[name] for name in ("key_id", "remaining")}
                done = total["secrets"] + total["webhook_secrets"]
                bar.update(task, total=done + total["remaining"], completed=done, words=f"{done} resealed")
            if total["remaining"] <= len(total["unopened"]):
                break
    return total, _resealed, 1 if total["remaining"] else 0


def _batches(client: Client) -> Iterator[Any]:
    cursor = None
    while True:
        answer = client.post("secrets:reseal", body={"cursor": cursor})
        yield answer
        cursor = answer["next_cursor"]
        if cursor is None:
            return


def _resealed(total: Any) -> None:
    line(
        f"resealed {total['secrets']} secrets and {total['webhook_secrets']} webhook secrets"
        f" under key {total['key_id']}"
    )
    if not total["remaining"]:
        line("nothing is under another key: old keys can be removed")
        return
    line(f"{total['remaining']} remain under another key: keep it", "bold red")
    columns = [("TENANT", "tenant"), ("NAME", "name"), ("KEY", "key_id"), ("REASON", "reason")]
    rows(columns, total["unopened"])


@click.group("webhook-secret", cls=Group)
def webhook_secret() -> None:
    """Show and rotate the secret that signs requests.

    \b
    Examples:
      tocsin webhook-secret show
      tocsin webhook-secret rotate --overlap 12h
    """


@webhook_secret.command()
@api_command
def show(client: Client) -> tuple[Any, Any]:
    """Show the live secrets, newest first."""
    return client.get("webhook-secret"), _live


@webhook_secret.command()
@click.option(
    "--overlap",
    default="1d",
    show_default=True,
    help="How long the previous secret also signs requests.",
)
@api_command
def rotate(client: Client, overlap: str) -> tuple[Any, Any]:
    """Create a new secret; the previous one stays live for a while."""
    return client.post("webhook-secret", "rotate", body={"overlap": overlap}), _live


def _live(answer: Any) -> None:
    rows([("SECRET", "secret"), ("CREATED", "created_at"), ("EXPIRES", "expires_at")], answer["items"])
