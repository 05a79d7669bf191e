# products.sh - the Makefile's products: made, listed, installed.
# Sourced by build.sh.

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
