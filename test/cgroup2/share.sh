#!/bin/sh
# Shows this machine's files to another machine, read-only, until that one ends. Run it in a mount namespace of its own:
# share.sh FOLDER SOCKET SUPERVISOR SCRIPT BUSYBOX MODULES RELEASE FOLDERS...
set -eu
share=$1 socket=$2 supervisor=$3 script=$4 busybox=$5 modules=$6 release=$7
shift 7
mount -t tmpfs -o mode=755 share "$share"

show() {
	if [ -d "$1" ]; then mkdir -p "$share$2"; else
		mkdir -p "$share$(dirname "$2")"
		: >"$share$2"
	fi
	mount --bind "$1" "$share$2"
	mount -o remount,bind,ro "$share$2"
}

for folder in /usr /etc "$@"; do
	show "$folder" "$folder"
done
for folder in /bin /sbin /lib /lib64; do
	if [ -L "$folder" ]; then ln -s "$(readlink "$folder")" "$share$folder"; elif [ -d "$folder" ]; then show "$folder" "$folder"; fi
done
for folder in disk proc sys dev run tmp root var/lib; do
	mkdir -p "$share/$folder"
done
show "$supervisor" /machine/controlplane
show "$script" /machine/machine.sh
show "$busybox" /machine/busybox
show "$modules" "/machine/lib/modules/$release/kernel"
"$busybox" depmod -b "$share/machine" "$release"
exec /usr/lib/qemu/virtiofsd --socket-path="$socket" -o "source=$share" -o cache=always -o no_posix_lock -f
