# demo.sh - NGINX with the built-in model: started, asked, stopped.
# Sourced by build.sh.

# The folder of the demo that was started last, if it is still there and ours.
demo_dir() {
    local dir

    dir=$(cat build/demo.path 2>/dev/null || true)

    if [ -e "$dir/hymt-demo" ]; then
        [ -O "$dir/hymt-demo" ] || die "the demo in $dir is another user's"
        echo "$dir"
    fi
}


# The master process of the demo in that folder, if it runs.
demo_pid() {
    local pid

    pid=$(cat "$1/nginx.pid" 2>/dev/null || true)

    if [ -n "$pid" ] \
       && tr '\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null | grep -qF "$1/"
    then
        echo "$pid"
    fi
}


demo() {
    local dir

    need_proc
    provide "${BUILD_PACKAGES[@]}"

    dir=$(demo_dir)

    if [ -n "$dir" ] && [ -n "$(demo_pid "$dir")" ]; then
        echo "build.sh: the demo already runs at http://127.0.0.1:$(cat \
             "$dir/port")/"
        demo_translate "$dir"
        return
    fi

    check_nginx
    build all
    demo_remove
    dir=$(demo_make)
    echo "$dir" > build/demo.path
    demo_start "$dir"
    demo_wait "$dir"
    demo_translate "$dir"
    demo_next "$dir"
}


# Workers of a root's NGINX run as another user, who can't look into root's
# home; so module and model go where everybody can read them.
demo_make() {
    local dir

    if [ "$(id -u)" -eq 0 ]; then
        dir=$(mktemp -d /var/tmp/hymt-demo.XXXXXX)
        chmod 755 "$dir"
    else
        dir=$PWD/build/demo
        rm -rf "$dir"
        mkdir "$dir"
    fi

    mkdir "$dir/logs" "$dir/models" "$dir/temp"
    touch "$dir/hymt-demo"
    cp build/ngx_http_hymt_module.so "$dir/"
    cp -r models/demo "$dir/models/"
    cp -r conf/html "$dir/"
    chmod -R a+rX "$dir"

    echo "$dir"
}


port_taken() {
    (exec 3<> "/dev/tcp/127.0.0.1/$1") 2>/dev/null
}


demo_start() {
    local dir=$1 port out

    for ((port = PORT_FIRST; port <= PORT_LAST; port++)); do

        if port_taken "$port"; then
            continue
        fi

        sed "s/@PORT@/$port/g" conf/nginx.conf.demo > "$dir/nginx.conf"

        if out=$("$(nginx_path)" -p "$dir/" -c "$dir/nginx.conf" \
                     -e "$dir/logs/error.log" 2>&1)
        then
            echo "$port" > "$dir/port"
            return
        fi

        # somebody came first

        if ! grep -q 'Address already in use' <<< "$out"; then
            echo "$out" >&2
            demo_failed "$dir" "NGINX does not start"
        fi
    done

    demo_failed "$dir" "no free port from $PORT_FIRST to $PORT_LAST"
}


demo_failed() {
    echo "build.sh: $2; the end of the error log:" >&2
    tail -n 20 "$1/logs/error.log" >&2 || true
    demo_remove
    exit 1
}


demo_wait() {
    local dir=$1 url status end=$((SECONDS + READY_LIMIT))

    url=http://127.0.0.1:$(cat "$dir/port")

    while [ $SECONDS -lt $end ]; do
        status=$(curl -s -m 5 "$url/status" || true)

        if grep -qE '"state": *"ready"' <<< "$status"; then
            return
        fi

        if grep -qE '"state": *"failed"' <<< "$status"; then
            echo "$status" >&2
            demo_failed "$dir" "the model does not load"
        fi

        if [ -z "$(demo_pid "$dir")" ]; then
            demo_failed "$dir" "NGINX has gone"
        fi

        sleep 0.2
    done

    echo "$status" >&2
    demo_failed "$dir" "the model is not ready after $READY_LIMIT s"
}


readonly DEMO_TEXT='Open the file and save your changes.'


demo_translate() {
    echo
    echo "The built-in model is a small one for texts of software; for others" \
         "take a real one."

    demo_ask "$1" zh
    demo_ask "$1" de
}


demo_ask() {
    local dir=$1 body url out code

    url=http://127.0.0.1:$(cat "$dir/port")/translate
    body="{\"text\": \"$DEMO_TEXT\", \"tgt_lang\": \"$2\"}"
    out=$dir/answer

    echo
    echo "\$ curl $url -H 'Content-Type: application/json' \\"
    echo "       -d '$body'"

    code=$(curl -s -m 60 -o "$out" -w '%{http_code}' "$url" \
               -H 'Content-Type: application/json' -d "$body" || true)

    echo "$(cat "$out" 2>/dev/null || true)"

    if [ "$code" != 200 ]; then
        demo_failed "$dir" "the answer is $code, not 200"
    fi
}


demo_next() {
    local url

    url=http://127.0.0.1:$(cat "$1/port")

    cat <<END

NGINX runs with two workers; its files are in $1.  Try next:

  $url/                in a browser: a page to translate on
  curl $url/status
  curl "$url/translate?to=zh" -H 'Content-Type: text/plain' \\
       -d 'Click the button to close the window.'
  curl $url/translate -H 'Content-Type: application/json' \\
       -d '{"text": ["Open the file.", "Close the window."], "tgt_lang": "fr"}'
  build/hymt translate --help
  ./build.sh stop
END
}


demo_remove() {
    local dir pid i

    dir=$(demo_dir)

    if [ -n "$dir" ]; then
        pid=$(demo_pid "$dir")

        if [ -n "$pid" ]; then
            kill -QUIT "$pid"

            for ((i = 0; i < 100; i++)); do
                kill -0 "$pid" 2>/dev/null || break
                sleep 0.1
            done

            if kill -0 "$pid" 2>/dev/null; then
                kill -TERM "$pid"
                sleep 3
            fi
        fi

        rm -rf "$dir"
    fi

    rm -f build/demo.path
}


stop() {
    local dir

    need_proc

    dir=$(demo_dir)

    if [ -z "$dir" ] || [ -z "$(demo_pid "$dir")" ]; then
        echo "build.sh: no demo is running"
        demo_remove
        return
    fi

    demo_remove
    echo "build.sh: the demo is stopped"
}
