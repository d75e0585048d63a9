#!/bin/busybox sh
# The whole user space of the test guest: load drivers, say once over the first
# serial port what hardware is here, then stay up until the power button.
# busybox is the only program; every command below is one of its applets.
/bin/busybox --install -s /bin
export PATH=/bin

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# A kernel message in the middle of a report line would spoil it.
dmesg -n 1

for module in $(cat /modules/order); do
	insmod "/modules/$module" 2>/dev/null
done

# The driver of a TPM gives up when an answer takes a second, as on a loaded machine. It is asked again.
for _ in 1 2 3; do
	for tpm in /sys/bus/acpi/devices/MSFT0101:*; do
		if [ ! -e "$tpm" ] || [ -n "$(ls /sys/class/tpm)" ]; then break 2; fi
		echo "${tpm##*/}" >/sys/bus/platform/drivers/tpm_tis/bind
		echo "${tpm##*/}" >/sys/bus/acpi/drivers/tpm_crb/bind
	done
done 2>/dev/null

# Disks and network cards appear asynchronously. The set is taken as complete
# when it has not changed for a second; a loaded emulator only makes this longer.
seen=none
quiet=0
while [ "$quiet" -lt 4 ]; do
	now=$(ls /sys/block /sys/class/net /sys/bus/pci/devices /sys/bus/usb/devices 2>/dev/null)
	if [ "$now" = "$seen" ]; then quiet=$((quiet + 1)); else quiet=0; fi
	seen=$now
	sleep 0.25
done

# fact KEY VALUE: one line of the report, white space at the ends removed, lines joined.
fact() {
	key=$1
	set -f # a serial may hold a star
	# shellcheck disable=SC2086 # splitting is what trims the value
	set -- $2
	set +f
	echo "@ $key=$*"
}

# content PATH...: sets it to what short files hold. The shell itself reads, NUL bytes left out: a
# process for each of a thousand files would take longer than the boot.
content() {
	content=
	for short in "$@"; do
		[ -r "$short" ] || continue
		while read -r line || [ -n "$line" ]; do content="$content $line"; done <"$short"
	done
}

# file KEY PATH: the fact that a short sysfs file holds, nothing when it cannot be read.
file() {
	[ -r "$2" ] || return
	content "$2"
	fact "$1" "$content"
}

# files PREFIX DIRECTORY NAME...: one fact for each of a directory's files, by its name.
files() {
	prefix=$1 from=$2
	shift 2
	for name in "$@"; do file "$prefix.$name" "$from/$name"; done
}

# hex PATH [BYTES]: a file's content as hexadecimal digits.
hex() { hexdump -v ${2:+-n "$2"} -e '1/1 "%02x"' "$1"; }

# sum PATH: size and SHA-256 of a file.
sum() { echo "$(wc -c <"$1") $(sha256sum <"$1" | cut -d ' ' -f 1)"; }

# serial_of DEVICE: SCSI and ATA disks keep it in VPD page 0x80 behind four header
# bytes; a USB stick keeps it in its USB device, some directories up.
serial_of() {
	if [ -r "$1/vpd_pg80" ]; then
		tail -c +5 "$1/vpd_pg80" | tr -d '\000'
		return
	fi
	dir=$1
	while [ "$dir" != /sys/devices ] && [ "$dir" != / ]; do
		if [ -r "$dir/serial" ]; then cat "$dir/serial"; return; fi
		dir=$(dirname "$dir")
	done
}

# udev BUILTIN PATH: the properties that udev's builtin gives to a device; nothing without udev, see AddUdev.
udev() {
	[ -x /udev/udevadm ] && /udev/loader --library-path /udev /udev/udevadm test-builtin "$1" "$2" 2>/dev/null
}

# property NAME TEXT: the value of a property of udev.
property() { echo "$2" | sed -n "s/^$1=//p"; }

