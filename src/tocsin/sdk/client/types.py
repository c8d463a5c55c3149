"""What the API takes and answers. Made from the OpenAPI document by `python -m tocsin.api.client_code`: change that, not this file."""

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class AlertChannel(TypedDict):
    """Where to tell of alerts."""

    kind: "Literal['json', 'mail', 'slack', 'webhook']"
    url: "NotRequired[str | None]"
    path_secret: "NotRequired[SecretRef | None]"
    method: "NotRequired[Literal['POST', 'PUT', 'GET']]"
    headers: "NotRequired[dict[str, SecretRef]]"
    body: "NotRequired[Any]"
    connection: "NotRequired[str | None]"
    to: "NotRequired[list[str]]"


class AlertChannelTest(TypedDict):
    """The job that sends a test message."""

    job: "str"


class AlertChannelView(TypedDict):
    """A channel. Of its credentials the names of secrets are shown."""

    kind: "Literal['json', 'mail', 'slack', 'webhook']"
    url: "NotRequired[str | None]"
    path_secret: "NotRequired[SecretRef | None]"
    method: "NotRequired[Literal['POST', 'PUT', 'GET']]"
    headers: "NotRequired[dict[str, SecretRef]]"
    body: "NotRequired[Any]"
    connection: "NotRequired[str | None]"
    to: "NotRequired[list[str]]"
    name: "str"
    version: "int"
    created_at: "str"
    updated_at: "str"


class AlertChannels(TypedDict):
    """All channels of a tenant."""

    broken: "NotRequired[list[Broken]]"
    items: "list[AlertChannelView]"


class AlertRule(TypedDict):
    """What to watch, and how to tell of it."""

    watch: "DeadLetters | FailuresInARow | DidNotRun | LateFires | Unserved | PausedQueue | HostAtRest | PendingJobs | ClockTrouble | PartitionTrouble | DiskTrouble | ArchiveFailing | LeaseChurn | DeadMansSwitch"
    channels: "list[str]"
    scope: "NotRequired[Literal['fleet', 'tenant']]"
    lasting: "NotRequired[str | float]"
    repeat: "NotRequired[str | Literal[0] | Any]"
    quiet: "NotRequired[QuietTimes | None]"
    enabled: "NotRequired[bool]"


class AlertRuleView(TypedDict):
    """A rule. `beat_at` is the minute of a dead man's switch's latest beat, `withheld` why there is none now."""

    watch: "DeadLetters | FailuresInARow | DidNotRun | LateFires | Unserved | PausedQueue | HostAtRest | PendingJobs | ClockTrouble | PartitionTrouble | DiskTrouble | ArchiveFailing | LeaseChurn | DeadMansSwitch"
    channels: "list[str]"
    scope: "NotRequired[Literal['fleet', 'tenant']]"
    lasting: "NotRequired[str | float]"
    repeat: "NotRequired[str | Literal[0] | Any]"
    quiet: "NotRequired[QuietTimes | None]"
    enabled: "NotRequired[bool]"
    name: "str"
    version: "int"
    created_at: "str"
    updated_at: "str"
    beat_at: "NotRequired[str | None]"
    withheld: "NotRequired[str | None]"


class AlertRules(TypedDict):
    """All rules of a tenant."""

    broken: "NotRequired[list[Broken]]"
    items: "list[AlertRuleView]"


class AlertView(TypedDict):
    """One group of what a rule found."""

    rule: "str"
    group: "str"
    state: "Literal['pending', 'firing', 'resolved']"
    since: "str"
    seen_at: "str"
    resolved_at: "str | None"
    told: "str | None"
    told_at: "str | None"
    summary: "str"
    detail: "dict[str, Any]"


class Alerts(TypedDict):
    """Alerts: those that fire first, then the latest."""

    broken: "NotRequired[list[Broken]]"
    items: "list[AlertView]"


class ArchiveFailing(TypedDict):
    """A part of an old day could not be archived so often in a row: nothing is dropped meanwhile."""

    kind: "Literal['archive_failing']"
    at_least: "NotRequired[int]"


class ArchivePage(TypedDict):
    """Parts of days, the latest day first."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[ArchiveView]"


class ArchiveView(TypedDict):
    """A part of a day, and its file: there is none where there are no rows, or not yet."""

    table: "str"
    day: "str"
    round: "int"
    part: "int"
    state: "str"
    rows: "int | None"
    bytes: "int | None"
    object: "str | None"
    sha256: "str | None"
    content: "str | None"
    edition: "int"
    failures: "int"
    trouble: "str | None"
    changed_at: "str"


class AttemptView(TypedDict):
    """One try at an execution."""

    number: "int"
    verdict: "Verdict | None"
    started_at: "str | None"
    finished_at: "str | None"
    duration_ms: "float | None"
    node: "int | None"
    error: "str | None"
    detail: "dict[str, Any] | None"
    worker: "str | None"
    result: "NotRequired[Any]"


class AuditEntry(TypedDict):
    """Something that was done. Values that may hold a secret are masked."""

    at: "str"
    tenant: "str | None"
    actor: "str"
    action: "str"
    object: "str"
    before: "Any"
    after: "Any"
    request_id: "str | None"
    address: "str | None"
    via: "str | None"


class AuditPage(TypedDict):
    """Entries of the audit log, latest first."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[AuditEntry]"


Backfill = TypedDict(
    "Backfill",
    {
        "id": "int",
        "job_id": "str",
        "job_name": "str | None",
        "state": "str",
        "from": "str",
        "to": "str",
        "mode": "Mode",
        "order": "Order",
        "pace": "str",
        "max_parallel": "int",
        "total": "int",
        "queued": "int",
        "left_out": "int",
        "live": "int",
        "finished": "int",
        "created_at": "str",
        "finished_at": "str | None",
    },
)


class BackfillAnswer(TypedDict):
    """What a backfill runs, or would run."""

    backfill: "Backfill | None"
    total: "int"
    fire_times: "list[str]"


class BackfillPage(TypedDict):
    """Backfills, newest first."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[Backfill]"


class Band(TypedDict):
    """How many fires of a lane ended how, within a step from `at` on."""

    at: "str"
    counts: "dict[str, int]"


class BasicAuth(TypedDict):
    """`Authorization: Basic …`: a user name, which has no colon, and a password."""

    kind: "Literal['basic']"
    username: "str | SecretRef"
    password: "str | SecretRef"


class BatchAnswer(TypedDict):
    """What became of a batch. `items` lists what was created and refused, in order."""

    created: "int"
    refused: "int"
    items: "list[BatchItem]"
    complete: "bool"


class BatchItem(TypedDict):
    """The fate of one item: the id it got, or the problem with it."""

    index: "int"
    id: "NotRequired[str | None]"
    problem: "NotRequired[Problem | None]"


class BearerAuth(TypedDict):
    """`Authorization: Bearer …`."""

    kind: "Literal['bearer']"
    token: "str | SecretRef"


class BoundLogin(TypedDict):
    """A login that may call `tocsin.enqueue` and `tocsin.enqueue_many`, for its tenant alone."""

    login: "str"
    tenant: "str"
    created_at: "str"


class BoundLogins(TypedDict):
    """Logins of a tenant, by name."""

    broken: "NotRequired[list[Broken]]"
    items: "list[BoundLogin]"


class Brake(TypedDict):
    """Hold when `share` of the last `of` outcomes are failures."""

    share: "float"
    of: "NotRequired[int]"


class Broken(TypedDict):
    """Something that is there and cannot be shown: its row holds what this version cannot read."""

    id: "str"
    detail: "str"


class BrokerTls(TypedDict):
    """TLS to a broker: `{}` trusts the system's authorities and checks the name in the address."""

    ca: "NotRequired[SecretRef | None]"
    client_certificate: "NotRequired[SecretRef | None]"
    server_name: "NotRequired[str | None]"


