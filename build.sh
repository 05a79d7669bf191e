#!/usr/bin/env bash
#
# build.sh - the one way to build, test, install and try hymt; see --help.

set -euo pipefail

cd "$(dirname "$(readlink -f "$0")")"

readonly TEST_LIMIT=900       # seconds, all of "test", on two cores
readonly GPU_LIMIT=300        # seconds, a program of "gpu-test"
readonly READY_LIMIT=60       # seconds until the demo's model has loaded
readonly PORT_FIRST=8080 PORT_LAST=8179

readonly NGINX_SRC_SET=${NGINX_SRC:-}

export NGINX_SRC=${NGINX_SRC:-/usr/share/nginx/src}
NGINX_SRC=$(readlink -m "$NGINX_SRC")


usage() {
    cat <<END
usage: ./build.sh [COMMAND]

Builds hymt: the library, the program hymt, and the module for NGINX.

commands
  (none)         build/libhymt.a, build/hymt, build/ngx_http_hymt_module.so,
                 and build/hymt_cuda.so where nvcc is
  demo           builds, starts NGINX with two workers and the built-in model on
                 127.0.0.1:$PORT_FIRST, or the next free port, translates a sentence
                 into two languages and leaves NGINX running
  stop           stops the NGINX that demo has started and removes its files
  test           all tests, at most $((TEST_LIMIT / 60)) minutes on two cores: unit tests with
                 address and undefined-behaviour sanitizers, then t/*.t
  test-all       lint, test and unit in their long forms (HYMT_LONG=1),
                 test-clang, fuzz, briefly, test-asan, test-valgrind: more than
                 an hour
  test-asan      the tests of the module with the module built with address and
                 undefined-behaviour sanitizers, in the NGINX there is
  test-clang     the unit tests, built by clang, without sanitizers
  test-valgrind  NGINX under valgrind, with clients that leave at any moment
  unit           the unit tests alone, without sanitizers
  lint           tools/check-style, cppcheck
  gpu-build      what gpu-test runs, to be carried to a machine without nvcc:
                 build/gpu, build/hymt_cuda.so
  gpu-test       on a machine with a GPU: the tests of the kernels and of the
                 CUDA backend, gpu-faults, then, where HYMT_GPU_MODEL is set,
                 benches; built where nvcc is, else as they are; ends with a
                 table
  gpu-faults     on a machine with a GPU: the tests of kills, reloads, caches
                 and of the GPU's own faults through NGINX, then bench/soak
  fuzz SECONDS   each fuzzer in t/fuzz for that long (clang)
  install        the module into NGINX's modules folder, hymt into \$prefix/bin,
                 examples and the built-in model into \$prefix/share/hymt
  deps           what building, demo and test need: installed with apt as root,
                 else the command is printed
  clean          stops the demo, removes build/ and what tests left in t/
  --help         this text

environment
  NGINX_SRC      the tree of NGINX to build the module for: $NGINX_SRC
                 (Debian's nginx-dev) unless set.  A source tree is configured
                 with --with-compat --with-threads, or what NGINX_FLAGS says,
                 in build/nginx; the tree itself is left as it is
  NGINX_BINARY   the nginx to run in demo and test: found in PATH unless set
  CUDA           0: without the CUDA backend; 1: an error where there is no
                 nvcc; /path: the toolkit to take; else it is built where nvcc
                 is in PATH or in /usr/local/cuda
  CUDA_ARCHS     what machine code is made for: "80 86 89 90a"; test makes do
                 with 90a where nothing was built before, test-all does not
  CC, CFLAGS     the compiler and its optimisation: cc, "-O2 -g"
  DESTDIR        install: goes before every path
  prefix         install: /usr/local unless set
  HYMT_GPU_LOGITS      gpu-test: what transformers computes, a file that
                 tools/hf-logits.py models/demo=FILE has written
  HYMT_GPU_SOAK  gpu-faults: seconds of bench/soak: 60 unless set
  HYMT_GPU_MODEL gpu-test: the model that is measured; see bench/random-model
  HYMT_LONG      test, unit: 1 runs the long forms too
  HYMT_TEST_JOBS test: files that run side by side: 1 unless set
  TEST_NGINX_PORT      test: where the NGINX under test listens, 1984 unless set
  TEST_NGINX_SERVROOT  test: its folder, t/servroot unless set
  TMPDIR         where tests put their files: /tmp unless set

Everything built lies in build/.  As root, demo, test and test-all install with
apt what is missing, without starting the server that the nginx package brings.
Exit status: 0, 1 for a failure, 2 for wrong arguments.

Packages on Debian 12:
  to build   ${BUILD_PACKAGES[*]:0:6}
             ${BUILD_PACKAGES[*]:6:4}
             ${BUILD_PACKAGES[*]:10}
  to test    ${TEST_PACKAGES[*]}
  test-all   ${EXTRA_PACKAGES[*]}
END
}


die() {
    echo "build.sh: $*" >&2
    exit 1
}


# Arguments that are not what --help says.
wrong() {
    echo "build.sh: $*; see ./build.sh --help" >&2
    exit 2
}


# ---- what is needed ----

# What is set wrong fails here, by its name, not later in a compiler's words.
check_environment() {
    local dir=${TMPDIR:-/tmp}

    if [ -n "$NGINX_SRC_SET" ] && [ ! -e "$NGINX_SRC/src/core/nginx.h" ]; then
        die "NGINX_SRC=$NGINX_SRC_SET: no NGINX sources there" \
            "(src/core/nginx.h is missing)"
    fi

    if [ -n "${NGINX_BINARY:-}" ] && ! has_program "$NGINX_BINARY"; then
        die "NGINX_BINARY=$NGINX_BINARY: no program there"
    fi

    if [ ! -d "$dir" ] || [ ! -w "$dir" ]; then
        die "${TMPDIR:+TMPDIR=}$dir: no folder to write to; set TMPDIR"
    fi
}


# Demo and tests know their NGINX, and count its files, by what is in /proc.
need_proc() {
    if [ ! -e /proc/self/cmdline ]; then
        die "/proc is not there: mount -t proc proc /proc"
    fi
}



readonly BUILD_PACKAGES=(gcc g++ libc6-dev make curl nginx nginx-dev
                         libjansson-dev libpcre2-dev libutf8proc-dev
                         libcld2-dev libicu-dev libexpat1-dev
                         libxml2-dev)
readonly TEST_PACKAGES=(perl libtest-base-perl)
readonly EXTRA_PACKAGES=(clang cppcheck valgrind)


has_program() {
    command -v "$1" >/dev/null
}


has_header() {
    has_program "${CC:-cc}" \
        && echo "#include <$1>" \
           | "${CC:-cc}" -DPCRE2_CODE_UNIT_WIDTH=8 -I/usr/include/libxml2 \
                 -E - >/dev/null 2>&1
}


has_cld2() {
    has_program "${CXX:-g++}" \
        && printf '#include <%s>\n' stdio.h cld2/public/compact_lang_det.h \
           | "${CXX:-g++}" -x c++ -E - >/dev/null 2>&1
}


# Whether what a package brings is there, whoever brought it.
has_package() {
    case $1 in
        gcc)               has_program "${CC:-cc}" ;;
        g++)               has_program "${CXX:-g++}" ;;
        libc6-dev)         has_header stdio.h ;;
        libjansson-dev)    has_header jansson.h ;;
        libpcre2-dev)      has_header pcre2.h ;;
        libutf8proc-dev)   has_header utf8proc.h ;;
        libcld2-dev)       has_cld2 ;;
        libicu-dev)        has_header unicode/ubrk.h ;;
        libexpat1-dev)     has_header expat.h ;;
        libxml2-dev)       has_header libxml/HTMLparser.h ;;
        nginx-dev)         [ -e "$NGINX_SRC/src/core/nginx.h" ] ;;
        nginx)             [ -n "$(nginx_path)" ] ;;
        perl)              has_program prove ;;
        libtest-base-perl) has_program perl \
                               && perl -MTest::Base -e 1 2>/dev/null ;;
        *)                 has_program "$1" ;;
    esac
}


missing_packages() {
    local p

    for p in "$@"; do
        has_package "$p" || echo "$p"
    done
}


nginx_path() {
    if [ -n "${NGINX_BINARY:-}" ]; then
        echo "$NGINX_BINARY"
    else
        PATH=$PATH:/usr/sbin:/usr/local/sbin command -v nginx || true
    fi
}


need() {
    local missing

    missing=$(missing_packages "$@" | tr '\n' ' ')

    if [ -n "$missing" ]; then
        die "missing: ${missing% }; on Debian, as root:" \
            "apt-get install --no-install-recommends ${missing% }"
    fi
}


# Installs what is missing where that can be done, else names it.
provide() {
    local missing

    check_environment

    missing=($(missing_packages "$@"))

    if [ ${#missing[@]} -eq 0 ]; then
        return
    fi

    if [ "$(id -u)" -ne 0 ] || ! has_program apt-get; then
        need "$@"
    fi

    echo "build.sh: installing with apt: ${missing[*]}"
    apt_install "${missing[@]}"
    hash -r
    need "$@"
}


apt_install() {
    local policy=/usr/sbin/policy-rc.d ours='' running

    export DEBIAN_FRONTEND=noninteractive

    # the package would start a server of its own on port 80, or whatever
    # /etc/nginx says: nobody asked

    running=$(nginx_service_pid)

    if [ ! -e $policy ]; then
        ours=1
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' > $policy
        chmod 755 $policy
    fi

    if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
        apt-get update -q
    fi

    if ! apt-get install -q -y --no-install-recommends "$@"; then

        # lists older than the archive name files that are gone

        apt-get update -q
        apt-get install -q -y --no-install-recommends "$@"
    fi

    if [ -n "$ours" ]; then
        trap - EXIT
        rm -f $policy
    fi

    if [ -z "$running" ] && [ -n "$(nginx_service_pid)" ]; then
        service nginx stop
    fi

    if [[ " $* " == *' nginx '* ]]; then
        echo "build.sh: the package's own server on port 80 was kept from" \
             "starting; where systemd runs it starts at the next boot," \
             "unless: systemctl disable nginx"
    fi
}


nginx_service_pid() {
    local pid

    pid=$(cat /run/nginx.pid 2>/dev/null || true)

    if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
        echo "$pid"
    fi
}


deps() {
    provide "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    echo "build.sh: nothing is missing"
}


# ---- build ----

# Makes the Makefile's targets given; what the compilers say goes to a file.
build() {
    check_environment
    need gcc g++ libc6-dev make nginx-dev libjansson-dev libpcre2-dev \
         libutf8proc-dev libcld2-dev libicu-dev libexpat1-dev libxml2-dev

    check_cuda

    mkdir -p build

    if ! make -j"$(nproc)" "$@" > build/build.log 2>&1; then
        grep -E ' error: |undefined reference|\*\*\*' build/build.log | head -40 >&2
        die "the build failed: see build/build.log"
    fi
}


list_products() {
    ls -l build/libhymt.a build/hymt build/ngx_http_hymt_module.so \
          $(cuda_product)
}


# The nvcc that the Makefile takes; nothing where it takes none.
nvcc_path() {
    case ${CUDA:-} in
        0)  ;;
        /*) command -v "$CUDA/bin/nvcc" || true ;;
        *)  PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true ;;
    esac
}


check_cuda() {
    local nvcc

    export CUDA=${CUDA:-}
    nvcc=$(nvcc_path)

    case $CUDA in
        ''|0|1|/*) ;;
        *) die "CUDA=$CUDA: 0, 1, or the path of a CUDA toolkit" ;;
    esac

    if [ -n "$nvcc" ]; then
        return
    fi

    if [ -n "$CUDA" ] && [ "$CUDA" != 0 ]; then
        die "CUDA=$CUDA: no nvcc there; install the CUDA toolkit, or name" \
            "its path: CUDA=/path"
    fi

    echo "build.sh: ${CUDA:+CUDA=0, }no nvcc: without the CUDA backend"
}


cuda_product() {
    if [ -n "$(nvcc_path)" ] && [ -e build/hymt_cuda.so ]; then
        echo build/hymt_cuda.so
    fi
}


nginx_says() {
    "$(nginx_path)" "$1" 2>&1 || true
}


# NGINX refuses a module made for another version; say it before it does.
check_nginx() {
    local nginx has want

    nginx=$(nginx_path)
    has=$(nginx_says -v | sed -n 's,^nginx version: [^/]*/\([0-9.]*\).*,\1,p')
    want=$(sed -n 's/^#define NGINX_VERSION  *"\(.*\)"/\1/p' \
               "$NGINX_SRC/src/core/nginx.h")

    if [ -z "$has" ]; then
        die "$nginx -v says no version: is it NGINX?  Set NGINX_BINARY"
    fi

    if [ "$has" != "$want" ]; then
        die "$nginx is version $has, $NGINX_SRC is for $want: set" \
            "NGINX_BINARY or NGINX_SRC so that they match"
    fi
}


