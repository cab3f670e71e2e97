# Shared by the scripts beside it; sourced by bash, not run. Sets `top`, `target` and the functions they use.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$top/target}
work=$top/tests/.work
# The lowest release that the web tools (vite 8, vitest 4) run on, and the line that is fetched when there is none.
node_least=20.19
node_line=22

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# as_root COMMAND...: runs it as root, by sudo where we are not, after saying so.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; return; fi
    command -v sudo >/dev/null || die "this needs root and there is no sudo: $*"
    printf 'asking sudo for: %s\n' "$*" >&2
    sudo "$@"
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# candidate PACKAGE: whether apt could install it (an entry without a candidate is a name only).
candidate() { case $(apt-cache policy "$1" 2>/dev/null) in *'Candidate: '[0-9]*) ;; *) return 1 ;; esac; }

apt_updated=0
apt_install() {
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600)
    if [ $apt_updated = 0 ]; then as_root "${apt[@]}" update >&2 || die "apt-get update failed"; apt_updated=1; fi
    as_root "${apt[@]}" install --no-install-recommends "$@" >&2 || die "unable to install: $*"
}

# packages LIST...: installs what is missing of scripts/packages-LIST.txt.
packages() {
    local list line name found missing=() wanted=()
    command -v dpkg-query >/dev/null || die "this script installs packages with apt (Debian 12 and 13, Ubuntu 24.04); elsewhere install what scripts/packages-*.txt names and run cargo build --release"
    for list in "$@"; do
        while read -r line; do
            case $line in '' | '#'*) continue ;; esac
            found=0
            for name in ${line//|/ }; do installed "${name#\?}" && found=1; done
            [ $found = 1 ] && continue
            case $line in '?'*) wanted+=("${line#\?}") ;; *) missing+=("$line") ;; esac
        done <"$top/scripts/packages-$list.txt"
    done
    # A wanted one that other means have put on the path is not installed a second time.
    for name in "${wanted[@]}"; do command -v "$name" >/dev/null || missing+=("?$name"); done
    [ ${#missing[@]} = 0 ] && return
    say "installing packages that are missing: ${missing[*]}"
    local take=()
    if [ $apt_updated = 0 ]; then as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 update >&2 || die "apt-get update failed"; apt_updated=1; fi
    for line in "${missing[@]}"; do
        found=0
        for name in ${line//|/ }; do
            if candidate "${name#\?}"; then take+=("${name#\?}"); found=1; break; fi
        done
        if [ $found = 0 ]; then
            case $line in '?'*) printf 'note: this release has no package %s; what needs it is skipped\n' "${line#\?}" >&2 ;;
            *) die "this release has no package $line" ;; esac
        fi
    done
    [ ${#take[@]} = 0 ] || apt_install "${take[@]}"
}

# at_least HAVE WANT: compares dotted versions.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

# node_ready: puts a node that is new enough on PATH. Debian 12 and Ubuntu 24.04 ship 18: there the binary comes from the
# npm registry (the packages node-linux-*, which hold nothing else), into a folder of this clone.
node_ready() {
    local have arch home=$top/tests/.work/node
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        say "installing node and npm from the distribution"
        if command -v node >/dev/null; then apt_install npm; else apt_install nodejs npm; fi
    fi
    have=$(node --version); have=${have#v}
    at_least "$have" $node_least && return
    case $(uname -m) in x86_64) arch=x64 ;; aarch64) arch=arm64 ;; *) die "node $have is too old (need $node_least) and there is no newer one for $(uname -m)" ;; esac
    local bin=$home/node_modules/node-linux-$arch/bin
    if [ ! -x "$bin/node" ]; then
        say "node $have is older than $node_least: fetching node $node_line for the build of the page"
        mkdir -p "$home"
        npm install --prefix "$home" --no-save --no-audit --no-fund --ignore-scripts "node-linux-$arch@$node_line" >&2 || die "unable to fetch node"
        chmod +x "$bin/node"
    fi
    PATH=$bin:$PATH; export PATH
}

# fingerprint PATH...: one hash over names and contents of files, without what is made from them.
fingerprint() {
    find "$@" -type d \( -name node_modules -o -name dist -o -name .work \) -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# web_install, web_build: only when web/ or its lock file changed since the last time.
web_install() {
    local stamp=$top/web/node_modules/.spindle-lock now
    now=$(sha256sum <"$top/web/package-lock.json")
    [ "$(cat "$stamp" 2>/dev/null)" = "$now" ] && return
    node_ready
    say "fetching the page's packages"
    (cd "$top/web" && npm ci --ignore-scripts --no-audit --no-fund >&2) || die "npm ci failed"
    printf '%s\n' "$now" >"$stamp"
}
web_build() {
    local stamp=$top/web/dist/.spindle-source now
    [ -f "$top/web/package.json" ] || die "web/ is missing from this clone"
    now=$(fingerprint "$top/web")
    [ "$(cat "$stamp" 2>/dev/null)" = "$now" ] && return
    node_ready
    web_install
    say "building the page"
    (cd "$top/web" && npm run --silent build >&2) || die "the page does not build"
    printf '%s\n' "$now" >"$stamp"
}

cargo_ready() {
    command -v cargo >/dev/null || { [ -x "$HOME/.cargo/bin/cargo" ] && PATH=$HOME/.cargo/bin:$PATH; }
    command -v cargo >/dev/null || die "cargo is missing: install Rust's stable toolchain with rustup (https://rustup.rs), then run this again"
}

# server_build: both programs, optimised. Runs after web_build: the page is embedded.
server_build() {
    cargo_ready
    say "building the server (the first time takes some minutes)"
    (cd "$top" && cargo build --release --locked --workspace --bins) || die "the server does not build"
}

# parsers_build: what asks the parsers for scripts/fuzz, with sums that are checked.
parsers_build() {
    cargo_ready
    (cd "$top" && cargo build --profile fuzz --locked -p spindle-media --example parse) || die "the parsers of the fuzzer do not build"
}

# disks_build: the disks of the tests (tests/lab/disks), a workspace of its own that nobody else needs.
disks_build() {
    cargo_ready
    say "building the disks of the tests"
    (cd "$top" && cargo build --release --locked --manifest-path tests/lab/disks/Cargo.toml) || die "the disks of the tests do not build"
}