class Calendar(TypedDict):
    """A named calendar."""

    name: "str"
    ranges: "list[CalendarRange]"
    updated_at: "str"


class CalendarDay(TypedDict):
    """A day of a zone. It has 23 or 25 hours where the clock changes."""

    ran: "NotRequired[int]"
    dead: "NotRequired[int]"
    skipped: "NotRequired[dict[str, int]]"
    cancelled: "NotRequired[int]"
    expired: "NotRequired[int]"
    expected: "NotRequired[int]"
    backfilled: "NotRequired[int]"
    date: "str"
    begins: "str"
    hour_count: "int"
    hours: "NotRequired[list[CalendarHour] | None]"


class CalendarHour(TypedDict):
    """An hour of a day."""

    ran: "NotRequired[int]"
    dead: "NotRequired[int]"
    skipped: "NotRequired[dict[str, int]]"
    cancelled: "NotRequired[int]"
    expired: "NotRequired[int]"
    expected: "NotRequired[int]"
    backfilled: "NotRequired[int]"
    at: "str"


CalendarRange = TypedDict("CalendarRange", {"from": "str", "to": "str", "reason": "NotRequired[str | None]"})


class CalendarRanges(TypedDict):
    """The ranges of a calendar."""

    ranges: "list[CalendarRange]"


class Calendars(TypedDict):
    """All calendars of a tenant."""

    broken: "NotRequired[list[Broken]]"
    items: "list[Calendar]"


class Cancel(TypedDict):
    """With `dry_run` nothing is changed."""

    reason: "NotRequired[str | None]"
    dry_run: "NotRequired[bool]"


class CancelAnswer(TypedDict):
    """What a cancellation did."""

    job: "Job | None"
    cancelled: "int"
    asked_to_stop: "int"
    not_retried: "int"
    dry_run: "NotRequired[bool]"


CancelResult: TypeAlias = "Literal['cancel_requested', 'cancelled']"


class CancelledExecution(TypedDict):
    """An execution as a cancellation left it. `final_state` is there if it is over, which it may be by its own end."""

    id: "str"
    job_id: "str"
    job_name: "str | None"
    state: "State"
    cause: "str"
    queue: "str"
    priority: "int"
    fire_at: "str"
    due_at: "str"
    run_at: "str"
    started_at: "str | None"
    finished_at: "str | None"
    lag_ms: "float | None"
    attempt: "int"
    reason: "str | None"
    cancel_requested: "bool"
    rerun_of: "NotRequired[str | None]"
    backfill: "NotRequired[int | None]"
    fire_until: "NotRequired[str | None]"
    fire_count: "NotRequired[int]"
    discarded_at: "NotRequired[str | None]"
    archived: "NotRequired[bool]"
    progress: "NotRequired[Progress | None]"
    attempts: "NotRequired[list[AttemptView]]"
    answer: "CancelResult"
    final_state: "State | None"


class ChangedFires(TypedDict):
    """What happens to a job's coming fires: how many, and the first few of each."""

    gained: "int"
    lost: "int"
    moved: "int"
    kept: "int"
    first_gained: "list[str]"
    first_lost: "list[str]"
    first_moved: "list[MovedFire]"
    until: "str"


class Check(TypedDict):
    """Something that should be so; if it is not, what to do."""

    name: "str"
    ok: "bool"
    words: "str"
    hint: "NotRequired[str | None]"


class ClientTls(TypedDict):
    """How a target knows the caller by TLS: a secret with a certificate chain and its private key, as PEM text."""

    client_certificate: "SecretRef"


class ClockTrouble(TypedDict):
    """The database's clock was set within the window."""

    kind: "Literal['clock']"
    window: "NotRequired[str | float]"


class ComingFire(TypedDict):
    """A fire that is to come. `execution` is there once it is planned."""

    at: "str"
    job_id: "str"
    name: "str | None"
    execution: "str | None"
    attempt: "int"


class ComingFires(TypedDict):
    """The next fires, soonest first: all that are planned, and of each recurring job the first that is not."""

    items: "list[ComingFire]"


class ConnectionBody(TypedDict):
    """A connection whose name is in the address."""

    kind: "Literal['kafka', 'nats', 'rabbitmq', 'redis', 'sqs', 'smtp']"
    addresses: "list[str]"
    tls: "NotRequired[BrokerTls | None]"
    username: "NotRequired[str | None]"
    password: "NotRequired[SecretRef | None]"
    token: "NotRequired[SecretRef | None]"
    mechanism: "NotRequired[Literal['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512']]"
    virtual_host: "NotRequired[str]"
    region: "NotRequired[str | None]"
    sender: "NotRequired[str | None]"
    creates_streams: "NotRequired[bool]"
    replicas: "NotRequired[int]"
    in_flight: "NotRequired[int]"
    name: "NotRequired[str | None]"


class ConnectionTest(TypedDict):
    """Whether the broker let us in: from this API process, now."""

    reached: "bool"
    took_ms: "float"
    error: "NotRequired[str | None]"


class ConnectionView(TypedDict):
    """A connection. Of its credentials the names of secrets are shown."""

    kind: "Literal['kafka', 'nats', 'rabbitmq', 'redis', 'sqs', 'smtp']"
    addresses: "list[str]"
    tls: "NotRequired[BrokerTls | None]"
    username: "NotRequired[str | None]"
    password: "NotRequired[SecretRef | None]"
    token: "NotRequired[SecretRef | None]"
    mechanism: "NotRequired[Literal['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512']]"
    virtual_host: "NotRequired[str]"
    region: "NotRequired[str | None]"
    sender: "NotRequired[str | None]"
    creates_streams: "NotRequired[bool]"
    replicas: "NotRequired[int]"
    in_flight: "NotRequired[int]"
    name: "str"
    version: "int"
    created_at: "str"
    updated_at: "str"


class Connections(TypedDict):
    """All connections of a tenant."""

    broken: "NotRequired[list[Broken]]"
    items: "list[ConnectionView]"


