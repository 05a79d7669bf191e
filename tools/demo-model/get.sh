#!/bin/bash
# Fetches and unpacks the Debian packages that the demo model's training pairs
# are extracted from (see DATA.md), then, unless told not to, runs extract.py.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<'HELP'
usage: [SMALL=1] [JOBS=1] [NPM=1] get.sh [--no-extract] [WORK-FOLDER]

Downloads the Debian packages with parallel text, unpacks them under
WORK-FOLDER (default ./demo-data) and writes WORK-FOLDER/pairs/pairs.en-XX.tsv.zst.
Needs Debian 12 (bookworm) apt sources, dpkg-deb, tar, python3; zstd if there.
Nothing is installed, and the system's own apt state is left alone.
What is already there is not fetched or unpacked again.

  --no-extract      stop after unpacking
  --list            print source, package and whether SMALL=1 takes it; then stop
  -h, --help        this text

  SMALL=1           only the best sources (about 370 MB instead of 860 MB)
  SKIP="PKG ..."    packages to leave out, such as SKIP=widelands-data (381 MB)
  NPM=1             also `npm pack` the npm source, where a registry answers
  JOBS=2            languages extracted at the same time (default 1)
  KEEP_DEBS=0       remove each .deb once it is unpacked (default 1: keep)
HELP
}

# source, package, version that DATA.md's figures were measured with, small?
packages() {
    local p
    echo "cdda cataclysm-dda-data 0.F-3-9 small"
    for p in data dm did dw ei httt l low nr sof sota sotbe thot trow tsg ttb utbs; do
        echo "wesnoth wesnoth-1.16-$p 1:1.16.9-1 small"
    done
    for p in en-us de fr es zh-cn; do
        echo "lohelp libreoffice-help-$p 4:7.4.7-1+deb12u14 small"
    done
    cat <<'LIST'
ding trans-de-en 1.9-6 small
handbook debian-handbook 11.20220922 small
ufoai ufoai-misc 2.5-7 small
freeciv freeciv-data 3.0.6-1+deb12u1 -
widelands widelands-data 2:1.1-3 -
gnomehelp gnome-user-docs 43.0-2 -
apache apache2-doc 2.4.71-1~deb12u1 -
mediawiki mediawiki 1:1.39.17-1+deb12u2 -
digikam digikam-data 4:7.9.0-1 -
gnucash gnucash-common 1:4.13-1 -
evoui,evohelp evolution-common 3.46.4-2+deb12u1 -
gimp gimp-data 2.10.34-1+deb12u10 -
kmymoney kmymoney-common 5.1.3-1 -
blender blender-data 3.4.1+dfsg-2 -
freedink freedink-data 1.08.20190120-2 -
gnomedevel gnome-devel-docs 40.3-1 -
harden harden-doc 3.19+nmu1 -
crawl crawl-common 2:0.28.0-1.1 -
LIST
}

# source, npm package, version
npm_packages() {
    echo "lighthouse lighthouse 12.2.3"
}

say() { echo "get.sh: $*" >&2; }

need() {
    local tool missing=
    for tool in "$@"; do
        command -v "$tool" >/dev/null || missing+=" $tool"
    done
    if [ -n "$missing" ]; then
        say "missing:$missing (on Debian: apt-get install apt dpkg tar python3)"
        exit 1
    fi
}

# apt with lists and cache of its own, so that no root rights are needed.
apt_opts() {
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    opts=(-o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache"
          -o Acquire::Languages=none -o APT::Sandbox::User=root -o Debug::NoLocking=1)
}

update_lists() {
    if [ -e "$work/apt/updated" ] && [ -n "$(find "$work/apt/updated" -mtime -1)" ]; then
        return
    fi
    say "fetching the apt lists"
    if apt-get "${opts[@]}" -qq update; then
        touch "$work/apt/updated"
    else
        say "apt-get update failed in part; going on with what came"
    fi
}

deb_of() {
    find "$work/debs" -maxdepth 1 -name "$1_*.deb" 2>/dev/null | sort | tail -n 1
}

