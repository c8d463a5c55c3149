"""What readers of other schedulers' files make of each form, and what they leave."""

import json
import textwrap

import pytest
from click.testing import CliRunner

from tocsin.cli.importing.apscheduler import read_module
from tocsin.cli.importing.celery_beat import read_beat
from tocsin.cli.importing.commands import Commands
from tocsin.cli.importing.crontab import read_crontab
from tocsin.cli.importing.eventbridge import read_schedules
from tocsin.cli.importing.kubernetes import read_cron_jobs
from tocsin.cli.importing.quartz import read_quartz
from tocsin.cli.importing.reading import Unfit
from tocsin.cli.importing.web_calls import web_call
from tocsin.cli.main import cli


def _crontab(text, *, system=False, time_zone=None, commands=Commands.SKIP):
    return read_crontab(textwrap.dedent(text), system=system, time_zone=time_zone, commands=commands)


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("curl https://e.com/a", {"url": "https://e.com/a", "method": "GET"}),
        ("/usr/bin/curl -fsS e.com >/dev/null 2>&1", {"url": "http://e.com", "method": "GET"}),
        (
            """curl -sX PUT -H 'X-A: b c' --json '{"a": [1]}' "https://e.com/?x=1&y=2" """,
            {
                "url": "https://e.com/?x=1&y=2",
                "method": "PUT",
                "headers": {"X-A": "b c", "Accept": "application/json"},
                "body": {"a": [1]},
            },
        ),
        (
            "curl -d a=1 -d b=2 -m 10 --retry 3 https://e.com",
            {
                "url": "https://e.com",
                "method": "POST",
                "headers": {"Content-Type": "application/x-www-form-urlencoded"},
                "body": "a=1&b=2",
                "timeout": "10s",
            },
        ),
        ("curl -G -d a=1 $HOST/x", {"url": "https://h.example/x?a=1", "method": "GET"}),
        (
            "timeout 5m wget -qO- --spider https://e.com",
            {"url": "https://e.com", "method": "HEAD", "timeout": "5m"},
        ),
        ("wget --post-data='' -O /tmp/x https://e.com", {"url": "https://e.com", "method": "POST"}),
    ],
)
def test_a_line_with_curl_or_wget_is_the_same_call(command, target):
    call = web_call(command, {"HOST": "https://h.example"})
    assert call is not None
    assert call.target() == {"kind": "http"} | target


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("curl https://e.com | jq .", "more than one command"),
        ("curl https://e.com && true", "more than one command"),
        ("curl https://e.com/$(date +%s)", "within the command"),
        ("curl https://e.com/$UNKNOWN", "$UNKNOWN"),
        ("curl -k https://e.com", "certificate"),
        ("curl -d @/tmp/file https://e.com", "file of its machine"),
        ("curl -T file https://e.com", "option -T"),
        ("curl https://e.com https://f.com", "more than one URL"),
        ("curl 'https://e.com", "not closed"),
    ],
)
def test_a_line_that_would_mean_something_else_is_left(command, why):
    (left,) = _crontab(f"0 0 * * * {command}").left
    assert why in left.why


def test_credentials_become_secrets_and_stand_nowhere_else():
    reading = _crontab(
        """
        @daily curl -u me:hunter2 https://e.com/a
        @daily curl -H 'Authorization: Bearer tok3n' https://e.com/b
        @daily curl -H 'X-Api-Key: k3y' https://e.com/c
        @daily curl -u me:hunter2 https://e.com/d
        """
    )
    first, second, third, fourth = reading.found
    assert first.job["target"]["auth"]["password"] == fourth.job["target"]["auth"]["password"]
    assert second.job["target"]["auth"] == {"kind": "bearer", "token": {"secret": next(iter(second.secrets))}}
    assert third.job["target"]["headers"] == {"X-Api-Key": {"secret": next(iter(third.secrets))}}
    assert sorted(value for one in reading.found for value in one.secrets.values()) == [
        "hunter2",
        "hunter2",
        "k3y",
        "tok3n",
    ]
    written = json.dumps([one.job for one in reading.found]) + str([one.notes for one in reading.found])
    assert not any(value in written for value in ("hunter2", "tok3n", "k3y"))