class Count(TypedDict):
    """A number; at least that if it is capped."""

    count: "int"
    capped: "bool"


class DatabaseView(TypedDict):
    """The database. `oldest_transaction_s` is the age of the oldest that is open, `oldest_by` who opened it."""

    version: "str"
    size_bytes: "int"
    connections: "int"
    max_connections: "int"
    oldest_transaction_s: "float | None"
    oldest_by: "str | None"
    transactions_a_second: "float | None"
    migration: "int"
    days_of_history: "int"
    row_security: "str | None"
    tables: "list[TableView]"
    standing: "StandingView"


class DeadLetters(TypedDict):
    """At least so many executions failed for good within the window, by kind of error."""

    kind: "Literal['dead_letters']"
    window: "NotRequired[str | float]"
    at_least: "NotRequired[int]"
    queue: "NotRequired[str | None]"


class DeadMansSwitch(TypedDict):
    """Calls its channels every minute while what should fire fires."""

    kind: "Literal['dead_mans_switch']"
    grace: "NotRequired[str | float]"


class Declaration(TypedDict):
    """All recurring jobs of an owner as they shall be, each with its name."""

    jobs: "list[JobBody]"
    revision: "NotRequired[int | None]"
    dry_run: "NotRequired[bool]"
    update: "NotRequired[bool]"
    prune: "NotRequired[bool]"
    adopt: "NotRequired[bool]"
    days: "NotRequired[int]"


class Declared(TypedDict):
    """What came of a declaration."""

    owner: "str"
    revision: "int | None"
    applied: "bool"
    superseded: "bool"
    dry_run: "bool"
    counts: "dict[str, int]"
    jobs: "list[DeclaredJob]"


class DeclaredJob(TypedDict):
    """What became of a job, or would with `dry_run`."""

    name: "str"
    action: (
        "Literal['changed', 'created', 'differs', 'refused', 'removed', 'revived', 'unchanged', 'undeclared']"
    )
    id: "NotRequired[str | None]"
    paused: "NotRequired[bool]"
    fields: "NotRequired[list[FieldChange]]"
    fires: "NotRequired[ChangedFires | None]"
    problem: "NotRequired[Problem | None]"


class Diagnosis(TypedDict):
    """What is wrong, the likeliest cause first. `looked_for` is how many kinds of trouble were looked for."""

    now: "str"
    healthy: "bool"
    looked_for: "int"
    findings: "list[FindingView]"


class DidNotRun(TypedDict):
    """A recurring job's fire has not started a grace after its instant, or was missed within the window."""

    kind: "Literal['did_not_run']"
    grace: "NotRequired[str | float]"
    window: "NotRequired[str | float]"


class DiskTrouble(TypedDict):
    """Less than this share of a disk is free that a node writes to: the embedded database's, or the temporary files'."""

    kind: "Literal['disk']"
    free: "NotRequired[float]"


class Disowned(TypedDict):
    """What had an owner and has none any more."""

    released: "int"


Do: TypeAlias = (
    "Literal['cancel', 'cancel_queued', 'delete', 'discard', 'pause', 'rerun', 'resume', 'retry', 'run']"
)

Dst: TypeAlias = "Literal['cron', 'literal', 'once']"


class Due(TypedDict):
    """What is due and waits."""

    count: "int"
    capped: "bool"
    oldest_ms: "float | None"


class Ended(TypedDict):
    """How executions ended, by final state."""

    succeeded: "int"
    dead: "int"
    skipped: "int"
    cancelled: "int"
    expired: "int"


class ErrorGroup(TypedDict):
    """Dead letters with the same kind of error. Its fingerprint selects them in listings and operations."""

    fingerprint: "str | None"
    status: "str | None"
    error: "str | None"
    count: "int"
    capped: "bool"
    jobs: "int"
    last_hour: "int"
    hourly: "list[int]"
    first_at: "str"
    last_at: "str"
    sample: "str"


class ErrorGroups(TypedDict):
    """Kinds of errors, the most frequent first. Capped: older dead letters were not counted."""

    capped: "bool"
    items: "list[ErrorGroup]"


class Exclude(TypedDict):
    """When not to fire: dates in the schedule's time zone, and calendars by name."""

    dates: "NotRequired[list[str]]"
    calendars: "NotRequired[list[str]]"
    policy: "NotRequired[ExcludePolicy]"


ExcludePolicy: TypeAlias = "Literal['drop', 'hold']"


class Execution(TypedDict):
    """One firing of a job."""

    id: "str"
    job_id: "str"
    job_name: "str | None"
    state: "State"
    cause: "str"
    queue: "str"
    priority: "int"
    fire_at: "str"
    due_at: "str"
    run_at: "str"
    started_at: "str | None"
    finished_at: "str | None"
    lag_ms: "float | None"
    attempt: "int"
    reason: "str | None"
    cancel_requested: "bool"
    rerun_of: "NotRequired[str | None]"
    backfill: "NotRequired[int | None]"
    fire_until: "NotRequired[str | None]"
    fire_count: "NotRequired[int]"
    discarded_at: "NotRequired[str | None]"
    archived: "NotRequired[bool]"
    progress: "NotRequired[Progress | None]"
    attempts: "NotRequired[list[AttemptView]]"