# Everything but pictures, sound and models: those are most of the bytes.
unpack() {
    local deb=$1 to=$2
    rm -rf "$to.part"
    mkdir -p "$to.part"
    dpkg-deb --fsys-tarfile "$deb" | tar -x --no-same-owner -C "$to.part" \
        --exclude='*.png' --exclude='*.jpg' --exclude='*.jpeg' --exclude='*.gif' \
        --exclude='*.webp' --exclude='*.svg' --exclude='*.ogg' --exclude='*.wav' \
        --exclude='*.mp3' --exclude='*.ogm' --exclude='*.webm' --exclude='*.ttf' \
        --exclude='*.md2' --exclude='*.bsp' --exclude='*.wmf/pics/*'
    mv "$to.part" "$to"
}

fetch_package() {
    local package=$1 deb to=$work/unpacked/$1
    [ -d "$to" ] && return 0
    deb=$(deb_of "$package")
    if [ -z "$deb" ]; then
        say "downloading $package"
        (cd "$work/debs/partial" && apt-get "${opts[@]}" -qq download "$package") || return 1
        mv "$work/debs/partial/$package"_*.deb "$work/debs/"
        deb=$(deb_of "$package")
    fi
    unpack "$deb" "$to" || return 1
    dpkg-deb -f "$deb" Version > "$work/unpacked/$package.version"
    if [ "${KEEP_DEBS:-1}" = 0 ]; then rm -f "$deb"; fi
}

fetch_all() {
    local source package version small
    mkdir -p "$work/debs/partial" "$work/unpacked"
    rm -f "$work/debs/partial"/*
    missing=()
    while read -r source package version small; do
        [ "${SMALL:-0}" = 1 ] && [ "$small" != small ] && continue
        case " ${SKIP:-} " in *" $package "*) say "left out: $package"; continue ;; esac
        fetch_package "$package" || missing+=("$package ($source)")
    done < <(packages)
}

# The source, package, version here and version measured, as a table.
record_versions() {
    local source package version small here_version
    while read -r source package version small; do
        [ -e "$work/unpacked/$package.version" ] || continue
        here_version=$(cat "$work/unpacked/$package.version")
        printf '%s\t%s\t%s\t%s\n' "$source" "$package" "$here_version" "$version"
        if [ "$here_version" != "$version" ]; then
            say "note: $package is $here_version; measured with $version"
        fi
    done < <(packages) > "$work/versions.tsv"
}

fetch_npm() {
    local source package version
    if [ "${NPM:-0}" != 1 ]; then
        say "npm source lighthouse skipped: set NPM=1 to fetch it"
        return
    fi
    if ! command -v npm >/dev/null; then
        say "npm sources skipped: no npm here"
        return
    fi
    while read -r source package version; do
        [ -d "$work/unpacked/npm-$package" ] && continue
        if (cd "$work/debs" && npm pack --silent "$package@$version" >/dev/null); then
            mkdir -p "$work/unpacked/npm-$package"
            tar -xzf "$work/debs/$package-$version.tgz" -C "$work/unpacked/npm-$package"
        else
            say "npm source $source skipped: the registry did not give $package@$version"
        fi
    done < <(npm_packages)
}

report_missing() {
    if [ ${#missing[@]} -gt 0 ]; then
        say "NOT fetched: ${missing[*]}"
        say "(the lists must be those of Debian 12, component main: see DATA.md)"
    fi
}

extract=1
work=demo-data
while [ $# -gt 0 ]; do
    case $1 in
        -h|--help) usage; exit 0 ;;
        --list) packages | column -t 2>/dev/null || packages; exit 0 ;;
        --no-extract) extract=0 ;;
        -*) usage >&2; exit 2 ;;
        *) work=$1 ;;
    esac
    shift
done

need apt-get dpkg-deb tar python3
mkdir -p "$work"
work=$(cd "$work" && pwd)
apt_opts
update_lists
fetch_all
fetch_npm
record_versions
report_missing
say "unpacked: $work/unpacked, versions: $work/versions.tsv"
if [ "$extract" = 1 ]; then
    python3 "$here/extract.py" --jobs "${JOBS:-1}" "$work/unpacked" "$work/pairs"
fi
[ ${#missing[@]} -eq 0 ]
