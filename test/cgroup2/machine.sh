#!/bin/sh
# Process 1 of the machine: what a distribution does before a node can run, with cgroups of version 2 alone. Then it runs the node, and obeys the lines that it
# reads from the console. What it says for the test begins with KILN-.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
ulimit -n 1048576 # as systemd has it: the kernel gives process 1 only 4096 files, which is too few for passt
mkdir -p /usr/lib/modules /dev/pts /dev/shm
mount --bind /machine/lib/modules /usr/lib/modules
ln -sf /machine/busybox /usr/sbin/modprobe # the kernel calls it for modules that it needs
modprobe vhost_net && modprobe tun # for /dev/vhost-net and /dev/net/tun, which udev would make
mount -t tmpfs -o mode=755 run /run
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
. /disk/settings
ip link set eth0 name lan
mkdir -p "$DIR" "$STORE"
# overlayfs takes no upper directory on overlayfs, and containerd makes overlays.
mount --bind /disk/node "$DIR"
mount --bind /disk/store "$STORE"

mkfifo /run/in
exec 3<>/run/in
cat /disk/spec.json >&3
/machine/controlplane node machine </run/in >/run/out 3>&- &
node=$!
while [ ! -s /run/out ] && kill -0 $node 2>/dev/null; do sleep 0.2; done

logs() {
	for log in "$DIR"/*.log; do
		echo "== $log"
		tail -n "$1" "$log" | cut -c 1-500
	done
	dmesg | tail -n "$1"
}

# left lists the cgroups and processes of the machine that are not the kernel's or this script's.
left() {
	find /sys/fs/cgroup -mindepth 1 -type d | sed 's/^/KILN-LEFT cgroup /'
	for process in /proc/[0-9]*; do
		name=$(tr '\0' ' ' 2>/dev/null <"$process/cmdline")
		case ${process#/proc/} in 1 | $$) continue ;; esac
		case $name in "" | "tr "*) continue ;; esac
		echo "KILN-LEFT process $name"
	done
}

if [ -s /run/out ]; then echo KILN-READY; else logs 20 && echo "KILN-FAILED the node has ended"; fi
while read -r word; do
	case $word in
	logs) logs 60 && echo KILN-LOGGED ;;
	list) left && echo KILN-LISTED ;;
	end)
		exec 3>&- # which ends the node
		wait $node
		echo "KILN-STATUS $?"
		left
		free -m | sed -n 's/^/KILN-MEMORY /p'
		echo KILN-ENDED
		/machine/busybox poweroff -f
		;;
	esac
done
