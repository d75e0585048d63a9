#!/bin/sh
# Runs libvirtd on directories of its own. It is process 1 of a process namespace and alone in a
# mount namespace, so that everything below ends with it, also the QEMUs, which libvirt makes
# daemons. It ends when its standard input is closed, also when the process that started it was killed.
# Usage: private.sh DIR, with DIR as daemon.go lays it out. DIR is removed at the end.
set -e
dir=$1

# libvirt has these paths compiled in; no option moves them for a daemon of root.
mount --bind "$dir/etc" /etc/libvirt
mount --bind "$dir/lib" /var/lib/libvirt
mount --bind "$dir/cache" /var/cache/libvirt
mount --bind "$dir/log" /var/log/libvirt
# swtpm's own certificate authority: two domains with a TPM in two daemons would race for its lock.
if [ -d /var/lib/swtpm-localca ]; then
	chown --reference=/var/lib/swtpm-localca "$dir/localca"
	mount --bind "$dir/localca" /var/lib/swtpm-localca
fi
# All of /run: without D-Bus there is neither systemd-machined nor firewalld to leave something with.
mount --bind "$dir/run" /run

finish() {
	trap '' TERM
	# Every process of this namespace but this one, which the kernel protects.
	kill -9 -1 2>/dev/null || true
	rm -rf "$dir"
	exit 0
}
trap finish TERM

exec 3<&0 </dev/null
(cat <&3 >/dev/null; kill -TERM 1) &
exec 3<&-
libvirtd --pid-file /run/libvirtd.pid &
# Orphans become children of this shell, and wait also buries those: libvirt takes a zombie for a
# QEMU that refuses to die.
wait $!
echo "libvirtd ended with status $?"
