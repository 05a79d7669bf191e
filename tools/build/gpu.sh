# gpu.sh - what is tested on a machine with a GPU.
# Sourced by build.sh.

# Those tests of the module that hold with any backend, and whose work is long
# enough on a fast one.
readonly GPU_NGINX_TESTS=(t/gpu/faults.t t/100-workers.t t/110-reload.t
                          t/120-quit.t t/130-abort.t t/140-limits.t
                          t/180-crash.t t/181-engine-worker.t
                          t/182-engine-failure.t t/190-watchdog.t
                          t/275-cache.t t/276-prefix-cache.t t/277-coalesce.t
                          t/278-queue.t t/280-documents.t t/290-sessions.t)


gpu_faults() {
    local rc=0

    need nginx perl
    need_proc

    export HYMT_TEST_BACKEND=cuda

    # the module finds hymt_cuda.so beside it

    prove_ "${GPU_NGINX_TESTS[@]}" || rc=1
    perl bench/soak --seconds "${HYMT_GPU_SOAK:-60}" || rc=1

    return $rc
}


# gpu_program LOG NAME [ARGUMENT ...]: a line of gpu_test's table.
gpu_program() {
    local said=build/gpu/$1.log name=$2 n
    shift 2

    if ! timeout "$GPU_LIMIT" "build/gpu/$name" "$@" > "$said" 2>&1; then
        report+=("FAILED        $name${*:+ $*}: see $said")
        grep -A3 -E '^(not ok|Bail out)' "$said" | head -20 || true
        rc=1

    elif grep -q '^1\.\.0 # SKIP' "$said"; then
        n=$(sed -n 's/^1\.\.0 # SKIP //p' "$said")
        report+=("not run       $name: $n")

    elif ! grep -q '^ok' "$said"; then
        report+=("FAILED        $name${*:+ $*}: has tested nothing: see $said")
        rc=1
    else
        n=$(grep -c '^ok' "$said")
        report+=("passed  $(printf %4d "$n")  $name${*:+ $*}")
    fi
}


# What is there is run where nothing can be built: the products may have come
# from another machine.  The benches need a model in the shape they are to
# measure: HYMT_GPU_MODEL, made by bench/random-model.
gpu_test() {
    local i n=0 name said rc=0 report=()

    if [ -n "$(nvcc_path)" ]; then
        build cuda gpu
    elif ! compgen -G 'build/gpu/*_test' >/dev/null; then
        die "no nvcc, and no programs in build/gpu: bring them from where" \
            "./build.sh gpu-build has made them"
    fi

    export HYMT_CUDA_LIBRARY=${HYMT_CUDA_LIBRARY:-$PWD/build/hymt_cuda.so}

    for i in build/gpu/*_test; do
        name=${i##*/}

        if [ "$name" != logits_test ]; then
            # shellcheck disable=SC2086
            gpu_program "$name" "$name" \
                $([ "$name" != greedy_test ] || echo "${HYMT_GPU_GREEDY:-}")
            continue
        fi

        if [ -z "${HYMT_GPU_LOGITS:-}" ]; then
            report+=("not run       $name: HYMT_GPU_LOGITS is not set")
        fi

        # MODEL=FILE, as tools/hf-logits.py was told

        for said in ${HYMT_GPU_LOGITS:-}; do
            [[ $said == *=* ]] || said=models/demo=$said
            gpu_program "$name.$((++n))" "$name" "${said%%=*}" "${said#*=}"
        done
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