def test_a_crontabs_own_lines_are_heeded():
    reading = _crontab(
        """
        # name: first
        0 1 * * * curl https://e.com/1
        CRON_TZ = Europe/Berlin
        MAILTO="ops@example.com"
        BASE='https://e.com'
        0 2 * * * curl $BASE/same
        0 3 * * * flock -n /tmp/l curl $BASE/same
        @reboot /bin/start
        * * * *
        0~30 4 * * * true
        """
    )
    assert [(one.name, one.job["schedule"]) for one in reading.found] == [
        ("first", {"cron": "0 1 * * *"}),
        ("e.com/same", {"cron": "0 2 * * *", "time_zone": "Europe/Berlin"}),
        ("e.com/same-2", {"cron": "0 3 * * *", "time_zone": "Europe/Berlin"}),
    ]
    assert reading.found[2].job["overlap"] == "skip"
    assert [(one.where, one.why) for one in reading.left] == [
        ("line 9", "@reboot is no time"),
        ("line 10", "it is neither an entry nor a variable"),
        ("line 11", "~ draws a random time"),
    ]
    assert "systemd" in reading.left[0].hint
    assert any("MAILTO=ops@example.com" in note for note in reading.notes)


def test_a_systems_crontab_has_users_and_percent_signs_end_commands():
    text = "API_TOKEN=x\nLEVEL=3\n5 4 * * * root /opt/mail.sh 10\\% %to me%bye\n"
    (script,) = _crontab(text, system=True, commands=Commands.SCRIPT).found
    secret = next(iter(script.secrets))
    assert script.job["target"] == {
        "kind": "script",
        "interpreter": "sh",
        "source": "/opt/mail.sh 10%",
        "env": {"API_TOKEN": {"secret": secret}, "LEVEL": "3"},
        "stdin": "to me\nbye",
    }
    assert script.notes[0] == "ran as root"
    (task,) = _crontab(text, system=True, commands=Commands.TASK).found
    assert task.job["target"]["payload"] == {
        "command": "/opt/mail.sh 10%",
        "env": {"LEVEL": "3"},
        "stdin": "to me\nbye",
    }
    (left,) = _crontab(text, system=True).left
    assert "it runs a command" in left.why


def test_what_a_cron_job_says_beside_its_schedule_is_taken_over():
    text = """
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: report, namespace: shop}
        spec:
          schedule: "0 3 * * *"
          timeZone: Europe/Berlin
          concurrencyPolicy: Forbid
          startingDeadlineSeconds: 200
          suspend: true
          jobTemplate:
            spec:
              backoffLimit: 2
              activeDeadlineSeconds: 600
              template:
                spec:
                  containers:
                    - {name: c, image: "curlimages/curl:8", args: ["-fsS", "https://e.com/$(X)"]}
        ---
        kind: ConfigMap
        ---
        kind: CronJob
        metadata: {name: call}
        spec:
          schedule: "@every 1h30m"
          jobTemplate: {spec: {template: {spec: {containers: [{image: alpine, command: [sh, -c, "wget -qO- $BASE/x"],
            env: [{name: BASE, value: "https://e.com"}]}]}}}}
        """
    reading = read_cron_jobs(textwrap.dedent(text), time_zone=None, commands=Commands.TASK)
    report, call = reading.found
    assert report.name == "shop/report"
    assert report.suspended
    assert report.job == {
        "schedule": {"cron": "0 3 * * *", "time_zone": "Europe/Berlin", "dst": "literal"},
        "target": report.job["target"],
        "overlap": "skip",
        "start_within": "200s",
        "misfire": {"lookback": "200s"},
        "retry": {"max_attempts": 3},
        "timeout": "600s",
    }
    assert call.job == {
        "schedule": {"every": "1h30m"},
        "target": {"kind": "http", "url": "https://e.com/x", "method": "GET"},
    }
    assert "1 objects that are not CronJobs were passed over" in reading.notes
    (left,) = read_cron_jobs(
        'kind: CronJob\nspec: {schedule: "@daily", jobTemplate: {spec: {template: {spec: {containers: [{image: x}]}}}}}',
        time_zone=None,
        commands=Commands.SKIP,
    ).left
    assert "the image x" in left.why


