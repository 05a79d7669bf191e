#!/usr/bin/env bash
#
# nginx-gpu.sh - how NGINX translates under load, as one table; see --help.

set -euo pipefail

cd "$(dirname "$(readlink -f "$0")")/.."

readonly MODULE=${HYMT_MODULE:-build/ngx_http_hymt_module.so}
readonly PROGRAMS=${HYMT_PROGRAMS:-build/bench}
readonly LIBRARY=${HYMT_CUDA_LIBRARY:-build/hymt_cuda.so}
readonly NGINX=${NGINX_BINARY:-nginx}
readonly BACKEND=${BACKEND:-cuda}
readonly WORKERS=${WORKERS:-2}
readonly MAX_BATCH=${MAX_BATCH:-256}
readonly CONTEXT=${CONTEXT:-2048}
readonly EACH=${EACH:-4}
readonly LONG=${LONG:-0}
readonly PORT=${PORT:-18080}
readonly CASES=${CASES:-all}


usage() {
    cat <<END
usage: bench/nginx-gpu.sh [MODEL]

Starts NGINX with the module, a dedicated engine worker and the model directory
MODEL (else a 1.8B with random weights is made), as user nobody where root runs
this, and prints one table: 60 tokens in and 40 out (jittered by half, but for
one row) with 1, 8, 50 and 256 clients, Poisson arrivals of 200 and 400 a
second, all of these with events, whose first token is timed, and 200 in and 200
out with 256; the 99th percentile of a static location idle, two seconds before
each such row and two after, and loaded, four seconds or more.  CPU time is
counted while nobody asks for that, of the event loops of all workers together.
Beside it in brackets is their floor: the same POSTs at the same rate, answered
by "return 200", for a second after each row.  Outputs have exact lengths
(ignore_eos).

With eight cores or more the threads of the engine's worker, the other workers
and the client keep to cores of their own.

environment
  NGINX_BINARY       nginx, found in PATH unless set
  HYMT_MODULE        the module: build/ngx_http_hymt_module.so
  HYMT_CUDA_LIBRARY  its CUDA part: build/hymt_cuda.so
  HYMT_PROGRAMS      where http-load and random-model are: build/bench
  BACKEND            cuda
  WORKERS            2, of which one has the engine
  MAX_BATCH CONTEXT  256, 2048
  EACH               seconds of each row: 4
  CASES              "none"; "short": rows of 1, 50 and 256 clients; "all"
  LONG               seconds of mixed lengths at the end (20 to 600 tokens in, 8
                     to 300 out, 128 clients), with memory before and after: 0
  MAIN_CONF          more lines for nginx.conf: 'env HYMT_CUDA_GRAPHS=off;'
  LOAD_OPTIONS       options for http-load, say --more '"temperature":0.7'
END
}


die() {
    echo "nginx-gpu.sh: $*" >&2
    exit 1
}


# ---- the server ----

work=
started=

stop() {
    if [ -n "$started" ]; then
        kill -TERM "$(cat "$work/nginx.pid")" 2>/dev/null || true
        sleep 1
    fi

    if [ -n "$work" ]; then
        rm -rf "$work"
    fi
}


# A folder that the workers' user can read: module, library, model.
prepare() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/hymt-bench.XXXXXX")
    chmod 755 "$work"
    trap stop EXIT

    cp "$MODULE" "$work/module.so"

    if [ -e "$LIBRARY" ]; then
        cp "$LIBRARY" "$work/hymt_cuda.so"
    fi

    model=${1:-}

    if [ -z "$model" ]; then
        model=$work/1.8B
        "$PROGRAMS/random-model" 1.8B "$model"
    fi

    model=$(readlink -f "$model")
}


# Masks of one bit a core, the last core first, as NGINX writes them: three
# cores for the engine's worker, one for each other; sets client to the rest.
affinity() {
    local n i j mask masks=

    n=$(nproc)
    client=

    if [ "$n" -lt 8 ] || [ "$n" -lt $((WORKERS + 3)) ]; then
        return
    fi

    for ((i = 0; i < WORKERS; i++)); do
        mask=

        for ((j = 0; j < n; j++)); do
            if { [ "$i" = 0 ] && [ "$j" -lt 3 ]; } \
               || { [ "$i" -gt 0 ] && [ "$j" = $((i + 2)) ]; }
            then
                mask=1$mask
            else
                mask=0$mask
            fi
        done

        masks+=" $mask"
    done

    echo "worker_cpu_affinity$masks;"
}


