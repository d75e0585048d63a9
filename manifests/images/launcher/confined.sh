#!/bin/sh
# Runs a program of an unpacked image as a pod would: account 107, no rights, no network, a root file system that nobody can write, one folder for /tmp.
# Usage: confined.sh ROOT STATE PROGRAM ARGUMENT..., as process 1 of new namespaces. Nothing of it outlives them.
set -e
root=$1 state=$2
shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom; do
	: >"$root/dev/$name"
	mount --bind "/dev/$name" "$root/dev/$name"
done
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --bind "$state" "$root/tmp"
# The shell stays: it buries orphans, and libvirt takes a zombie for a QEMU that refuses to die.
setpriv --no-new-privs chroot --userspec=107:107 --groups=107 "$root" "$@" &
wait $!
