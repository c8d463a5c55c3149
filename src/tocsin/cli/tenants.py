"""`tocsin tenants …`: who shares the fleet, and how much of it each may use. For operators."""

import sys
from collections.abc import Callable
from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, fields, say, table

_TABLE = table(
    [
        ("NAME", "name"), ("STATE", "state"), ("REASON", "state_reason"), ("WEIGHT", "weight"),
        ("PENDING", "pending_jobs"), ("REQUESTS/S", "requests_per_second"), ("IN FLIGHT", "in_flight"),
        ("FIRES/S", "fires_per_second"),
    ]
)  # fmt: skip
_LOGINS = table([("LOGIN", "login"), ("SINCE", "created_at")])
_LIMITS = (
    ("pending-jobs", "Jobs that still have something to do."),
    ("payload-bytes", "Bytes of a job's target."),
    ("min-interval", "The shortest time between two fires of a job: 30s, 5m"),
    ("requests-per-second", "API requests per second, for each API process."),
    ("request-burst", "API requests at once after a quiet while."),
    ("in-flight", "Executions running at once."),
    ("fires-per-second", "Executions started per second."),
    ("history-days", "Days for which history is kept."),
)


def _limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, words in reversed(_LIMITS):
        command = click.option(
            f"--{name}", metavar="LIMIT", help=f'{words} "default": the value of the settings.'
        )(command)
    return command


@click.group(cls=Group)
def tenants() -> None:
    """Create tenants, weigh, limit, suspend, resume and delete them, bind logins to them.

    \b
    Examples:
      tocsin tenants create acme --weight 4 --requests-per-second 50
      tocsin keys create ci --tenant acme --scope read --scope write
      tocsin tenants change acme --pending-jobs 100000 --min-interval default
      tocsin jobs list --tenant acme
      tocsin tenants bind-login acme --login acme_app
    """


@tenants.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@api_command
def list_tenants(client: Client, **options: Any) -> tuple[Any, Any]:
    """List tenants with the limits in force."""
    return client.get("tenants", **options), _listed


@tenants.command()
@click.argument("name")
@api_command
def show(client: Client, name: str) -> tuple[Any, Any]:
    """Show a tenant and its limits."""
    return client.get("tenants", name), fields


@tenants.command()
@click.argument("name")
@click.option(
    "--weight", type=click.IntRange(1, 1000), help="Share of the workers against others.  [default: 1]"
)
@_limit_options
@api_command
def create(client: Client, name: str, weight: int | None, **limits: str | None) -> tuple[Any, Any]:
    """Create a tenant."""
    body = {"name": name, "limits": _limits(limits)} | ({} if weight is None else {"weight": weight})
    return client.post("tenants", body=body), fields


@tenants.command()
@click.argument("name")
@click.option("--weight", type=click.IntRange(1, 1000), help="Share of the workers against others.")
@_limit_options
@api_command
def change(client: Client, name: str, weight: int | None, **limits: str | None) -> tuple[Any, Any]:
    """Change a tenant's weight and limits; options that are not given stay as they are."""
    body = {"limits": _limits(limits)} | ({} if weight is None else {"weight": weight})
    return client.patch("tenants", name, body=body), fields


@tenants.command()
@click.argument("name")
@click.option("--reason")
@api_command
def suspend(client: Client, name: str, reason: str | None) -> tuple[Any, Any]:
    """Refuse a tenant's keys and hold its fires."""
    return client.post("tenants", name, "suspend", body={"reason": reason}), say("{name} is suspended")


@tenants.command()
@click.argument("name")
@api_command
def resume(client: Client, name: str) -> tuple[Any, Any]:
    """Resume a suspended tenant."""
    return client.post("tenants", name, "resume"), say("{name} is active")


@tenants.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@api_command
def delete(client: Client, name: str, yes: bool) -> tuple[Any, Any]:
    """Delete a suspended tenant with everything it owns, for good.

    Its jobs, history, keys and secrets are removed in small batches, beside the work of others; its entries
    of the audit log stay. `tenants show` says that it is being deleted until it is gone.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to ask on: confirm with --yes")
        client.get("tenants", name)
        click.confirm(f"Delete {name} with its jobs, history, keys and secrets?", abort=True, err=True)
    return client.delete("tenants", name), say("{name} is being deleted")


@tenants.command()
@click.argument("name")
@api_command
def logins(client: Client, name: str) -> tuple[Any, Any]:
    """List the logins of the database that enqueue for a tenant."""
    return client.get("tenants", name, "logins"), _LOGINS


@tenants.command("bind-login")
@click.argument("name")
@click.option("--login", required=True, help="A role of the database that the application logs in with.")
@api_command
def bind_login(client: Client, name: str, login: str) -> tuple[Any, Any]:
    """Let a login of the database call tocsin.enqueue for a tenant, in its own transactions."""
    return client.put("tenants", name, "logins", login, body={}), say("{login} enqueues for {tenant}")


@tenants.command("unbind-login")
@click.argument("name")
@click.option("--login", required=True, help="The login that was bound.")
@api_command
def unbind_login(client: Client, name: str, login: str) -> tuple[Any, Any]:
    """Revoke a login's right to enqueue; enqueued jobs stay."""
    client.delete("tenants", name, "logins", login)
    return {"login": login, "tenant": name}, say("{login} no longer enqueues for {tenant}")


def _limits(options: dict[str, str | None]) -> dict[str, Any]:
    """The limits that were given; `default` takes one back."""
    return {
        name: None if text == "default" else _number(text)
        for name, text in options.items()
        if text is not None
    }


def _number(text: str) -> Any:
    """A number if it is one; the API says what is wrong with the rest."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _listed(answer: Any) -> None:
    items = [
        item | item["limits_in_force"] | ({"state": "being deleted"} if item.get("deleted_at") else {})
        for item in answer["items"]
    ]
    _TABLE({"items": items, "next_cursor": answer["next_cursor"]})
