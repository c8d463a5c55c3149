"""`tocsin connections …`: brokers under names that targets refer to."""

import json
from typing import Any, BinaryIO

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, fields, line, rows, say
from tocsin.domain.connection import BROKERS, MECHANISMS


@click.group(cls=Group)
def connections() -> None:
    """Manage named connections to brokers and mail servers.

    \b
    Examples:
      tocsin connections put bus --kind nats --address bus.example.com:4222
      tocsin connections put log --kind kafka --address kafka.example.com:9092 --tls \
        --username tocsin --password-secret kafka-password --mechanism SCRAM-SHA-512
      tocsin connections put cache --kind redis --address cache:6379 --tls --password-secret cache-password
      tocsin connections put aws --kind sqs --address sqs.eu-central-1.amazonaws.com --tls \
        --region eu-central-1 --username AKIA… --password-secret aws-key
      tocsin connections put relay --kind smtp --address smtp.example.com:587 --tls --sender me@example.com
      tocsin connections test bus
    """


@connections.command("list")
@api_command
def list_connections(client: Client) -> tuple[Any, Any]:
    """List connections by name."""
    return client.get("connections"), _listed


@connections.command()
@click.argument("name")
@api_command
def show(client: Client, name: str) -> tuple[Any, Any]:
    """Show a connection."""
    return client.get("connections", name), fields


@connections.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(BROKERS), help="What the broker is.")
@click.option("--address", "addresses", multiple=True, metavar="HOST:PORT", help="May be repeated.")
@click.option("--tls", is_flag=True, help="Use TLS.")
@click.option(
    "--ca-secret", metavar="SECRET", help="The secret with the certificate authorities to trust, as PEM text."
)
@click.option("--username", help="The user to log in as. SQS: the id of the access key.")
@click.option("--password-secret", metavar="SECRET", help="The secret that holds the password.")
@click.option(
    "--token-secret", metavar="SECRET", help="The secret with a token: of NATS, or of a session of SQS."
)
@click.option("--mechanism", type=click.Choice(MECHANISMS), help="Kafka: how the user logs in (SASL).")
@click.option("--virtual-host", help="RabbitMQ: the virtual host to work in.")
@click.option("--region", help="SQS: the region that requests are signed for.")
@click.option("--sender", metavar="MAIL", help="SMTP: the address that mails come from.")
@click.option("--create-streams", is_flag=True, help="Redis: create streams that do not exist.")
@click.option(
    "--file", type=click.File("rb"), help='The whole connection from a JSON file; "-" is standard input.'
)
@api_command
def put(client: Client, name: str, file: BinaryIO | None, **given: Any) -> tuple[Any, Any]:
    """Create a connection, or replace it."""
    if (file is None) == (given["kind"] is None):
        raise click.UsageError("give --kind and --address, or --file")
    body = _from_options(given) if file is None else _from_file(file)
    return client.put("connections", name, body=body), say("connection {name} is set")


@connections.command()
@click.argument("name")
@api_command
def test(client: Client, name: str) -> tuple[Any, Any, int]:
    """Connect to the broker now, from the API process, and say whether it worked."""
    answer = client.post("connections", name, "test")
    return answer, _tested, 0 if answer["reached"] else 1


@connections.command()
@click.argument("name")
@api_command
def delete(client: Client, name: str) -> tuple[Any, Any]:
    """Delete a connection that no job and no alert channel names."""
    return client.delete("connections", name), say("deleted")


def _from_options(given: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"kind": given["kind"], "addresses": list(given["addresses"])}
    if given["tls"] or given["ca_secret"]:
        body["tls"] = {"ca": {"secret": given["ca_secret"]}} if given["ca_secret"] else {}
    for name, field in (("password_secret", "password"), ("token_secret", "token")):
        if given[name]:
            body[field] = {"secret": given[name]}
    for name in ("username", "mechanism", "virtual_host", "region", "sender"):
        if given[name]:
            body[name] = given[name]
    return body | ({"creates_streams": True} if given["create_streams"] else {})


def _from_file(file: BinaryIO) -> Any:
    try:
        return json.load(file)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{file.name} is not JSON: {error}") from None


def _listed(answer: Any) -> None:
    items = [item | {"addresses": ", ".join(item["addresses"])} for item in answer["items"]]
    columns = [("NAME", "name"), ("KIND", "kind"), ("ADDRESSES", "addresses"), ("UPDATED", "updated_at")]
    rows(columns, items)


def _tested(answer: Any) -> None:
    if answer["reached"]:
        line(f"reached in {answer['took_ms']:.0f} ms")
    else:
        line(f"not reached: {answer['error']}", "bold red")