class ExecutionPage(TypedDict):
    """Executions."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[Execution]"


class Explanation(TypedDict):
    """Why an execution waited, was late, was skipped, or is where it is: in words, and the same as steps."""

    execution: "Execution"
    explanation: "list[str]"
    steps: "list[StepView]"


class FailuresInARow(TypedDict):
    """The latest executions of a job all failed for good, the last of them within the window."""

    kind: "Literal['failures_in_a_row']"
    number: "NotRequired[int]"
    window: "NotRequired[str | float]"


class FieldChange(TypedDict):
    """A field of a job that becomes another."""

    field: "str"
    before: "Any"
    after: "Any"


class FindingView(TypedDict):
    """Something that is not as it should be: how urgent it is, why we think so, and the command that mends it or shows more."""

    code: "str"
    severity: "Literal['late', 'soon', 'wrong']"
    words: "str"
    evidence: "list[str]"
    fix: "str"


class Fit(TypedDict):
    """How a schedule would fit into the coming day."""

    peak: "int"
    at: "str | None"
    joins: "int"
    joins_peak: "bool"
    free_slots: "list[str]"


class FitRequest(TypedDict):
    """A schedule that may be saved."""

    schedule: "str | list[str | Schedule] | Schedule"


class Forecast(TypedDict):
    """Expected fires per step, from `at` on."""

    step_s: "int"
    at: "list[str]"
    expected: "list[float]"
    one_offs: "list[int]"
    capacity: "int | None"
    peaks: "list[Peak]"
    free: "list[str]"
    capped: "bool"
    computed_at: "str | None"
    age_s: "int | None"


class FreshKey(TypedDict):
    """A key that was just made, with its text: shown once."""

    key: "Key"
    text: "str"


class GrpcTarget(TypedDict):
    """A unary call. The body is the message in the JSON form of protobuf."""

    kind: "Literal['grpc']"
    address: "str"
    method: "str"
    body: "NotRequired[Any]"
    descriptors: "NotRequired[str | None]"
    metadata: "NotRequired[dict[str, str | SecretRef]]"
    plaintext: "NotRequired[bool]"
    tls: "NotRequired[GrpcTls | None]"
    timeout: "NotRequired[str | float | None]"
    retry_on: "NotRequired[list[Literal['CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS', 'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED']]]"
    template: "NotRequired[bool]"


class GrpcTls(TypedDict):
    """How the two sides know each other."""

    ca: "NotRequired[str | None]"
    client_certificate: "NotRequired[SecretRef | None]"


class Health(TypedDict):
    """Whether this process is well."""

    status: "str"
    detail: "NotRequired[str | None]"


class HostAtRest(TypedDict):
    """Executions have waited for this long for a host or broker that fails or takes no more calls."""

    kind: "Literal['host_at_rest']"
    longer_than: "NotRequired[str | float]"


class HttpTarget(TypedDict):
    """An HTTP request. A JSON body that is not a string is sent as application/json."""

    kind: "Literal['http']"
    url: "str"
    method: "NotRequired[Literal['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']]"
    headers: "NotRequired[dict[str, str | SecretRef]]"
    body: "NotRequired[Any]"
    timeout: "NotRequired[str | float | None]"
    auth: "NotRequired[BearerAuth | BasicAuth | OAuth2Auth | None]"
    expect: "NotRequired[list[int | str]]"
    tls: "NotRequired[ClientTls | None]"
    template: "NotRequired[bool]"
    path_secret: "NotRequired[SecretRef | None]"
    idempotency_key: "NotRequired[str | None]"


class Identity(TypedDict):
    """A key, the tenant that it acts for, and the limits in force there; of these null is none."""

    key_id: "str"
    scopes: "list[Scope]"
    tenant: "str"
    limits_in_force: "Limits"


class Job(TypedDict):
    """A job as it stands."""

    id: "str"
    name: "str | None"
    description: "str | None"
    kind: "str"
    state: "str"
    state_reason: "str | None"
    paused_until: "str | None"
    schedule: "Schedule"
    target: "HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget"
    queue: "str"
    priority: "int"
    tags: "list[str]"
    timeout: "str | float | None"
    start_within: "str | float | None"
    retry: "RetryView"
    misfire: "MisfireView"
    overlap: "Overlap"
    limit: "Limit | None"
    precision: "Precision"
    pause_after: "int | None"
    next_fire_at: "str | None"
    fire_count: "int"
    managed_by: "str | None"
    version: "int"
    created_at: "str"
    updated_at: "str"
    note: "NotRequired[str | None]"
    outcome: "NotRequired[Literal['created', 'existed', 'moved']]"
    due_at: "NotRequired[str]"
    schedule_words: "NotRequired[str]"
    recent: "NotRequired[list[RecentFire]]"
    last_fire_at: "NotRequired[str | None]"
    last_state: "NotRequired[State | None]"
    last_error: "NotRequired[str | None]"
    consecutive_failures: "NotRequired[int]"


class JobBody(TypedDict):
    """A job as it shall be."""

    schedule: "str | list[str | Schedule] | Schedule"
    target: "HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget"
    name: "NotRequired[str | None]"
    description: "NotRequired[str | None]"
    queue: "NotRequired[str]"
    priority: "NotRequired[int]"
    tags: "NotRequired[list[str]]"
    timeout: "NotRequired[str | float | None]"
    start_within: "NotRequired[str | float | None]"
    retry: "NotRequired[Retry]"
    misfire: "NotRequired[MisfirePolicy | Misfire]"
    overlap: "NotRequired[Overlap]"
    limit: "NotRequired[Limit | None]"
    precision: "NotRequired[Precision]"
    pause_after: "NotRequired[int | None]"


class JobCalendar(TypedDict):
    """A job's days."""

    zone: "str"
    covers_from: "str"
    days: "list[CalendarDay]"


class JobPage(TypedDict):
    """Jobs, newest first."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[Job]"


class JobPatch(TypedDict):
    """Fields of a job to change; the others stay. Nested objects are replaced whole."""

    schedule: "NotRequired[str | list[str | Schedule] | Schedule]"
    target: "NotRequired[HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget]"
    name: "NotRequired[str | None]"
    description: "NotRequired[str | None]"
    queue: "NotRequired[str]"
    priority: "NotRequired[int]"
    tags: "NotRequired[list[str]]"
    timeout: "NotRequired[str | float | None]"
    start_within: "NotRequired[str | float | None]"
    retry: "NotRequired[Retry]"
    misfire: "NotRequired[MisfirePolicy | Misfire]"
    overlap: "NotRequired[Overlap]"
    limit: "NotRequired[Limit | None]"
    precision: "NotRequired[Precision]"
    pause_after: "NotRequired[int | None]"


class KafkaTarget(TypedDict):
    """A message to a topic of Kafka. Without a body its value is null, by which a compacted topic deletes a key."""

    kind: "Literal['kafka']"
    connection: "str"
    body: "NotRequired[Any]"
    template: "NotRequired[bool]"
    topic: "str"
    key: "NotRequired[str | None]"
    headers: "NotRequired[dict[str, str]]"


class Key(TypedDict):
    """A key, without its secret. `prefix` is how its text begins."""

    id: "str"
    prefix: "str"
    name: "str"
    tenant: "str"
    scopes: "list[Scope]"
    valid: "bool"
    created_at: "str"
    expires_at: "str | None"
    last_used_at: "str | None"
    revoked_at: "str | None"
    replaced_by: "str | None"


class KeyPage(TypedDict):
    """Keys, by id."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[Key]"


class LagMap(TypedDict):
    """How late executions started: for each step from the instants in `at` on, how many within each bound. The last number of each is what was later than all bounds."""

    step_s: "int"
    bounds_ms: "list[int]"
    at: "list[str]"
    counts: "list[list[int]]"
    behind_s: "int"


class Lane(TypedDict):
    """One job's fires, in order: one by one, or as bands where there are more than 120."""

    job: "str"
    name: "str | None"
    queue: "str"
    tags: "list[str]"
    fires: "list[LaneFire] | None"
    bands: "list[Band] | None"
    covers_from: "str"
    expected_to: "str"


class LaneFire(TypedDict):
    """One fire of a lane, or a run of equal skips. `expected` ones are not planned yet."""

    at: "str"
    state: "Literal['cancelled', 'dead', 'expected', 'expired', 'queued', 'running', 'skipped', 'succeeded']"
    late_ms: "NotRequired[float | None]"
    run_ms: "NotRequired[float | None]"
    reason: "NotRequired[str | None]"
    until: "NotRequired[str | None]"
    count: "NotRequired[int]"


