"""`tocsin alerts …`: what is wrong, who is told of it, and what counts as trouble."""

import json
import re
from typing import Any, BinaryIO, Final

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, fields, line, rows, say, table
from tocsin.domain.alert_channel import KINDS

_WATCHES: Final = (
    "dead_letters", "failures_in_a_row", "did_not_run", "lag", "unserved", "queue_paused", "host_at_rest",
    "pending_jobs", "clock", "partitions", "disk", "archive_failing", "lease_churn", "dead_mans_switch",
)  # fmt: skip
_QUIET: Final = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)(?:@(\S+))?")


@click.group(cls=Group)
def alerts() -> None:
    """List alerts; manage their rules and channels.

    \b
    Examples:
      tocsin secrets put slack-path --value T000/B000/XXXX
      tocsin alerts channels put ops --kind slack --to https://hooks.example.com/ --path-secret slack-path
      tocsin alerts channels put night --kind mail --connection relay --to pager@example.com
      tocsin alerts channels test ops
      tocsin alerts rules put letters --watch dead_letters --channel ops
      tocsin alerts rules put slow --watch lag --with within=1s --channel ops --quiet 22:00-07:00
      tocsin alerts list
    """


@alerts.command("list")
@click.option(
    "--state", type=click.Choice(("pending", "firing", "resolved")), help="Only alerts in this state."
)
@click.option("--limit", type=int, default=50, show_default=True, help="How many at most.")
@api_command
def list_alerts(client: Client, state: str | None, limit: int) -> tuple[Any, Any]:
    """List alerts: those that fire first, then the latest."""
    query = {"limit": limit} | ({"state": state} if state else {})
    columns = [
        ("STATE", "state"),
        ("RULE", "rule"),
        ("SINCE", "since"),
        ("TOLD", "told_at"),
        ("REASON", "summary"),
    ]
    return client.get("alerts", **query), table(columns)


@alerts.group()
def channels() -> None:
    """Keep the channels in which alerts are told.

    \b
    Examples:
      tocsin alerts channels put ops --kind slack --to https://hooks.example.com/ --path-secret slack-path
      tocsin alerts channels test ops
    """


@channels.command("list")
@api_command
def list_channels(client: Client) -> tuple[Any, Any]:
    """List channels by name."""
    return client.get("alert-channels"), _listed_channels


@channels.command("show")
@click.argument("name")
@api_command
def show_channel(client: Client, name: str) -> tuple[Any, Any]:
    """Show a channel."""
    return client.get("alert-channels", name), fields


@channels.command("put")
@click.argument("name")
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What is sent.")
@click.option(
    "--to", "addresses", multiple=True, required=True, metavar="URL|MAIL",
    help="Where it is sent: a URL, or mail addresses; --to may then be repeated.",
)  # fmt: skip
@click.option("--connection", help="Of mail: the connection to the mail server.")
@click.option("--path-secret", metavar="SECRET", help="The secret that ends the URL's path.")
@click.option(
    "--method", type=click.Choice(("POST", "PUT", "GET")), default="POST", show_default=True, help="How."
)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=SECRET", help="A header and the secret that it holds."
)
@click.option(
    "--body", type=click.File("rb"), help='The body of a json channel from a file; "-" is standard input.'
)
@api_command
def put_channel(client: Client, name: str, body: BinaryIO | None, **given: Any) -> tuple[Any, Any]:
    """Create a channel, or replace it."""
    addresses = given["addresses"]
    if given["kind"] == "mail":
        wanted: dict[str, Any] = {"kind": "mail", "to": list(addresses)}
    elif len(addresses) == 1:
        wanted = {"kind": given["kind"], "url": addresses[0], "method": given["method"]}
    else:
        raise click.UsageError(f"a channel of the kind {given['kind']} has one --to")
    if given["connection"]:
        wanted["connection"] = given["connection"]
    if given["path_secret"]:
        wanted["path_secret"] = {"secret": given["path_secret"]}
    if given["headers"]:
        wanted["headers"] = {key: {"secret": value} for key, value in map(_pair, given["headers"])}
    if body is not None:
        wanted["body"] = _read(body)
    return client.put("alert-channels", name, body=wanted), say("channel {name} is set")


