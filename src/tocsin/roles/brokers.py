"""What publishes messages in this process, for every kind of broker whose client is installed.

Clients are imported here, and only when a process meets the first connection of their kind.
"""

from functools import partial
from ssl import SSLContext

from tocsin.clock import Clock
from tocsin.db.pool import Database
from tocsin.roles.addresses import address_policy
from tocsin.roles.process import Process
from tocsin.store.connections import ConnectionStore
from tocsin.targets.filling import Names
from tocsin.targets.http.client import HttpClient
from tocsin.targets.http.resolver import Resolver
from tocsin.targets.message.caller import MessageCaller
from tocsin.targets.message.dialer import Dialer
from tocsin.targets.message.extras import message_routes
from tocsin.targets.message.opening import MakeBroker, Opening
from tocsin.targets.secrets import Secrets
from tocsin.targets.smtp.broker import SmtpBroker
from tocsin.targets.sqs.broker import SqsBroker
from tocsin.worker.connections import ConnectionBook


def message_callers(
    process: Process,
    database: Database,
    secrets: Secrets,
    resolver: Resolver,
    trust: SSLContext,
    names: Names,
) -> dict[str, MessageCaller]:
    """By route."""
    policy = address_policy(process.settings)
    dialer = Dialer(resolver, policy)
    client = HttpClient(resolver, policy, ssl_context=trust)
    process.closes(client.close)
    book = ConnectionBook(ConnectionStore(database))
    callers = {
        kind: MessageCaller(
            kind,
            book,
            Opening(partial(_maker, kind, client, process.clock), secrets, dialer),
            process.clock,
            names,
        )
        for kind in message_routes()
    }
    process.closes(*(caller.close for caller in callers.values()))
    return callers


def _maker(kind: str, client: HttpClient, clock: Clock) -> MakeBroker:
    match kind:
        case "kafka":
            from tocsin.targets.kafka.broker import KafkaBroker  # noqa: PLC0415 - an extra

            return lambda access: KafkaBroker(access, clock)
        case "nats":
            from tocsin.targets.nats.broker import NatsBroker  # noqa: PLC0415 - an extra

            return NatsBroker
        case "rabbitmq":
            from tocsin.targets.rabbitmq.broker import RabbitBroker  # noqa: PLC0415 - an extra

            return RabbitBroker
        case "redis":
            from tocsin.targets.redis.broker import RedisBroker  # noqa: PLC0415 - an extra

            return RedisBroker
        case "sqs":
            return lambda access: SqsBroker(access, client, clock)
        case "smtp":
            return lambda access: SmtpBroker(access, clock)
    raise ValueError(kind)