class LateFires(TypedDict):
    """Fewer than this share of the fires within the window started in time, by queue."""

    kind: "Literal['lag']"
    within: "NotRequired[str | float]"
    share: "NotRequired[float]"
    window: "NotRequired[str | float]"
    at_least: "NotRequired[int]"
    queue: "NotRequired[str | None]"


class Lateness(TypedDict):
    """How late executions started, in milliseconds."""

    p50_ms: "float | None"
    p99_ms: "float | None"


class LeaseChurn(TypedDict):
    """Shards changed hands within the window more often than so many times each, on average."""

    kind: "Literal['lease_churn']"
    times: "NotRequired[float]"
    window: "NotRequired[str | float]"


class Limit(TypedDict):
    """Over all jobs of a tenant that share `key`, and over the whole fleet: at most `max_parallel` executions at once, and at most `rate` starts per `per`, evenly spaced."""

    key: "str"
    max_parallel: "NotRequired[int | None]"
    rate: "NotRequired[int | None]"
    per: "NotRequired[str | float]"


class Limits(TypedDict):
    """Limits with every field spelled out; null is none."""

    pending_jobs: "NotRequired[int | None]"
    payload_bytes: "NotRequired[int | None]"
    min_interval: "NotRequired[str | float | None]"
    requests_per_second: "NotRequired[float | None]"
    request_burst: "NotRequired[int | None]"
    in_flight: "NotRequired[int | None]"
    fires_per_second: "NotRequired[float | None]"
    history_days: "NotRequired[int | None]"


class LimitsPatch(TypedDict):
    """Limits of a tenant. What is not given stays; null lets the installation's default apply."""

    pending_jobs: "NotRequired[int | None]"
    payload_bytes: "NotRequired[int | None]"
    min_interval: "NotRequired[str | float | None]"
    requests_per_second: "NotRequired[float | None]"
    request_burst: "NotRequired[int | None]"
    in_flight: "NotRequired[int | None]"
    fires_per_second: "NotRequired[float | None]"
    history_days: "NotRequired[int | None]"


class LogPage(TypedDict):
    """Lines of an execution's attempts, in order."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[LogView]"


class LogView(TypedDict):
    """A line that an attempt logged."""

    attempt: "int"
    seq: "int"
    at: "str"
    level: "str"
    message: "str"
    fields: "dict[str, Any] | None"


class Misfire(TypedDict):
    """A fire time that has not started `grace` after its instant was missed. Older than `lookback` it never runs; of the others, what `policy` says. Under `fire_all` at most the latest `max` run. What runs late does so in the catch-up lane, one every `pace`."""

    policy: "NotRequired[MisfirePolicy]"
    lookback: "NotRequired[str | float]"
    max: "NotRequired[int]"
    pace: "NotRequired[str | float]"
    grace: "NotRequired[str | float]"


MisfirePolicy: TypeAlias = "Literal['fire_all', 'fire_once', 'skip']"


class MisfireView(TypedDict):
    """A misfire policy with its defaults spelled out."""

    policy: "NotRequired[MisfirePolicy]"
    lookback: "NotRequired[str | float]"
    max: "NotRequired[int]"
    pace: "NotRequired[str | float]"
    grace: "NotRequired[str | float]"


Mode: TypeAlias = "Literal['all', 'missing']"


class MovedFire(TypedDict):
    """A fire that comes at another time."""

    before: "str"
    after: "str"


class NatsTarget(TypedDict):
    """A message to a subject of a JetStream stream."""

    kind: "Literal['nats']"
    connection: "str"
    body: "NotRequired[Any]"
    template: "NotRequired[bool]"
    subject: "str"
    stream: "NotRequired[str | None]"
    headers: "NotRequired[dict[str, str]]"


class Need(TypedDict):
    """Something that a person should look at, the most urgent first. `link` is a page of the dashboard. `since` is when a `key` ends, else when it began."""

    kind: "Literal['alert', 'dead', 'key', 'late', 'node', 'overdue', 'paused']"
    text: "str"
    count: "int"
    link: "str"
    since: "NotRequired[str | None]"


NewBackfill = TypedDict(
    "NewBackfill",
    {
        "from": "str",
        "to": "str",
        "mode": "NotRequired[Mode]",
        "order": "NotRequired[Order]",
        "pace": "NotRequired[str | float]",
        "max_parallel": "NotRequired[int]",
        "dry_run": "NotRequired[bool]",
    },
)


class NewConnection(TypedDict):
    """A connection on its way in."""

    kind: "Literal['kafka', 'nats', 'rabbitmq', 'redis', 'sqs', 'smtp']"
    addresses: "list[str]"
    tls: "NotRequired[BrokerTls | None]"
    username: "NotRequired[str | None]"
    password: "NotRequired[SecretRef | None]"
    token: "NotRequired[SecretRef | None]"
    mechanism: "NotRequired[Literal['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512']]"
    virtual_host: "NotRequired[str]"
    region: "NotRequired[str | None]"
    sender: "NotRequired[str | None]"
    creates_streams: "NotRequired[bool]"
    replicas: "NotRequired[int]"
    in_flight: "NotRequired[int]"
    name: "str"


class NewJob(TypedDict):
    """A job to create. With `unique` or `debounce` one one-off is live under a key at a time, among those of one kind of target, for tasks of one task."""

    schedule: "str | list[str | Schedule] | Schedule"
    target: "HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget"
    name: "NotRequired[str | None]"
    description: "NotRequired[str | None]"
    queue: "NotRequired[str]"
    priority: "NotRequired[int]"
    tags: "NotRequired[list[str]]"
    timeout: "NotRequired[str | float | None]"
    start_within: "NotRequired[str | float | None]"
    retry: "NotRequired[Retry]"
    misfire: "NotRequired[MisfirePolicy | Misfire]"
    overlap: "NotRequired[Overlap]"
    limit: "NotRequired[Limit | None]"
    precision: "NotRequired[Precision]"
    pause_after: "NotRequired[int | None]"
    idempotency_key: "NotRequired[str | None]"
    unique: "NotRequired[str | None]"
    debounce: "NotRequired[str | None]"
    max_wait: "NotRequired[str | float | None]"


class NewKey(TypedDict):
    """A key to make."""

    name: "str"
    scopes: "list[Scope]"
    tenant: "NotRequired[str | None]"
    expires_at: "NotRequired[str | None]"
    expires_in: "NotRequired[str | float | None]"


class NewOperation(TypedDict):
    """An operation to make: on what matches `where`, or on `ids`."""

    do: "Do"
    of: "Of"
    where: "NotRequired[OperationFilter | None]"
    ids: "NotRequired[list[str] | None]"
    reason: "NotRequired[str | None]"
    pace: "NotRequired[str | float]"
    steps: "NotRequired[list[int]]"
    stop_at: "NotRequired[Brake | None]"
    dry_run: "NotRequired[bool]"


class NewTenant(TypedDict):
    """A tenant to create."""

    name: "str"
    weight: "NotRequired[int]"
    limits: "NotRequired[LimitsPatch]"


class NodeView(TypedDict):
    """A process of the fleet."""

    id: "int"
    name: "str"
    roles: "list[str]"
    version: "str"
    schema: "int | None"
    alive: "bool"
    shards: "int"
    started_at: "str"
    seen_at: "str"
    queues: "list[str]"
    running: "NotRequired[int | None]"
    held: "NotRequired[int | None]"
    saturation: "NotRequired[float | None]"
    capacity: "NotRequired[int | None]"
    started_per_s: "NotRequired[float | None]"
    clock_ms: "NotRequired[float | None]"


class Nodes(TypedDict):
    """The fleet."""

    items: "list[NodeView]"


class NoopTarget(TypedDict):
    """Succeeds at once: for trying things out and for measuring everything but the call."""

    kind: "Literal['noop']"


class Nothing(TypedDict):
    """The body of an action that takes no instructions: none, or an empty object."""


class OAuth2Auth(TypedDict):
    """`Authorization: Bearer …` with a token that is fetched for the client's credentials (RFC 6749, 4.4)."""

    kind: "Literal['oauth2']"
    token_url: "str"
    client_id: "str | SecretRef"
    client_secret: "SecretRef"
    scope: "NotRequired[str | None]"
    audience: "NotRequired[str | None]"


