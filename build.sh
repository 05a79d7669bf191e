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
  HYMT_GPU_GREEDY      gpu-test: transformers' greedy tokens in bf16, a file of
                 tools/hf-greedy.py
  HYMT_GPU_LOGITS      gpu-test: what transformers computes: "MODEL=FILE ..."
                 as tools/hf-logits.py was told; FILE alone: models/demo's
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


for part in packages products demo tests gpu; do
    . "tools/build/$part.sh"
done


clean() {
    [ ! -e build/demo.path ] || need_proc
    demo_remove
    rm -rf build t/servroot t/servroot-*
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
