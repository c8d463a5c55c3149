#!/bin/sh
# Creates one job two seconds ahead over HTTP and waits until it has run. Needs curl and python3.
#
# Run it in the directory where `make run` (or `tocsin serve`) was started:
#
#     sh examples/first_job.sh
#
# Another server: TOCSIN_URL=http://host:8420 TOCSIN_API_KEY=… sh examples/first_job.sh
# Another port for the sink that is called: SINK_PORT=9100 sh examples/first_job.sh
set -eu

url=${TOCSIN_URL:-http://127.0.0.1:8420}
key=${TOCSIN_API_KEY:-$(cat "${TOCSIN_DATA_DIR:-.tocsin}/admin-key")}
port=${SINK_PORT:-9009}

ask() {
    curl --silent --show-error --fail-with-body --header "Authorization: Bearer $key" "$@"
}

# The first value of a field in a JSON answer.
field() {
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1
}

# A sink that runs already, in another terminal, does as well.
if ! curl --silent --output /dev/null "http://127.0.0.1:$port/"; then
    python3 "$(dirname "$0")/sink.py" "$port" &
    sink=$!
    trap 'kill $sink' EXIT
fi

job=$(ask --json "{
    \"name\": \"first job\",
    \"schedule\": {\"in\": \"2s\"},
    \"target\": {\"kind\": \"http\", \"url\": \"http://127.0.0.1:$port/hello\", \"body\": {\"hello\": \"world\"}}
}" "$url/v1/jobs" | field id)
echo "created $job, due in 2 seconds"

state=queued
tries=0
while [ "$state" != succeeded ] && [ "$tries" -lt 100 ]; do
    sleep 0.2
    tries=$((tries + 1))
    state=$(ask "$url/v1/jobs/$job/executions" | field state)
done

echo "execution $state"
[ "$state" = succeeded ]