Of: TypeAlias = "Literal['dead_letters', 'executions', 'jobs']"


class Operation(TypedDict):
    """An operation and how far it has come."""

    id: "int"
    do: "Do"
    of: "Of"
    where: "dict[str, Any] | None"
    state: "Literal['cancelled', 'completed', 'paused', 'running']"
    state_reason: "str | None"
    reason: "str | None"
    matched: "int"
    gathering: "bool"
    done: "int"
    cannot: "int"
    left: "int"
    under_way: "int"
    succeeded: "int"
    failed: "int"
    step: "int"
    steps: "list[int]"
    stop_at: "Brake | None"
    pace: "str"
    rate: "float | None"
    errors: "list[OperationError]"
    by: "str"
    created_at: "str"
    updated_at: "str"
    finished_at: "str | None"


class OperationAnswer(TypedDict):
    """An operation, or what it would act on."""

    operation: "Operation | None"
    count: "int"
    capped: "bool"
    cannot: "list[Refusal]"
    oldest_at: "str | None"
    sample: "list[Thing]"


class OperationError(TypedDict):
    """Why something could not be done, or how an execution failed; how often, and of what first."""

    error: "str"
    count: "int"
    sample: "str"


class OperationFilter(TypedDict):
    """What an operation acts on: the parameters of the listing of jobs, of executions or of dead letters. Without any, all."""

    state: "NotRequired[str | None]"
    queue: "NotRequired[str | None]"
    kind: "NotRequired[Literal['once', 'recurring'] | None]"
    tags: "NotRequired[list[str]]"
    tag_match: "NotRequired[Literal['all', 'any'] | None]"
    name: "NotRequired[str | None]"
    target: "NotRequired[Literal['grpc', 'http', 'kafka', 'nats', 'noop', 'rabbitmq', 'redis', 'script', 'smtp', 'sqs', 'task'] | None]"
    created_from: "NotRequired[str | None]"
    created_to: "NotRequired[str | None]"
    next_fire_from: "NotRequired[str | None]"
    next_fire_to: "NotRequired[str | None]"
    job: "NotRequired[str | None]"
    fire_from: "NotRequired[str | None]"
    fire_to: "NotRequired[str | None]"
    min_lag: "NotRequired[str | None]"
    error: "NotRequired[str | None]"
    fingerprint: "NotRequired[str | None]"


class OperationPage(TypedDict):
    """Operations, newest first."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[Operation]"


Order: TypeAlias = "Literal['newest_first', 'oldest_first']"

Overlap: TypeAlias = "Literal['allow', 'collapse', 'queue', 'replace', 'skip']"


class Owner(TypedDict):
    """Who declares jobs."""

    owner: "str"
    revision: "int | None"
    jobs: "int"
    declared_at: "str"


class Owners(TypedDict):
    """All owners of a tenant's jobs, by name."""

    broken: "NotRequired[list[Broken]]"
    items: "list[Owner]"


class PartitionTrouble(TypedDict):
    """A day of history to come has no partition, or rows are where no day is."""

    kind: "Literal['partitions']"


class Pause(TypedDict):
    """A pause, for good or until an instant."""

    reason: "NotRequired[str | None]"
    until: "NotRequired[str | None]"
    dry_run: "NotRequired[bool]"


class PauseAnswer(TypedDict):
    """What a pause took back out of the queue."""

    job: "Job"
    held: "int"
    dry_run: "NotRequired[bool]"


class PauseQueue(TypedDict):
    """A pause, for good or until an instant."""

    reason: "NotRequired[str | None]"
    until: "NotRequired[str | None]"


class Paused(TypedDict):
    """What is paused."""

    jobs: "Count"
    queues: "int"


class PausedQueue(TypedDict):
    """A queue has been paused for too long."""

    kind: "Literal['queue_paused']"
    longer_than: "NotRequired[str | float]"
    queue: "NotRequired[str | None]"


class Peak(TypedDict):
    """A minute with far more fires than usual."""

    at: "str"
    fires: "int"
    jobs: "list[PeakJob]"


class PeakJob(TypedDict):
    """Jobs with one schedule that fire in a peak: one of them, how many there are, and their fires together."""

    id: "str"
    name: "str | None"
    jobs: "int"
    fires: "int"


class PendingJobs(TypedDict):
    """A tenant has used up so much of its limit of pending jobs."""

    kind: "Literal['pending_jobs']"
    share: "NotRequired[float]"


Precision: TypeAlias = "Literal['exact', 'normal']"


class Preview(TypedDict):
    """The next fires of a schedule and what to know about it."""

    fires: "list[PreviewFire]"
    explanation: "str"
    warnings: "list[str]"


class PreviewFire(TypedDict):
    """A coming fire: the instant, and what the clock on the wall shows."""

    at: "str"
    local: "str"


class PreviewRequest(TypedDict):
    """A schedule to look at before it is saved."""

    schedule: "str | list[str | Schedule] | Schedule"
    after: "NotRequired[str | None]"
    limit: "NotRequired[int]"


class Problem(TypedDict):
    """An error as callers see it. `code` says which one, for programs, and never changes; `field` is the path of the culprit in the request, if there is one."""

    title: "str"
    status: "int"
    detail: "str"
    type: "str"
    code: "str"
    field: "NotRequired[str | None]"
    hint: "NotRequired[str | None]"
    request_id: "NotRequired[str | None]"


class Progress(TypedDict):
    """How far an attempt is: a share from 0 to 1, beyond which it counts as 0 or 1, and a note, cut if it is long."""

    share: "NotRequired[float | None]"
    note: "NotRequired[str | None]"