def test_a_module_of_celery_is_read_and_not_run():
    module = """
        raise SystemExit
        EVERY = 5 * 60
        app.conf.timezone = "Europe/Paris"
        app.conf.beat_schedule = {
            "poll": {"task": "shop.poll", "schedule": EVERY, "options": {"queue": "slow", "expires": 60}},
            "mail": {"task": "shop.mail", "schedule": crontab(minute=0, hour=[8, 20]), "args": (7,), "kwargs": {"a": 1}},
            "sun": {"task": "shop.sun", "schedule": solar("sunset", 1, 2)},
            "fn": {"task": "shop.fn", "schedule": crontab(hour=choose())},
            "friday": {"task": "shop.fn", "schedule": crontab(0, 0, "fri", "13")},
        }
        """
    reading = read_beat(textwrap.dedent(module), time_zone=None)
    poll, mail = reading.found
    assert poll.job == {
        "schedule": {"every": 300},
        "target": {"kind": "task", "task": "shop.poll"},
        "queue": "slow",
        "start_within": 60,
    }
    assert mail.job == {
        "schedule": {"cron": "0 8,20 * * *", "time_zone": "Europe/Paris"},
        "target": {"kind": "task", "task": "shop.mail", "payload": {"a": 1, "args": [7]}},
    }
    assert [one.what for one in reading.left] == ["sun", "fn", "friday"]


def test_a_dump_of_django_celery_beat_is_read():
    rows = [
        {"model": "django_celery_beat.crontabschedule", "pk": 1, "fields": {
            "minute": "30", "hour": "4", "day_of_week": "*", "day_of_month": "*", "month_of_year": "*", "timezone": "Asia/Tokyo"}},
        {"model": "django_celery_beat.intervalschedule", "pk": 2, "fields": {"every": 10, "period": "minutes"}},
        {"model": "django_celery_beat.periodictask", "pk": 1, "fields": {
            "name": "a", "task": "x.a", "crontab": 1, "args": "[]", "kwargs": '{"n": 2}', "enabled": False}},
        {"model": "django_celery_beat.periodictask", "pk": 2, "fields": {"name": "b", "task": "x.b", "interval": 2}},
        {"model": "django_celery_beat.periodictask", "pk": 3, "fields": {"name": "c", "task": "x.c", "interval": 9}},
    ]  # fmt: skip
    reading = read_beat(json.dumps(rows), time_zone=None)
    first, second = reading.found
    assert first.suspended
    assert first.job["schedule"] == {"cron": "30 4 * * *", "time_zone": "Asia/Tokyo"}
    assert first.job["target"]["payload"] == {"n": 2}
    assert second.job["schedule"] == {"every": 600}
    assert "no intervalschedule 9" in reading.left[0].why


def test_schedules_of_eventbridge_count_weekdays_from_one():
    def schedule(name, expression, **more):
        target = {"Arn": "arn:aws:lambda:eu-west-1:1:function:send-mail", "Input": '{"a": 1}'}
        return {"Name": name, "ScheduleExpression": expression, "Target": target} | more

    document = {
        "Schedules": [
            schedule("a", "cron(15 10 ? * 6L 2027-2030)", ScheduleExpressionTimezone="Europe/Berlin"),
            schedule("b", "cron(0 9 ? * MON-FRI *)", State="DISABLED"),
            schedule("c", "rate(5 minutes)", StartDate="2027-01-01T00:00:00Z", GroupName="g"),
            schedule("d", "at(2030-05-01T09:00:00)", ScheduleExpressionTimezone="Europe/Berlin"),
            schedule("e", "cron(0 9 ? * 2#1 2027,2030)"),
        ]
    }
    reading = read_schedules(json.dumps(document))
    assert [one.job["schedule"] for one in reading.found] == [
        {
            "cron": "15 10 * * 5L",
            "time_zone": "Europe/Berlin",
            "dst": "once",
            "starts_at": "2027-01-01T00:00:00Z",
            "ends_at": "2030-12-31T23:59:59Z",
        },
        {"cron": "0 9 * * MON-FRI"},
        {"every": "5m", "starts_at": "2027-01-01T00:00:00+00:00"},
        {"at": "2030-05-01T09:00:00+02:00"},
    ]
    assert [one.name for one in reading.found] == ["a", "b", "g/c", "d"]
    assert reading.found[0].job["target"] == {"kind": "task", "task": "send-mail", "payload": {"a": 1}}
    assert reading.found[1].suspended
    assert "2027,2030" in reading.left[0].why