# leaf NUMBER [SUBLEAF]: the registers EAX, EBX, ECX and EDX that CPUID gives to the first CPU, as bytes.
leaf() {
	number=$1 subleaf=${2:-0}
	dd if=/dev/cpu/0/cpuid bs=16 count=1 iflag=skip_bytes skip="$((subleaf * 4294967296 + number))" 2>/dev/null | hexdump -v -e '1/1 "%02x"'
}

# leaves FIRST: the leaves from FIRST to the last one of its range, which EAX of FIRST says.
leaves() {
	first=$1 registers=$(leaf "$1")
	last=$(echo "$registers" | sed 's/^\(..\)\(..\)\(..\)\(..\).*/0x\4\3\2\1/')
	[ -n "$registers" ] && [ "$((last))" -ge "$((first))" ] && [ "$((last - first))" -lt 64 ] || return
	for number in $(seq "$((first))" "$((last))"); do
		fact "cpuid.$(printf %x "$number")" "$(leaf "$number")"
		case $number in
		4 | 7 | 11 | 13 | 20) # their subleaves describe caches, features, topology, and states of XSAVE
			for subleaf in 1 2 3 4; do fact "cpuid.$(printf %x "$number").$subleaf" "$(leaf "$number" "$subleaf")"; done
			;;
		esac
	done
}

