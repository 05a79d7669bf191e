# tests.sh - unit tests, tests of the module, lint, fuzzers.
# Sourced by build.sh.

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
    local more=(build/bench/http-load)

    # all targets take minutes; where they have been made they are kept

    if ! grep -qs sm_80 build/cuda/flags; then
        export CUDA_ARCHS=${CUDA_ARCHS:-90a}
    fi

    # the long form looks whether all that is for a GPU still compiles

    if [ -n "${HYMT_LONG:-}" ]; then
        more+=(bench)
        [ -z "$(nvcc_path)" ] || more+=(gpu)
    fi

    build all unit-san "${more[@]}"
    prove_ $(unit_programs build/unit-san) t/*.t
}


# Those tests of the module that neither look at memory nor end processes at any
# time.
readonly ASAN_TESTS=(t/002-server.t t/010-config.t t/020-translate.t
                     t/030-errors.t t/035-locations.t t/100-workers.t
                     t/110-reload.t t/130-abort.t t/140-limits.t
                     t/181-engine-worker.t t/190-watchdog.t
                     t/197-hostile-memory.t t/205-native-json.t t/210-libretranslate.t
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