def test_apscheduler_counts_weekdays_from_monday_and_fills_in_lower_fields():
    module = """
        @scheduler.scheduled_job("cron", day_of_week="mon-fri", hour=9)
        def report(): ...

        scheduler.add_job(send, "interval", minutes=5, id="send")
        scheduler.add_job("shop.tasks:tidy", CronTrigger(day="last", timezone="Asia/Tokyo"), max_instances=3)
        scheduler.add_job(lambda: 1, "interval", minutes=5)
        """
    reading = read_module(textwrap.dedent(module), time_zone=None)
    found = {one.name: one.job for one in reading.found}
    assert found["report"]["schedule"] == {"cron": "0 9 * * 1,2,3,4,5"}
    assert found["report"]["overlap"] == "skip"
    assert found["send"]["schedule"] == {"every": 300}
    assert found["shop.tasks.tidy"]["schedule"] == {"cron": "0 0 L * *", "time_zone": "Asia/Tokyo"}
    assert "overlap" not in found["shop.tasks.tidy"]
    assert [one.why for one in reading.left] == ["what it calls has no name"]


def test_triggers_of_quartz_become_tasks():
    text = """<job-scheduling-data xmlns="http://www.quartz-scheduler.org/xml/JobSchedulingData"><schedule>
      <job><name>j</name><group>g</group><job-class>shop.Mail</job-class>
        <job-data-map><entry><key>to</key><value>me</value></entry></job-data-map></job>
      <trigger><cron><name>t1</name><job-name>j</job-name><job-group>g</job-group>
        <misfire-instruction>MISFIRE_INSTRUCTION_DO_NOTHING</misfire-instruction>
        <cron-expression>0 0/15 8 ? * 2-6</cron-expression></cron></trigger>
      <trigger><simple><name>t2</name><job-name>j</job-name><job-group>g</job-group>
        <repeat-count>-1</repeat-count><repeat-interval>10000</repeat-interval></simple></trigger>
      <trigger><simple><name>t3</name><job-name>j</job-name></simple></trigger>
    </schedule></job-scheduling-data>"""
    reading = read_quartz(text, time_zone="UTC")
    first, second = reading.found
    assert first.job == {
        "schedule": {"cron": "0/15 8 * * 1-5", "time_zone": "UTC", "dst": "once"},
        "target": {"kind": "task", "task": "shop.Mail", "payload": {"to": "me"}},
        "misfire": "skip",
    }
    assert second.job["schedule"] == {"every": "10000ms"}
    assert [one.why for one in reading.left] == ["it fires once"]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda text: read_cron_jobs(text, time_zone=None, commands=Commands.SKIP), "a: [b"),
        (lambda text: read_beat(text, time_zone=None), "def ("),
        (lambda text: read_beat(text, time_zone=None), "[1]"),
        (read_schedules, "{"),
        (lambda text: read_quartz(text, time_zone=None), "<a>"),
    ],
)
def test_a_file_of_another_form_is_refused(read, text):
    with pytest.raises(Unfit):
        read(text)


def test_a_dry_run_asks_no_server_and_says_what_is_not_taken_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TOCSIN_API_KEY", "TOCSIN_ADMIN_KEY", "TOCSIN_URL", "TOCSIN_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "crontab"
    file.write_text("0 9 * * * curl https://e.com/a\n@reboot x\n30 2 30 2 * curl https://e.com/b\n")
    outcome = CliRunner().invoke(cli, ["import", "crontab", "--dry-run", "--json", str(file)])
    assert outcome.exit_code == 1
    answer = json.loads(outcome.stdout)
    (job,) = answer["jobs"]
    assert (job["name"], job["words"]) == ("e.com/a", "at 09:00 every day (UTC)")
    assert len(job["fires"]) == 2
    assert job["job"]["tags"] == ["imported:crontab"]
    assert [one["where"] for one in answer["not_taken_over"]] == ["line 2", "line 3"]
    shown = CliRunner().invoke(cli, ["import", "crontab", "--dry-run", str(file)])
    assert "1 can be taken over, 2 not" in shown.stdout