# machine: what is no device of a bus.
machine() {
	fact kernel "$(uname -r)"
	file cmdline /proc/cmdline
	fact memory.total.kib "$(awk '/^MemTotal:/ {print $2}' /proc/meminfo)"
	if [ -d /sys/firmware/efi ]; then
		fact firmware efi
		vars=/sys/firmware/efi/efivars
		mount -t efivarfs efivarfs "$vars"
		# Behind four bytes of attributes: 1 if the firmware enforces Secure Boot. od cannot skip them, because these files cannot be sought in.
		fact secureboot "$(od -An -tu1 "$vars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c" | awk '{print $5}')"
		umount "$vars" # vault mounts it, too
	else
		fact firmware bios
	fi
	file clocksource /sys/devices/system/clocksource/clocksource0/current_clocksource
	fact cpu.model "$(awk -F': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)"
	# cpuid is what differs between models; megahertz and bogomips differ from boot to boot.
	awk -F'[\t ]*: ' '$1 == "processor" {n = $2}
		/^(vendor_id|cpu family|model|stepping|flags|address sizes)[\t ]*:/ {gsub(" ", "_", $1); print "@ cpu." n "." $1 "=" $2}' /proc/cpuinfo
	if [ -r /dev/cpu/0/cpuid ]; then # amd64
		leaves 0
		leaves 0x40000000 # the hypervisor's
		leaves 0x80000000
	fi
	for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
		[ -d "$cpu/topology" ] || continue
		n=${cpu##*/cpu}
		file "cpu.$n.socket" "$cpu/topology/physical_package_id"
		file "cpu.$n.die" "$cpu/topology/die_id"
		file "cpu.$n.core" "$cpu/topology/core_id"
		for cache in "$cpu"/cache/index*; do
			[ -d "$cache" ] || continue
			content "$cache/level" "$cache/type" "$cache/size" "$cache/shared_cpu_list"
			fact "cpu.$n.cache${cache##*/index}" "$content"
		done
	done
	file possible /sys/devices/system/cpu/possible
	# Blocks are what memory is plugged in; a node's own MemTotal lacks what the kernel keeps.
	file memory.block.bytes /sys/devices/system/memory/block_size_bytes
	for node in /sys/devices/system/node/node[0-9]*; do
		[ -d "$node" ] || continue
		n=${node##*/node}
		fact "node.$n.cpulist" "$(cat "$node/cpulist")" # which the kernel does not give byte by byte
		file "node.$n.distance" "$node/distance"
		# shellcheck disable=SC2012 # the names are memory0, memory1, ...
		fact "node.$n.blocks" "$(ls -d "$node"/memory[0-9]* | wc -l)"
	done
	for range in /sys/firmware/memmap/*; do
		n=${range##*/}
		content "$range/start" "$range/end" "$range/type"
		fact "memmap.$n" "$content"
	done
	for id in /sys/class/dmi/id/*; do
		[ -f "$id" ] && [ "${id##*/}" != uevent ] && file "dmi.${id##*/}" "$id"
	done
	for table in /sys/firmware/acpi/tables/*; do
		[ -f "$table" ] && fact "acpi.${table##*/}" "$(sum "$table")"
	done
	# What QEMU hands on through its firmware: files of the owner, and the generation ID, 40 bytes into its page.
	handed=/sys/firmware/qemu_fw_cfg/by_name
	for raw in $(find -L $handed/opt -name raw 2>/dev/null); do
		name=${raw#"$handed"/}
		fact "fwcfg.${name%/raw}" "$(sum "$raw")"
	done
	# The devices that the firmware boots from, the first one first. A path has slots and no numbers of buses.
	[ -r $handed/bootorder/raw ] && fact bootorder "$(tr '\000\n' '  ' <$handed/bootorder/raw)"
	if [ -r $handed/etc/vmgenid_guid/raw ]; then
		fact generation "$(tail -c +41 $handed/etc/vmgenid_guid/raw | head -c 16 | hexdump -v -e '1/1 "%02x"')"
	fi
	fact smbios "$(hexdump -v -e '1/1 "%02x"' /sys/firmware/dmi/tables/DMI)"
}

# places: where PCI and USB devices, disks and network cards are.
places() {
	for dev in /sys/bus/pci/devices/*; do
		[ -e "$dev" ] || continue
		n=${dev##*/}
		fact "pci.$n.path" "$(readlink -f "$dev")"
		files "pci.$n" "$dev" vendor device class subsystem_vendor subsystem_device revision
		if [ -z "$brief" ]; then
			fact "pci.$n.resource" "$(cat "$dev/resource")"
			fact "pci.$n.config" "$(hex "$dev/config" 256)"
		fi
		[ -e "$dev/driver" ] && driver=$(readlink -f "$dev/driver") && fact "pci.$n.driver" "${driver##*/}"
	done
	for dev in /sys/bus/usb/devices/*; do
		[ -r "$dev/idVendor" ] || continue
		n=${dev##*/}
		fact "usb.$n.path" "$(readlink -f "$dev")"
		file "usb.$n.vendor" "$dev/idVendor"
		file "usb.$n.product" "$dev/idProduct"
		file "usb.$n.name" "$dev/product"
		files "usb.$n" "$dev" serial speed bcdDevice
	done
	for disk in /sys/block/*; do
		# loop, ram and their like have no device behind them.
		[ -e "$disk/device" ] || continue
		n=${disk##*/}
		dev=$(readlink -f "$disk/device")
		fact "disk.$n.path" "$dev"
		fact "disk.$n.sectors" "$(cat "$disk/size")"
		file "disk.$n.readonly" "$disk/ro"
		file "disk.$n.removable" "$disk/removable"
		file "disk.$n.logical" "$disk/queue/logical_block_size"
		file "disk.$n.physical" "$disk/queue/physical_block_size"
		files "disk.$n" "$disk/queue" rotational discard_granularity discard_max_bytes write_cache
		if [ -r "$disk/serial" ]; then
			file "disk.$n.serial" "$disk/serial"
		else
			fact "disk.$n.serial" "$(serial_of "$dev")"
		fi
		file "disk.$n.model" "$dev/model"
		# shellcheck disable=SC2012 # the names are 0, 1, ...
		fact "disk.$n.queues" "$(ls "$disk/mq" 2>/dev/null | wc -l)"
		# ataN counts over all controllers; the port on its controller is in port_no.
		links=$(udev path_id "$disk")
		[ -n "$links" ] && fact "disk.$n.link" "$(property ID_PATH "$links")"
		ata=$(echo "$dev" | sed -n 's,.*/\(ata[0-9]*\)/.*,\1,p')
		[ -n "$ata" ] && file "disk.$n.ataport" "/sys/class/ata_port/$ata/port_no"
	done
	for nic in /sys/class/net/*; do
		[ -e "$nic/device" ] || continue
		n=${nic##*/}
		fact "nic.$n.path" "$(readlink -f "$nic/device")"
		file "nic.$n.mac" "$nic/address"
		file "nic.$n.mtu" "$nic/mtu"
		names=$(udev net_id "$nic")
		# The order of NamePolicy in systemd's 99-default.link.
		for kind in ONBOARD SLOT PATH; do
			called=$(property "ID_NET_NAME_$kind" "$names")
			[ -n "$called" ] && fact "nic.$n.predictable" "$called" && break
		done
		fact "nic.$n.driver" "$(basename "$(readlink -f "$nic/device/driver")")"
		# shellcheck disable=SC2012 # the names are rx-0, rx-1, ...
		fact "nic.$n.queues" "$(ls -d "$nic"/queues/rx-* | wc -l)"
	done
}