install_() {
    local prefix=${prefix:-/usr/local} dest=${DESTDIR:-} modules share

    check_environment
    need nginx
    check_nginx
    build all

    modules=$(nginx_says -V | tr ' ' '\n' | sed -n 's/^--modules-path=//p')

    if [ -z "$modules" ]; then
        modules=$(nginx_says -V | tr ' ' '\n' | sed -n 's/^--prefix=//p')
        modules=${modules:-/usr/local/nginx}/modules
    fi

    share=$prefix/share/hymt

    install -d "$dest$modules" "$dest$prefix/bin" "$dest$share/models/demo"
    install -m 644 build/ngx_http_hymt_module.so "$dest$modules/"
    install -m 755 build/hymt "$dest$prefix/bin/"

    # beside the module, and where the program looks

    if [ -n "$(cuda_product)" ]; then
        install -d "$dest$prefix/lib/hymt"
        install -m 755 build/hymt_cuda.so "$dest$modules/"
        install -m 755 build/hymt_cuda.so "$dest$prefix/lib/hymt/"
    fi

    install -m 644 conf/nginx.conf.example "$dest$share/"

    local folder

    for folder in html examples grafana prometheus; do
        install -d "$dest$share/$folder"
        install -m 644 -t "$dest$share/$folder" conf/$folder/*
    done

    # its files alone: what is in folders there is for tests

    find models/demo -maxdepth 1 -type f \
        -exec install -m 644 -t "$dest$share/models/demo" {} +

    echo "$dest$modules/ngx_http_hymt_module.so"
    echo "$dest$prefix/bin/hymt"
    echo "$dest$share/"

    if [ -n "$(cuda_product)" ]; then
        echo "$dest$modules/hymt_cuda.so"
        echo "$dest$prefix/lib/hymt/hymt_cuda.so"
    fi
}


# ---- demo ----

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


clean() {
    [ ! -e build/demo.path ] || need_proc
    demo_remove
    rm -rf build t/servroot t/servroot-*
}


# ---- tests ----

unit_programs() {
    local i

    for i in t/unit/*_test.c; do
        i=${i##*/}
        echo "$1/${i%.c}"
    done
}