@channels.command("test")
@click.argument("name")
@api_command
def test_channel(client: Client, name: str) -> tuple[Any, Any]:
    """Send a test message by a job, as alerts are sent."""
    return client.post("alert-channels", name, "test"), say("{job} sends a test message")


@channels.command("delete")
@click.argument("name")
@api_command
def delete_channel(client: Client, name: str) -> tuple[Any, Any]:
    """Delete a channel that no rule names."""
    return client.delete("alert-channels", name), say("deleted")


@alerts.group()
def rules() -> None:
    """Keep the rules by which trouble is found.

    \b
    Examples:
      tocsin alerts rules put letters --watch dead_letters --channel ops
      tocsin alerts rules put slow --watch lag --with within=1s --channel ops --quiet 22:00-07:00
    """


@rules.command("list")
@api_command
def list_rules(client: Client) -> tuple[Any, Any]:
    """List rules by name."""
    return client.get("alert-rules"), _listed


@rules.command("show")
@click.argument("name")
@api_command
def show_rule(client: Client, name: str) -> tuple[Any, Any]:
    """Show a rule."""
    return client.get("alert-rules", name), fields


@rules.command("put")
@click.argument("name")
@click.option("--watch", type=click.Choice(_WATCHES), required=True, help="What counts as trouble.")
@click.option(
    "--with", "settings", multiple=True, metavar="FIELD=VALUE", help="A setting of what is watched."
)
@click.option(
    "--channel", "channels", multiple=True, required=True, help="The channel to notify. May be repeated."
)
@click.option("--fleet", is_flag=True, help="Watch all tenants; for operators.")
@click.option("--lasting", metavar="DURATION", help="How long trouble must last before it is told.")
@click.option("--repeat", metavar="DURATION", help="How often lasting trouble is told again; 0 for never.")
@click.option("--quiet", metavar="HH:MM-HH:MM[@ZONE]", help="When nothing is told.")
@click.option("--disabled", is_flag=True, help="Keep the rule, but do not evaluate it.")
@api_command
def put_rule(client: Client, name: str, **given: Any) -> tuple[Any, Any]:
    """Create a rule, or replace it."""
    watch = {"kind": given["watch"]} | {key: _value(value) for key, value in map(_pair, given["settings"])}
    body: dict[str, Any] = {"watch": watch, "channels": list(given["channels"])}
    if given["fleet"]:
        body["scope"] = "fleet"
    if given["disabled"]:
        body["enabled"] = False
    if given["quiet"]:
        body["quiet"] = _quiet(given["quiet"])
    body |= {key: _value(given[key]) for key in ("lasting", "repeat") if given[key] is not None}
    return client.put("alert-rules", name, body=body), say("rule {name} is set")


@rules.command("delete")
@click.argument("name")
@api_command
def delete_rule(client: Client, name: str) -> tuple[Any, Any]:
    """Delete a rule and its alerts."""
    return client.delete("alert-rules", name), say("deleted")


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"{text!r} is not NAME=VALUE")
    return name, value


def _value(text: str) -> Any:
    """A number where it is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _quiet(text: str) -> dict[str, str]:
    found = _QUIET.fullmatch(text)
    if found is None:
        raise click.UsageError("--quiet is HH:MM-HH:MM, with @ZONE if that is not UTC")
    zone = {"time_zone": found[3]} if found[3] else {}
    return {"begins": found[1], "ends": found[2], **zone}


def _read(file: BinaryIO) -> Any:
    try:
        return json.load(file)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{file.name} is not JSON: {error}") from None


def _listed_channels(answer: Any) -> None:
    items = [item | {"where": item.get("url") or ", ".join(item.get("to", ()))} for item in answer["items"]]
    rows([("NAME", "name"), ("KIND", "kind"), ("TO", "where"), ("UPDATED", "updated_at")], items)


def _listed(answer: Any) -> None:
    items = [
        item
        | {
            "watches": item["watch"]["kind"],
            "scope": item.get("scope", "tenant"),
            "to": ", ".join(item["channels"]),
            "on": "yes" if item.get("enabled", True) else "no",
        }
        for item in answer["items"]
    ]
    rows(
        [("NAME", "name"), ("WATCHES", "watches"), ("SCOPE", "scope"), ("CHANNELS", "to"), ("ON", "on")],
        items,
    )
    for item in items:
        if item.get("withheld"):
            line(f"{item['name']} does not beat: {item['withheld']}", "yellow")