# others: the other devices.
others() {
	for dev in /sys/bus/virtio/devices/*; do
		[ -e "$dev" ] || continue
		n=${dev##*/}
		fact "virtio.$n.path" "$(readlink -f "$dev")"
		files "virtio.$n" "$dev" device features
	done
	for port in /sys/class/virtio-ports/*; do
		[ -r "$port/name" ] || continue
		fact "port.${port##*/}.path" "$(readlink -f "$port/device")"
		file "port.${port##*/}.name" "$port/name"
	done
	for tpm in /sys/class/tpm/*; do
		[ -e "$tpm" ] && file "tpm.${tpm##*/}.version" "$tpm/tpm_version_major"
	done
	for dog in /sys/class/watchdog/*; do
		[ -e "$dog" ] && file "watchdog.${dog##*/}.identity" "$dog/identity"
	done
	for input in /sys/class/input/input*; do
		[ -e "$input" ] || continue
		n=${input##*/}
		fact "input.$n.path" "$(readlink -f "$input/device")"
		file "input.$n.name" "$input/name"
		content "$input/id/bustype" "$input/id/vendor" "$input/id/product" "$input/id/version"
		fact "input.$n.id" "$content"
	done
	for tty in /sys/class/tty/ttyS*; do
		# Type 0 is a port that the driver reserves and nothing answers at.
		content "$tty/type" "$tty/port" "$tty/irq"
		[ "${content# 0}" = "$content" ] && fact "serial.${tty##*/}" "$content"
	done
	file rng /sys/class/misc/hw_random/rng_available
	for dev in /sys/bus/acpi/devices/*; do
		[ -e "$dev/path" ] || continue
		content "$dev/path"
		called=${content# }
		content "$dev/hid" "$dev/adr" "$dev/sun"
		fact "namespace.$called" "$content"
	done
}

# The power button: any event that it sends means "shut down now".
for name in /sys/class/input/event*/device/name; do
	[ "$(cat "$name")" = "Power Button" ] || continue
	event=$(echo "$name" | sed 's,.*/\(event[0-9]*\)/.*,\1,')
	# evdev refuses reads shorter than one event, which is 24 bytes on 64 bit.
	(dd if="/dev/input/$event" of=/dev/null bs=24 count=1 2>/dev/null && poweroff -f) &
done

# Words 'kiln.' on the kernel's command line say what else to do. With any of them, seeds of cloud-init are mounted, and words in their user data count too.
cp /proc/cmdline /words
if grep -q '\bkiln\.' /words; then
	for disk in /sys/block/*; do
		n=${disk##*/}
		[ -e "$disk/device" ] || continue
		mkdir -p "/seed/$n"
		mount -t iso9660 -o ro "/dev/$n" "/seed/$n" 2>/dev/null || continue
		tr '\n' ' ' <"/seed/$n/user-data" >"/seed-$n"
		echo "KILN-SEED $n $(cat "/seed-$n")" >/dev/ttyS0
		cat "/seed-$n" >>/words
	done
fi

# told NAME: the value of the first word kiln.NAME; nothing without it.
told() { sed -n "s/.*\bkiln\.$1=\([^ ]*\).*/\1/p" /words | head -n 1; }