class Queue(TypedDict):
    """A queue of a tenant as it stands."""

    name: "str"
    tenant: "str"
    paused: "QueuePause | None"
    due: "Due"
    running: "Count"
    per_minute: "list[int]"
    workers: "int"
    limits: "QueueLimits"


class QueueDepth(TypedDict):
    """What is due in one lane of a queue. Priority 10 is the catch-up lane of missed fires."""

    priority: "int"
    tenant: "str"
    due: "Due"


class QueueDetail(TypedDict):
    """A queue with what is due by priority."""

    name: "str"
    tenant: "str"
    paused: "QueuePause | None"
    due: "Due"
    running: "Count"
    per_minute: "list[int]"
    workers: "int"
    limits: "QueueLimits"
    depth: "list[QueueDepth]"


class QueueLimits(TypedDict):
    """The tenant's limits that hold for what its queues start; null is none."""

    in_flight: "int | None"
    fires_per_second: "float | None"


class QueueList(TypedDict):
    """Queues, by name."""

    broken: "NotRequired[list[Broken]]"
    items: "list[Queue]"


class QueuePause(TypedDict):
    """A pause that lasts."""

    since: "str"
    by: "str"
    reason: "str | None"
    until: "str | None"


class QueuePaused(TypedDict):
    """The queue, and how many executions were taken back from workers that had claimed them ahead."""

    queue: "QueueDetail"
    held: "int"


class QueueResumed(TypedDict):
    """The queue, and what of it starts as soon as workers have room."""

    queue: "QueueDetail"
    dry_run: "bool"
    ready: "Count"
    missed: "Count"


class QuietTimes(TypedDict):
    """A time of day in which nothing is told; from 22:00 to 07:00 goes over midnight."""

    begins: "str"
    ends: "str"
    time_zone: "NotRequired[str]"


class RabbitTarget(TypedDict):
    """A message to an exchange of RabbitMQ, which must route it to a queue."""

    kind: "Literal['rabbitmq']"
    connection: "str"
    body: "NotRequired[Any]"
    template: "NotRequired[bool]"
    exchange: "NotRequired[str]"
    routing_key: "NotRequired[str]"
    headers: "NotRequired[dict[str, str]]"


class Reason(TypedDict):
    """Why something is done, for later readers."""

    reason: "NotRequired[str | None]"


class RebuiltHour(TypedDict):
    """The hour that was counted."""

    hour: "str"


class RecentFire(TypedDict):
    """How one of a job's last executions ended."""

    id: "str"
    fire_at: "str"
    state: "State"
    late_ms: "float | None"
    run_ms: "float | None"
    reason: "str | None"


class RedisTarget(TypedDict):
    """An entry of a Redis stream. The body is its field `body`."""

    kind: "Literal['redis']"
    connection: "str"
    body: "NotRequired[Any]"
    template: "NotRequired[bool]"
    stream: "str"
    fields: "NotRequired[dict[str, str]]"
    max_length: "NotRequired[int | None]"


class Refusal(TypedDict):
    """Why the action is not possible, and for how many."""

    reason: "str"
    count: "int"


class Reseal(TypedDict):
    """Which secrets to encrypt anew: the first, or those after `cursor`."""

    cursor: "NotRequired[str | None]"


class ResealAnswer(TypedDict):
    """What was encrypted anew, under which key. `remaining` are still under another one."""

    key_id: "str"
    secrets: "int"
    webhook_secrets: "int"
    unopened: "list[UnopenedSecret]"
    remaining: "int"
    next_cursor: "str | None"


class Resume(TypedDict):
    """With `dry_run` nothing is changed. `misfire` decides this once instead of the job's own policy."""

    dry_run: "NotRequired[bool]"
    misfire: "NotRequired[MisfirePolicy | Misfire | None]"


class ResumeAnswer(TypedDict):
    """What resuming fired at once and left out."""

    job: "Job"
    dry_run: "bool"
    fired: "int"
    skipped: "int"
    fire_times: "list[str]"


class ResumeQueue(TypedDict):
    """With `dry_run` nothing is changed."""

    dry_run: "NotRequired[bool]"


class Retry(TypedDict):
    """Exponential backoff: initial · multiplierⁿ up to max, of which a `jitter` share is random. `on` lists what is worth another attempt: ``network``, ``timeout``, statuses and classes of statuses."""

    max_attempts: "NotRequired[int]"
    initial_backoff: "NotRequired[str | float]"
    max_backoff: "NotRequired[str | float]"
    multiplier: "NotRequired[float]"
    jitter: "NotRequired[float]"
    on: "NotRequired[list[int | str]]"
    max_age: "NotRequired[str | float | None]"


class RetryView(TypedDict):
    """A retry policy with its defaults spelled out."""

    max_attempts: "NotRequired[int]"
    initial_backoff: "NotRequired[str | float]"
    max_backoff: "NotRequired[str | float]"
    multiplier: "NotRequired[float]"
    jitter: "NotRequired[float]"
    on: "NotRequired[list[int | str]]"
    max_age: "NotRequired[str | float | None]"


class Rotation(TypedDict):
    """How long the old one stays valid beside the new one."""

    overlap: "NotRequired[str | float]"


class Run(TypedDict):
    """With `override_overlap` it runs although the job must not overlap."""

    override_overlap: "NotRequired[bool]"


Schedule = TypedDict(
    "Schedule",
    {
        "at": "NotRequired[str | None]",
        "in": "NotRequired[str | float | None]",
        "now": "NotRequired[bool | None]",
        "every": "NotRequired[str | float | None]",
        "cron": "NotRequired[str | None]",
        "time_zone": "NotRequired[str | None]",
        "dst": "NotRequired[Dst | None]",
        "starts_at": "NotRequired[str | None]",
        "ends_at": "NotRequired[str | None]",
        "max_fires": "NotRequired[int | None]",
        "jitter": "NotRequired[str | float | None]",
        "any_of": "NotRequired[list[Schedule] | None]",
        "exclude": "NotRequired[Exclude | None]",
    },
)

Scope: TypeAlias = "Literal['admin', 'read', 'worker', 'write']"


class ScriptLimits(TypedDict):
    """What a script may use."""

    time: "NotRequired[str | float]"
    memory: "NotRequired[str | int]"
    processes: "NotRequired[int]"
    output: "NotRequired[str | int]"
    disk: "NotRequired[str | int]"
    network: "NotRequired[bool]"


class ScriptTarget(TypedDict):
    """A script in a sandbox. `stdin` that is not a string is given as JSON."""

    kind: "Literal['script']"
    interpreter: "str"
    source: "str"
    args: "NotRequired[list[str]]"
    env: "NotRequired[dict[str, str | SecretRef]]"
    stdin: "NotRequired[Any]"
    limits: "NotRequired[ScriptLimits]"


