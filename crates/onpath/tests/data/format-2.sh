#!/bin/bash
# Makes format-2.tar.gz and format-2.listing, as they were made when format version 2 was complete: what later builds must go on reading.
# It is not run again: another build would write something else. Needs root; DIRECTORY is empty.
#
#   format-2.sh ONPATH DIRECTORY
set -euo pipefail
onpath=$1 state=$2/state mnt=$2/mnt
mkdir "$state" "$mnt"

serve() {
    "$onpath" dev "$@" "$state" "$mnt" &
    server=$!
    for _ in $(seq 100); do
        if mountpoint -q "$mnt"; then return; fi
        sleep 0.1
    done
    exit 1
}

fill() {
    local half=$mnt/$1 n
    mkdir -p "$half/a/b/c" "$half/other" "$half/moved"
    echo "written by $1" >"$half/a/b/c/text"
    ln "$half/a/b/c/text" "$half/other/also"
    ln -s ../a/b "$half/other/link"
    head -c 20000 /dev/zero | tr '\0' x >"$half/a/twenty"
    chmod 4755 "$half/a/twenty"
    truncate -s 1M "$half/a/hole"
    printf end | dd of="$half/a/hole" bs=1 seek=1048573 conv=notrunc status=none
    touch -d @1000000000.123456789 "$half/a/hole"
    mkfifo "$half/a/pipe"
    chown 1000:1001 "$half/a/b"
    setfacl -m u:1000:r "$half/a/b/c/text"
    python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.color", b"blue")' "$half/a/b/c/text"
    mv "$half/moved" "$half/other/here"
    for n in $(seq 40); do echo "$n" >"$half/other/here/n$n"; done
    rm "$half"/other/here/n1?
    echo short >"$half/grows"
    echo more >>"$half/grows"
    echo replaced >"$half/new"
    mv "$half/new" "$half/grows2"
}

serve --shards 2
fill checkpointed
umount "$mnt"
wait "$server"
serve
fill journaled
rm -r "$mnt/checkpointed/other/here"
ln "$mnt/checkpointed/a/b/c/text" "$mnt/journaled/third"
sync -f "$mnt/journaled/third"
find "$mnt" -mindepth 1 -printf '%P %y %m %n %U %G %s %i >%l\n' | LC_ALL=C sort >"$2/format-2.listing"
kill -KILL "$server"
wait "$server" || true
umount -l "$mnt"
rm "$state"/socket "$state"/journals/1/journal/reserve-* "$state/journals/1/checkpoint/reserve"
tar -C "$state" -S -czf "$2/format-2.tar.gz" .