configure() {
    {
        if [ "$(id -u)" = 0 ]; then
            echo "user nobody nogroup;"
        fi

        affinity
        cat <<END
load_module $work/module.so;
worker_processes $WORKERS;
worker_rlimit_nofile 16384;
pid $work/nginx.pid;
error_log $work/error.log notice;
env HYMT_CUDA_LIBRARY=$work/hymt_cuda.so;
env LD_LIBRARY_PATH;
${MAIN_CONF:-}

events { worker_connections 4096; }

http {
    access_log off;
    keepalive_requests 100000000;
    keepalive_timeout 600s;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;

    hymt_model mt {
        path $model;
        backend $BACKEND;
        max_batch $MAX_BATCH;
        context $CONTEXT;
        queue 8192;
        ignore_eos on;
    }

    server {
        listen 127.0.0.1:$PORT backlog=4096;
        location = /translate { hymt_translate mt; }
        location = /static { return 200 "static\n"; }
        location = /floor { return 200 "$(printf '%0300d' 0)"; }
        location = /status { hymt_status; }
        location = /ready { hymt_status ready; }
    }
}
END
    } > "$work/nginx.conf"

    if [ "$(nproc)" -ge 8 ] && [ "$(nproc)" -ge $((WORKERS + 3)) ]; then
        client="taskset -c $((WORKERS + 2))-$(($(nproc) - 1))"
    fi
}


# get URI: the answer, head and body.
get() {
    exec 3<>"/dev/tcp/127.0.0.1/$PORT" || return 1
    printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
    cat <&3
    exec 3<&- 3>&-
}


reason() {
    get /status | sed -n -e 's/^ *"reason": "\(.*\)",$/\1/p' \
                         -e 's/^ *"load_seconds": \(.*\),$/ready after \1 s/p'
}


start() {
    local i

    "$NGINX" -p "$work" -c "$work/nginx.conf" -e "$work/error.log" \
        2>> "$work/error.log" || { cat "$work/error.log" >&2; die "no NGINX"; }
    started=1

    for ((i = 0; i < 600; i++)); do
        if { get /ready || true; } 2>/dev/null | head -n 1 | grep -q ' 200 '; then
            return
        fi

        if { get /status || true; } 2>/dev/null | grep -q '"state": "failed"'
        then
            die "the engine failed: $(reason)"
        fi

        sleep 0.1
    done

    cat "$work/error.log" >&2
    die "the engine is not ready after a minute"
}


# ---- the load ----

failed=0

# load NAME [OPTION ...]: a row of the table
load() {
    local name=$1
    shift

    # shellcheck disable=SC2086
    $client "$PROGRAMS/http-load" --model "$model" --status /status \
        --floor /floor --seconds "$EACH" --row "$name" "${more[@]}" "$@" \
        "127.0.0.1:$PORT" || failed=1
}


table() {
    local -a static=(--static /static --static-seconds 2)

    "$PROGRAMS/http-load" --header
    load '1 client' --clients 1 "${static[@]}"

    if [ "$CASES" != short ]; then
        load '8 clients' --clients 8
    fi

    load '50 clients' --clients 50 "${static[@]}"
    load '256 clients' --clients 256 --warm 2 "${static[@]}"

    if [ "$CASES" = short ]; then
        return
    fi

    load '50 clients, even lengths' --clients 50 --jitter 0
    load 'Poisson 200/s' --rate 200
    load 'Poisson 400/s' --rate 400 "${static[@]}"
    load '1 client, events' --clients 1 --stream
    load '8 clients, events' --clients 8 --stream
    load '50 clients, events' --clients 50 --stream
    load '256 clients, events' --clients 256 --warm 2 --stream
    load 'Poisson 200/s, events' --rate 200 --stream
    load 'Poisson 400/s, events' --rate 400 --stream
    load '200/200, 256 clients' --clients 256 --in 200 --out 200 --warm 3 \
        --seconds $((EACH * 2))
}


gpu_memory() {
    if [ "$BACKEND" = cuda ] && command -v nvidia-smi >/dev/null; then
        echo "GPU memory: $(nvidia-smi --query-gpu=memory.used \
                            --format=csv,noheader)"
    fi
}


mixed() {
    echo
    echo "Mixed lengths, 128 clients:"
    gpu_memory
    $client "$PROGRAMS/http-load" --model "$model" --status /status \
        --clients 128 --in 20-600 --out 8-300 \
        --warm $((LONG < 20 ? LONG / 2 : 10)) --seconds "$LONG" \
        "127.0.0.1:$PORT" || failed=1
    gpu_memory
}


main() {
    local model client
    local -a more

    if [ "${1:-}" = --help ] || [ $# -gt 1 ]; then
        usage
        [ "${1:-}" = --help ] && exit 0 || exit 2
    fi

    eval "more=(${LOAD_OPTIONS:-})"

    prepare "$@"
    configure
    start

    reason
    [ "$CASES" = none ] || table
    [ "$LONG" = 0 ] || mixed

    if grep -E '\[(alert|emerg|crit|error)\]' "$work/error.log"; then
        failed=1
    fi

    exit $failed
}


main "$@"
