#!/bin/busybox sh
# The whole user space of a guest: an agent that answers each question once, and hangs afterwards, and a power button that works.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
	insmod "/modules/$module" 2>/dev/null
done
sleep 2 # devices appear asynchronously

for name in /sys/class/input/event*/device/name; do
	[ "$(cat "$name")" = "Power Button" ] || continue
	event=$(echo "$name" | sed 's,.*/\(event[0-9]*\)/.*,\1,')
	# evdev refuses reads shorter than one event, which is 24 bytes on 64 bit.
	(dd if="/dev/input/$event" of=/dev/null bs=24 count=1 2>/dev/null && poweroff -f) &
done

port=
while [ -z "$port" ]; do
	sleep 0.2
	for name in /sys/class/virtio-ports/*/name; do
		[ "$(cat "$name" 2>/dev/null)" = org.qemu.guest_agent.0 ] && port=/dev/$(basename "$(dirname "$name")")
	done
done
exec 3<>"$port"
echo "agent at $port" >/dev/ttyS0
mac=$(cat /sys/class/net/eth0/address)
hangs=
while true; do
	while read -r line <&3; do
		echo "asked $line" >/dev/ttyS0
		case $line in
		*guest-sync*) # libvirt compares the number
			number=$(echo "$line" | sed 's/.*"id": *\([0-9]*\).*/\1/')
			echo "{\"return\": $number}" >&3
			continue
			;;
		esac
		[ -n "$hangs" ] && continue
		case $line in
		*guest-ping*) echo '{"return": {}}' >&3 ;;
		*guest-get-osinfo*)
			echo '{"return": {"id": "tiny", "name": "Tiny\u001b Linux", "pretty-name": "Tiny Linux 1", "kernel-release": "'"$(uname -r)"'"}}' >&3
			;;
		*guest-network-get-interfaces*)
			echo '{"return": [{"name": "lo", "ip-addresses": [{"ip-address": "127.0.0.1"}], "hardware-address": "00:00:00:00:00:00"},' \
				'{"name": "eth0", "hardware-address": "'"$mac"'", "ip-addresses": [{"ip-address": "10.0.2.15"}, {"ip-address": "fe80::1"}]}]}' >&3
			hangs=yes
			;;
		*) echo '{"error": {"class": "CommandNotFound", "desc": "this agent has no such command"}}' >&3 ;;
		esac
	done
	sleep 0.1 # nobody has opened the other end
done
