# Sourced by the recipes of cases.py inside the guest (busybox sh, as root). $D0 .. $D5 are the whole disks.
set -e
export DM_DISABLE_UDEV=1

# md LEVEL LAYOUT CHUNK_KIB DEVICE...: /dev/md0, its members in step from the start (they are all zeros). `-` leaves a value out.
# MD_OPTIONS adds to mdadm's arguments; the word `missing` stands for a member that is not there.
md() {
    level=$1 layout=$2 chunk=$3; shift 3
    options="--level=$level --raid-devices=$#"
    [ "$layout" = - ] || options="$options --layout=$layout"
    [ "$chunk" = - ] || options="$options --chunk=$chunk"
    case $level in 0 | linear) ;; *) options="$options --bitmap=none ${MD_CLEAN---assume-clean}" ;; esac
    mdadm --create "${MD:-/dev/md0}" --run --metadata=1.2 $options $MD_OPTIONS "$@" 2>&1
}

lv_config='devices{use_devicesfile=0 dir="/dev" scan=["/dev"] filter=["a|/dev/vd|","a|/dev/md|","a|/dev/sd|","r|.*|"]} activation{udev_sync=0 udev_rules=0 monitoring=0} global{use_lvmpolld=0 locking_type=1 thin_check_executable="" cache_check_executable=""} backup{backup=0 archive=0} allocation{cache_pool_max_chunks=1000000}'
# lv COMMAND ARGUMENTS...: lvm without udev, without questions.
lv() { command=$1; shift; timeout 60 lvm "$command" --config "$lv_config" -qq -y "$@" 2>&1; }
# vg DEVICE...: the volume group `vg`.
vg() { lv pvcreate -ff "$@"; lv vgcreate vg "$@"; }
lvcreate() { lv lvcreate -Zn -Wn "$@" vg; dmsetup mknodes; }

# crypt NAME DEVICE: LUKS2 with a key that is cheap to derive, opened as /dev/mapper/NAME.
crypt() {
    printf 'a key of the lab' > /tmp/key
    cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --luks2-metadata-size 16k --luks2-keyslots-size 256k --key-file /tmp/key "$2"
    cryptsetup open --key-file /tmp/key "$2" "$1"
    dmsetup mknodes
}

sectors() { cat "/sys/class/block/$(basename "$(readlink -f "$1")")/size"; }

# bcache_up DEVICE...: what make-bcache has formatted becomes /dev/bcache0.
bcache_up() {
    for device in "$@"; do echo "$device" > /sys/fs/bcache/register; done
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/bcache0 ] && return; sleep 0.2; done
    echo "no /dev/bcache0"; return 1
}

# gone DISK: the machine loses a disk, as when its cable is pulled.
gone() { echo 1 > "$(readlink -f "/sys/block/$(basename "$1")/device/..")/remove"; }

# zdev DISK: what a case of ZFS has over a whole disk.
zdev() { echo "/dev/mapper/z${1##*/}"; }

# down: takes apart whatever a case has built, from the top. A case says more by its own `down`.
down() {
    set +e
    if command -v zpool >/dev/null; then zpool destroy -f z >/dev/null 2>&1; fi
    umount /mnt/pool 2>/dev/null || umount -l /mnt/pool 2>/dev/null
    python3 -c 'import shares; shares.stop("/srv/export")'
    if [ -d /sys/fs/bcache ]; then
        for set in /sys/fs/bcache/*-*; do [ -e "$set/stop" ] && echo 1 > "$set/stop"; done
        for device in /sys/block/bcache*; do [ -e "$device/bcache/stop" ] && echo 1 > "$device/bcache/stop"; done
    fi
    for _ in 1 2 3; do
        dmsetup remove_all --force --retry >/dev/null 2>&1
        for array in /sys/block/md*; do [ -e "$array" ] && mdadm --stop "/dev/${array##*/}" >/dev/null 2>&1; done
        ls /sys/block | grep -qE '^(dm-|md|bcache)' || break
        sleep 0.3
    done
    # Without udev nobody else takes these away, and lvm refuses a group whose folder is there.
    rm -rf /dev/vg /run/lvm/hints
    for node in /dev/mapper/*; do [ "$node" = /dev/mapper/control ] || rm -f "$node"; done
    echo 1 > /sys/bus/pci/rescan
    left=$(ls /sys/block | grep -E '^(dm-|md|bcache)' | tr '\n' ' ')
    [ -z "$left" ] || { echo "still there: $left"; return 1; }
}