# kiln.vault=DISK: tries variables of the firmware and seals of the TPM, see vault/main.go. kiln.keep=TEXT is for the variable. There is no report
# then: it costs seconds.
vault=$(told vault)
if [ -n "$vault" ]; then
	vault "$vault" "$(told keep)" >/dev/ttyS0 2>&1
	echo "KILN-VAULT-END" >/dev/ttyS0
	while true; do sleep 3600; done
fi

# kiln.places=1: the report has only the places of devices, for guests that boot often.
brief=$(told places)

# whole_report: written in one go and counted, so that a reader can tell a whole report from a torn one.
whole_report() {
	{
		places
		if [ -z "$brief" ]; then
			machine
			others
		fi
	} >/report 2>/dev/null
	echo
	echo "KILN-REPORT-BEGIN"
	cat /report
	echo "KILN-REPORT-END $(wc -l </report)"
}
whole_report >/dev/ttyS0

# kiln.mark=TEXT: says what mark each disk but seeds has, and writes this one to those that can be written. The mark is in the last sector of the first
# MiB: no partition table and no partition of a boot disk lies there (disk.go).
mark=$(told mark)
if [ -n "$mark" ]; then
	for disk in /sys/block/*; do
		n=${disk##*/}
		if [ ! -e "$disk/device" ] || [ -e "/seed-$n" ]; then continue; fi
		old=$(dd if="/dev/$n" bs=512 skip=2047 count=1 2>/dev/null | tr -d '\000' | head -c 64)
		echo "KILN-MARK $n $(cat "$disk/ro") $old" >/dev/ttyS0
		[ "$(cat "$disk/ro")" = 0 ] && printf '%s\n' "$mark" | dd of="/dev/$n" conv=sync,fsync bs=512 seek=2047 2>/dev/null
	done
	echo "KILN-MARKED $mark" >/dev/ttyS0
fi

# kiln.serve=PORT: asks for an address by DHCP, and answers HTTP at that port with its address, at /boot with the ID of its boot, and lines of the console.
port=$(told serve)
if [ -n "$port" ]; then
	nic=$(ls /sys/class/net | grep -v '^lo$' | head -n 1)
	ip link set lo up
	ip link set "$nic" up
	mkdir -p /www
	# shellcheck disable=SC2016 # the script of udhcpc expands these
	printf '#!/bin/busybox sh\n[ "$1" = bound ] || exit 0\nip addr add "$ip/$mask" dev "$interface"\nip route add "$router" dev "$interface"\nip route add default via "$router"\necho "guest at $ip" >/www/index.html\n' >/dhcp
	chmod +x /dhcp
	udhcpc -i "$nic" -s /dhcp -n -q -t 10 -T 1 >/dev/null 2>&1
	cat /proc/sys/kernel/random/boot_id >/www/boot
	httpd -p "$port" -h /www
	# What is typed at the console is answered.
	while read -r line; do echo "KILN-HEARD $line" >/dev/ttyS0; done </dev/ttyS0 &
	echo "KILN-SERVES $(cat /www/index.html)" >/dev/ttyS0
fi

# kiln.load=URL, with kiln.serve: fills most of the free memory, then writes and reads all disks and fetches the URL without end. It says so when each has
# been done once.
url=$(told load)
if [ -n "$url" ]; then
	# Not in the root, which holds half of the memory at most: a full one would lose what the loops below say.
	mkdir /full
	mount -t tmpfs -o size=100% tmpfs /full
	dd if=/dev/zero of=/full/zeros bs=1M count="$(awk '/^MemAvailable:/ {print int($2 / 1024 * 2 / 3)}' /proc/meminfo)" 2>/dev/null
	for disk in /sys/block/*; do
		[ -e "$disk/device" ] && [ "$(cat "$disk/ro")" = 0 ] || continue
		n=${disk##*/}
		(while dd if=/dev/zero of="/dev/$n" bs=256k count=64 conv=fsync 2>/dev/null && dd if="/dev/$n" of=/dev/null bs=256k 2>/dev/null; do
			echo "$n" >>/loads
		done) &
	done
	for n in 1 2 3 4; do
		(while wget -q -O /dev/null "$url"; do echo "wget$n" >>/loads; done) &
	done
	while [ "$(sort -u /loads 2>/dev/null | wc -l)" -lt 5 ]; do sleep 1; done
	echo "KILN-LOADED $(sort /loads | uniq -c | tr '\n' ' ')" >/dev/ttyS0
