# packages.sh - what building, demo and tests need: looked for, installed, named.
# Sourced by build.sh.

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