class Secret(TypedDict):
    """A secret, without its value."""

    name: "str"
    updated_at: "str"


class SecretPage(TypedDict):
    """Secrets, by name."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[Secret]"


class SecretRef(TypedDict):
    """Stands for the value of a secret."""

    secret: "str"


class SecretValue(TypedDict):
    """The value of a secret, on its way in."""

    value: "Any"


class Series(TypedDict):
    """What ended in each step from the instants in `at` on, by what was asked for, and in all. Before `covers_from` nothing was counted."""

    step_s: "int"
    at: "list[str]"
    series: "list[SeriesLine]"
    total: "SeriesLine"
    behind_s: "int"
    covers_from: "str"


class SeriesLine(TypedDict):
    """One series: a number for each of the buckets."""

    key: "str"
    fires: "list[int]"
    p50_ms: "list[float | None]"
    p99_ms: "list[float | None]"


class SettingView(TypedDict):
    """A setting of the API process that answers; of a secret only whether it is `set`."""

    name: "str"
    value: "str | None"
    default: "bool"


class Shard(TypedDict):
    """A shard and who leases it."""

    shard: "int"
    epoch: "int"
    owner: "int | None"
    node: "str | None"
    expires_at: "str | None"


class Shards(TypedDict):
    """All shards."""

    items: "list[Shard]"


class SkipAnswer(TypedDict):
    """Which fire was left out."""

    job: "Job"
    skipped: "str"


class SmtpTarget(TypedDict):
    """A mail. Its body is plain text."""

    kind: "Literal['smtp']"
    connection: "str"
    body: "NotRequired[Any]"
    template: "NotRequired[bool]"
    to: "list[str]"
    subject: "str"


class SqsTarget(TypedDict):
    """A message to a queue of SQS."""

    kind: "Literal['sqs']"
    connection: "str"
    body: "NotRequired[Any]"
    template: "NotRequired[bool]"
    queue_url: "str"
    group: "NotRequired[str | None]"
    attributes: "NotRequired[dict[str, str]]"


class StandingView(TypedDict):
    """What a failover of the database would cost. `behind` is how far the standby that is last is behind."""

    kind: "Literal['alone', 'asynchronous', 'synchronous', 'unknown', 'waiting']"
    words: "str"
    standbys: "int"
    in_step: "int"
    behind_bytes: "int | None"
    behind_s: "float | None"


State: TypeAlias = (
    "Literal['cancelled', 'claimed', 'dead', 'expired', 'queued', 'running', 'skipped', 'succeeded']"
)

StepView = TypedDict(
    "StepView",
    {"kind": "str", "words": "str", "from": "str | None", "to": "str | None", "link": "str | None"},
)


class Summary(TypedDict):
    """How a tenant's work stands. `running` and `due` are the tenant's; `held` and `capacity` are the fleet's, for operators."""

    now: "str"
    running: "Count"
    held: "int | None"
    capacity: "int | None"
    due: "Due"
    ended_1h: "Ended"
    late_1h: "Lateness"
    on_time_1h: "float | None"
    dead_24h: "Count"
    recurring_jobs: "Count"
    paused: "Paused"
    needs_you: "list[Need]"


class System(TypedDict):
    """How the installation is."""

    now: "str"
    version: "str"
    versions: "dict[str, int]"
    roles: "dict[str, int]"
    database: "DatabaseView"
    checks: "list[Check]"
    settings: "list[SettingView]"


class TableView(TypedDict):
    """A table, as the server's statistics have it."""

    name: "str"
    size_bytes: "int"
    live_rows: "int"
    dead_rows: "int"


class TallyHour(TypedDict):
    """The hour to count again: the one that holds this instant."""

    hour: "str"


class TargetTrial(TypedDict):
    """A target to call once."""

    target: "HttpTarget | NoopTarget | TaskTarget | ScriptTarget | GrpcTarget | KafkaTarget | NatsTarget | RabbitTarget | RedisTarget | SqsTarget | SmtpTarget"
    name: "NotRequired[str | None]"
    timeout: "NotRequired[str | float | None]"


class TaskTarget(TypedDict):
    """A call of a task. `payload` is what the function is given; `trace` the caller's `traceparent`."""

    kind: "Literal['task']"
    task: "str"
    payload: "NotRequired[Any]"
    trace: "NotRequired[str | None]"


class Tenant(TypedDict):
    """A tenant. `limits` are its own, `limits_in_force` those and the installation's defaults."""

    name: "str"
    state: "TenantState"
    state_reason: "str | None"
    weight: "int"
    limits: "Limits"
    limits_in_force: "Limits"
    created_at: "str"
    updated_at: "str"
    deleted_at: "NotRequired[str | None]"


class TenantPage(TypedDict):
    """Tenants, by name."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[Tenant]"


class TenantPatch(TypedDict):
    """What to change of a tenant."""

    weight: "NotRequired[int]"
    limits: "NotRequired[LimitsPatch]"


TenantState: TypeAlias = "Literal['active', 'suspended']"


class Thing(TypedDict):
    """One that matches."""

    id: "str"
    name: "str | None"
    state: "str"


class Timeline(TypedDict):
    """Lanes of a page of jobs."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    now: "str"
    step_s: "int"
    lanes: "list[Lane]"


class TrialAnswer(TypedDict):
    """How the call ended."""

    called: "bool"
    verdict: "Verdict | None"
    error: "str | None"
    detail: "dict[str, Any] | None"
    duration_ms: "float"
    execution: "str"


class UnopenedSecret(TypedDict):
    """A secret that could not be opened, and stays as it is. A webhook secret is called ``webhook/<version>``."""

    tenant: "str"
    name: "str"
    key_id: "str"
    reason: "str"


class Unserved(TypedDict):
    """Executions wait in a queue for a route that no live worker serves."""

    kind: "Literal['unserved']"
    waiting: "NotRequired[str | float]"


Verdict: TypeAlias = "Literal['cancelled', 'failed', 'lost', 'rejected', 'skipped', 'succeeded', 'timed_out']"


class WebhookSecret(TypedDict):
    """What requests are signed with. `expires_at` is null for the newest."""

    secret: "str"
    created_at: "str"
    expires_at: "str | None"


class WebhookSecrets(TypedDict):
    """The live signing secrets, newest first."""

    items: "list[WebhookSecret]"


class Worker(TypedDict):
    """A remote worker: what it serves, how busy it is, when it was heard of."""

    id: "str"
    name: "str"
    app: "str | None"
    revision: "str | None"
    sdk: "str | None"
    state: "Literal['active', 'draining', 'gone']"
    queues: "list[str]"
    tasks: "list[str]"
    capacity: "int"
    running: "int"
    lease_ms: "int"
    started_at: "str"
    seen_at: "str"


class WorkerPage(TypedDict):
    """Remote workers."""

    broken: "NotRequired[list[Broken]]"
    next_cursor: "str | None"
    items: "list[Worker]"