# TEST_BUILD: where the module is, unless in build.
prove_() {
    export HYMT_MODULE=$PWD/${TEST_BUILD:-build}/ngx_http_hymt_module.so
    export HYMT_MODEL=$PWD/models/demo
    export HYMT_TEST_ALERTS=1
    export TEST_NGINX_BINARY TEST_NGINX_LOAD_MODULES=$HYMT_MODULE
    export TEST_NGINX_MODEL=$HYMT_MODEL
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1

    TEST_NGINX_BINARY=$(nginx_path)

    prove -j "${HYMT_TEST_JOBS:-1}" --timer --exec t/lib/run-test "$@"
}


# Everything below runs inside the limit; what it started goes with it.
test_() {
    local limit=$TEST_LIMIT

    need_proc
    provide "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    check_nginx

    if [ -n "${HYMT_LONG:-}" ]; then
        limit=$((TEST_LIMIT * 4))
    fi

    timeout -k 20 "$limit" ./build.sh test-now || {
        local rc=$?

        if [ $rc -eq 124 ] || [ $rc -eq 137 ]; then
            echo "build.sh: not done after $limit s" >&2
        fi

        exit $rc
    }
}


test_now() {
    # all targets take minutes; where they have been made they are kept

    if ! grep -qs sm_80 build/cuda/flags; then
        export CUDA_ARCHS=${CUDA_ARCHS:-90a}
    fi

    build all unit-san
    prove_ $(unit_programs build/unit-san) t/*.t
}


# Those tests of the module that neither look at memory nor end processes at any
# time.
readonly ASAN_TESTS=(t/002-server.t t/010-config.t t/020-translate.t
                     t/030-errors.t t/035-locations.t t/100-workers.t
                     t/110-reload.t t/130-abort.t t/140-limits.t
                     t/181-engine-worker.t t/190-watchdog.t
                     t/197-hostile-memory.t t/210-libretranslate.t
                     t/220-google.t t/230-deepl.t t/231-deepl-glossaries.t
                     t/240-openai.t t/250-stream.t t/260-metrics.t
                     t/270-variables.t t/275-cache.t t/276-prefix-cache.t
                     t/277-coalesce.t t/278-queue.t t/280-documents.t
                     t/290-sessions.t)


test_asan() {
    need_proc
    provide "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    check_nginx

    build BUILD=build/asan SANITIZE=1 module
    asan_nginx > build/asan/nginx-asan
    chmod +x build/asan/nginx-asan

    # what NGINX itself keeps to its end is no leak, nor are our threads' stacks

    HYMT_TEST_ASAN=1 TEST_BUILD=build/asan ASAN_OPTIONS=detect_leaks=0 \
        NGINX_BINARY=$PWD/build/asan/nginx-asan prove_ "${ASAN_TESTS[@]}"
}


# The distribution's NGINX knows nothing of sanitizers: their libraries come
# first.
asan_nginx() {
    local lib libs=''

    for lib in libasan.so libubsan.so; do
        libs+=" $("${CC:-gcc}" -print-file-name=$lib)"
    done

    printf '#!/bin/sh\nLD_PRELOAD="%s" exec %q "$@"\n' "${libs# }" \
        "$(nginx_path)"
}


# Those tests of the module that hold with any backend, and whose work is long
# enough on a fast one.
readonly GPU_NGINX_TESTS=(t/gpu/faults.t t/100-workers.t t/110-reload.t
                          t/120-quit.t t/130-abort.t t/140-limits.t
                          t/180-crash.t t/181-engine-worker.t
                          t/182-engine-failure.t t/190-watchdog.t
                          t/250-stream.t t/275-cache.t t/276-prefix-cache.t
                          t/277-coalesce.t t/278-queue.t t/280-documents.t
                          t/290-sessions.t)


gpu_faults() {
    local rc=0

    need nginx perl
    need_proc

    export HYMT_TEST_BACKEND=cuda

    # the module finds hymt_cuda.so beside it

    prove_ "${GPU_NGINX_TESTS[@]}" || rc=1
    bench/soak --seconds "${HYMT_GPU_SOAK:-60}" || rc=1

    return $rc
}


# What is there is run where nothing can be built: the products may have come
# from another machine.  The benches need a model in the shape they are to
# measure: HYMT_GPU_MODEL, made by bench/random-model.
gpu_test() {
    local i n name said args rc=0 report=()

    if [ -n "$(nvcc_path)" ]; then
        build cuda gpu
    elif ! compgen -G 'build/gpu/*_test' >/dev/null; then
        die "no nvcc, and no programs in build/gpu: bring them from where" \
            "./build.sh gpu-build has made them"
    fi

    export HYMT_CUDA_LIBRARY=${HYMT_CUDA_LIBRARY:-$PWD/build/hymt_cuda.so}

    for i in build/gpu/*_test; do
        name=${i##*/}
        said=$i.log
        args=()

        if [ "$name" = logits_test ]; then
            if [ -z "${HYMT_GPU_LOGITS:-}" ]; then
                report+=("not run       $name: HYMT_GPU_LOGITS is not set")
                continue
            fi

            args=(models/demo "$HYMT_GPU_LOGITS")
        fi

        if ! timeout "$GPU_LIMIT" "$i" "${args[@]}" > "$said" 2>&1; then
            report+=("FAILED        $name: see $said")
            grep -A3 -E '^(not ok|Bail out)' "$said" | head -20 || true
            rc=1

        elif grep -q '^1\.\.0 # SKIP' "$said"; then
            n=$(sed -n 's/^1\.\.0 # SKIP //p' "$said")
            report+=("not run       $name: $n")
        else
            n=$(grep -c '^ok' "$said" || true)
            report+=("passed  $(printf %4d "$n")  $name")
        fi
    done

    said=build/gpu/faults.log

    if [ ! -e build/ngx_http_hymt_module.so ] || [ -z "$(nginx_path)" ]; then
        report+=("not run       faults through NGINX: no module, or no nginx")

    elif (gpu_faults) > "$said" 2>&1; then
        report+=("passed        faults through NGINX")
    else
        report+=("FAILED        faults through NGINX: see $said")
        rc=1
    fi

    for i in build/gpu/cuda_*; do
        if [ -z "${HYMT_GPU_MODEL:-}" ] || [[ ${i##*/} == *.* ]]; then
            continue
        fi

        echo "build.sh: ---- ${i##*/} ----"
        name=$HYMT_GPU_MODEL
        [[ $i == *_step || $i == *_mixed ]] || name=

        timeout "$GPU_LIMIT" "$i" ${name:+"$name"} || rc=1
    done

    printf '%s\n' "${report[@]}"

    return $rc
}


unit() {
    need perl
    build unit
    prove_ $(unit_programs build/unit)
}


# Each part to its end, whatever the one before said; then what has failed.
test_all() {
    local part began rc=0 report=()

    need_proc
    provide "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${EXTRA_PACKAGES[@]}"

    for part in lint 'test (long)' 'unit (long)' clang fuzz test-asan \
                test-valgrind
    do
        echo "build.sh: ---- $part ----"
        began=$SECONDS

        if (test_all_part "$part"); then
            report+=("passed  $((SECONDS - began)) s  $part")
        else
            report+=("FAILED  $((SECONDS - began)) s  $part")
            rc=1
        fi
    done

    printf '%s\n' "${report[@]}"

    return $rc
}


# In a shell of its own, since "set -e" says nothing within an "if".
test_all_part() {
    case $1 in
        'test (long)')  CUDA_ARCHS=${CUDA_ARCHS:-80 86 89 90a} HYMT_LONG=1 \
                            ./build.sh test ;;
        'unit (long)')  HYMT_LONG=1 ./build.sh unit ;;
        clang)          ./build.sh test-clang ;;
        fuzz)           ./build.sh fuzz 20 ;;
        *)              ./build.sh "$1" ;;
    esac
}


