"""How a process calls targets: what serves which route.

Workers run executions with it, API processes trials. A new kind of target is one line in `make_callers`.
"""

from collections.abc import Mapping
from ssl import SSLContext

import structlog

from tocsin.db.pool import Database
from tocsin.domain.grpc_target import GRPC
from tocsin.domain.script_target import SCRIPT
from tocsin.roles.addresses import address_policy
from tocsin.roles.brokers import message_callers
from tocsin.roles.process import Process
from tocsin.secret_key import secret_box
from tocsin.store.jobs import JobStore
from tocsin.store.secrets import SecretStore
from tocsin.store.webhook_secrets import WebhookSecretStore
from tocsin.targets.caller import Caller
from tocsin.targets.grpc.extras import grpc_is_installed
from tocsin.targets.http.caller import HttpCaller
from tocsin.targets.http.client import HttpClient, default_ssl_context
from tocsin.targets.http.exchange import HttpLimits
from tocsin.targets.http.name_servers import NameServers
from tocsin.targets.http.resolver import Resolver
from tocsin.targets.noop.caller import NoopCaller
from tocsin.targets.script.caller import ScriptCaller
from tocsin.worker.job_names import JobNames
from tocsin.worker.vault import Vault

_log = structlog.get_logger()


def make_callers(process: Process, database: Database) -> Mapping[str, Caller]:
    """What serves which route: all of `ENGINE_ROUTES`, scripts where their sandbox stands, and what this
    process has the extras for."""
    vault, job_names = _vault(process, database), JobNames(JobStore(database))
    names = NameServers(process.settings.name_servers)
    process.closes(names.close)
    resolver = Resolver(names.lookup)
    trust = default_ssl_context()  # for all: to read what the system trusts takes a tenth of a second
    callers: dict[str, Caller] = {
        "http": _http_caller(process, resolver, trust, vault, job_names),
        "noop": NoopCaller(),
    }
    if grpc_is_installed():
        callers[GRPC] = _grpc_caller(process, resolver, vault, job_names)
    callers |= message_callers(process, database, vault, resolver, trust, job_names)
    rules = process.settings.script_rules
    if rules is not None and process.runs_scripts:
        callers[SCRIPT] = ScriptCaller(rules, process.clock, vault)
    return callers


def _http_caller(
    process: Process, resolver: Resolver, trust: SSLContext, vault: Vault, job_names: JobNames
) -> HttpCaller:
    settings = process.settings
    limits = HttpLimits(connections=settings.concurrency, connections_per_origin=settings.host_concurrency)
    client = HttpClient(resolver, address_policy(settings), limits=limits, ssl_context=trust)
    process.closes(client.close)
    return HttpCaller(client, process.clock, vault, names=job_names)


def _grpc_caller(process: Process, resolver: Resolver, vault: Vault, job_names: JobNames) -> Caller:
    from tocsin.targets.grpc.caller import GrpcCaller  # noqa: PLC0415 - an extra
    from tocsin.targets.grpc.channels import Channels  # noqa: PLC0415

    channels = Channels(resolver, address_policy(process.settings))
    process.closes(channels.close)
    return GrpcCaller(channels, process.clock, vault, job_names)


def _vault(process: Process, database: Database) -> Vault:
    box = secret_box(process.settings)
    if box is None:
        _log.warning("secrets.no_key", hint="set TOCSIN_SECRET_KEY; until then nothing is signed")
    left = process.telemetry.left_for_newer.labels("secret").inc
    return Vault(SecretStore(database, box), WebhookSecretStore(database, box), left)