fi

# kiln.grow=1: brings CPUs and memory online that are plugged in, as udev does, and says what there is after each change: CPUs, KiB of memory, network cards,
# disks, how many of the cards have a link, and drives with a medium. With kiln.serve, /report has a report of what there is then.
if [ -n "$(told grow)" ]; then
	umount /seed/* 2>/dev/null # a drive whose medium is mounted keeps it
	was=
	while true; do
		for part in /sys/devices/system/cpu/cpu*/online /sys/devices/system/memory/memory*/online; do
			[ "$(cat "$part")" = 0 ] && echo 1 >"$part"
		done 2>/dev/null
		nics=0 disks=0 links=0 media=0
		for nic in /sys/class/net/*; do
			[ -e "$nic/device" ] || continue
			nics=$((nics + 1))
			ip link set "${nic##*/}" up
			[ "$(cat "$nic/carrier" 2>/dev/null)" = 1 ] && links=$((links + 1))
		done
		for disk in /sys/block/*; do
			[ -e "$disk/device" ] || continue
			disks=$((disks + 1))
			case "$disk" in */sr*) dd if="/dev/${disk##*/}" of=/dev/null bs=2048 count=1 2>/dev/null && media=$((media + 1)) ;; esac
		done
		now="$(grep -c '^processor' /proc/cpuinfo) $(awk '/^MemTotal:/ {print $2}' /proc/meminfo) $nics $disks $links $media"
		if [ "$now" != "$was" ]; then
			echo "KILN-HAS $now" >/dev/ttyS0
			[ -d /www ] && whole_report >/www/new && mv /www/new /www/report
		fi
		was=$now
		sleep 1
	done
fi

# kiln.agent=DISK, where AddAgent has added an agent: makes a filesystem on the disk and starts the agent. Files are written to it without end, and each is
# said when it is on the disk: a frozen filesystem takes none. User demo gets keys and a password from the agent, and each change of these is said. The guest
# has no chpasswd: a script takes its place.
agent=$(told agent)
if [ -n "$agent" ]; then
	for module in $(cat /agent/order); do
		insmod "/agent/$module" 2>/dev/null
	done
	mkdir -p /kept /run
	if ! { mke2fs "/dev/$agent" && mount -t ext4 "/dev/$agent" /kept; } >/made 2>&1; then
		echo "KILN-AGENT has no filesystem: $(cat /made)" >/dev/ttyS0
	fi
	mkdir -p /etc /home/demo
	echo 'demo:x:1000:1000::/home/demo:/bin/sh' >>/etc/passwd
	chown 1000:1000 /home/demo
	printf '#!/bin/busybox sh\ncat >/etc/given\n' >/bin/chpasswd
	chmod 755 /bin/chpasswd
	for name in /sys/class/virtio-ports/*/name; do
		[ "$(cat "$name")" = org.qemu.guest_agent.0 ] && channel=/dev/$(basename "$(dirname "$name")")
	done
	/agent/loader --library-path /agent /agent/qemu-ga -m virtio-serial -p "$channel" -t /run -f /run/qemu-ga.pid &
	wrote=0
	while true; do
		wrote=$((wrote + 1))
		echo "$wrote" >"/kept/file" && sync && echo "KILN-WROTE $wrote" >/dev/ttyS0
		has=$(cat /etc/given /home/demo/.ssh/authorized_keys 2>/dev/null | tr '\n' ';')
		[ "$has" = "$had" ] || { had=$has && echo "KILN-CREDENTIALS $has" >/dev/ttyS0; }
		sleep 0.2
	done
fi

while true; do sleep 3600; done