test_clang() {
    need perl clang
    build BUILD=build/clang CC=clang lib hymt unit
    prove_ $(unit_programs build/clang/unit)
}


# Clients that leave at any moment: what frees memory early.  A start of NGINX,
# which loads and tests the model, takes half a minute under valgrind, and a
# token fifty times as long as without: test-asan covers the rest.
test_valgrind() {
    need_proc
    provide "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" valgrind
    check_nginx
    build all

    TEST_NGINX_USE_VALGRIND=1 prove_ t/130-abort.t
}


lint() {
    local rc=0

    need perl cppcheck

    tools/check-style || rc=1

    cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr \
        --enable=warning,portability --suppress=missingIncludeSystem \
        -Iengine -Ikernels/cpu engine kernels tools bench http \
        ngx_http_hymt_module.c || rc=1

    return $rc
}


fuzz() {
    local seconds=${1:-} i name args

    [[ "$seconds" =~ ^[0-9]+$ ]] || wrong "fuzz: SECONDS \"$seconds\" is no number"

    need clang

    if ! compgen -G 't/fuzz/*.c' >/dev/null; then
        echo "build.sh: t/fuzz has no fuzzers"
        return
    fi

    build BUILD=build/fuzz CC=clang fuzz

    for i in t/fuzz/*.c; do
        name=${i##*/} name=${name%.c}
        args=(build/fuzz/corpus/"$name")

        # what is found goes to the first corpus, in build

        [ ! -d "t/fuzz/corpus/$name" ] || args+=("t/fuzz/corpus/$name")
        [ ! -e "${i%_fuzz.c}.dict" ] || args+=("-dict=${i%_fuzz.c}.dict")

        mkdir -p "build/fuzz/corpus/$name"
        echo "build.sh: $name for $seconds s"

        build/fuzz/bin/"$name" -max_total_time="$seconds" -timeout=10 \
            -rss_limit_mb=2048 -artifact_prefix="build/fuzz/$name-" \
            -verbosity=0 -print_final_stats=1 "${args[@]}"
    done
}


# How many arguments a command takes is said here alone.
check_arguments() {
    local command=${1:-} most=1

    if [ "$command" = fuzz ]; then
        most=2
    fi

    if [ $# -le $most ]; then
        return
    fi

    shift $most

    if [[ "$1" =~ ^[A-Za-z_]+= ]]; then
        wrong "\"$1\" is no argument: it goes before, as in" \
              "$1 ./build.sh $command"
    fi

    wrong "$command: unexpected argument \"$1\""
}


check_arguments "$@"

case "${1:-}" in
    '')             build all; list_products ;;
    demo)           demo ;;
    stop)           stop ;;
    test)           test_ ;;
    test-now)       test_now ;;
    test-all)       test_all ;;
    test-asan)      test_asan ;;
    test-clang)     test_clang ;;
    test-valgrind)  test_valgrind ;;
    gpu-build)      build cuda gpu ;;
    gpu-test)       gpu_test ;;
    gpu-faults)     gpu_faults ;;
    unit)           unit ;;
    lint)           lint ;;
    fuzz)           fuzz "${2:-}" ;;
    install)        install_ ;;
    deps)           deps ;;
    clean)          clean ;;
    -h|--help)      usage ;;
    -*)             wrong "unknown option \"$1\"" ;;
    *=*)            wrong "\"$1\" is no command: it goes before, as in" \
                          "$1 ./build.sh" ;;
    *)              wrong "unknown command \"$1\"" ;;
esac
