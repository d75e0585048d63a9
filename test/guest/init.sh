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

# fact KEY VALUE: one line of the report, white space at the ends removed.
fact() {
	# shellcheck disable=SC2086 # splitting is what trims the value
	echo "@ $1=$(echo $2)"
}

# file KEY PATH: the fact that a sysfs file holds, nothing when it cannot be read.
file() {
	[ -r "$2" ] && value=$(tr -d '\000' <"$2" 2>/dev/null) && fact "$1" "$value"
}

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

report() {
	fact kernel "$(uname -r)"
	file cmdline /proc/cmdline
	fact memory.total.kib "$(awk '/^MemTotal:/ {print $2}' /proc/meminfo)"
	if [ -d /sys/firmware/efi ]; then fact firmware efi; else fact firmware bios; fi
	file clocksource /sys/devices/system/clocksource/clocksource0/current_clocksource
	fact cpu.model "$(awk -F': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)"
	for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
		[ -d "$cpu/topology" ] || continue
		n=${cpu##*/cpu}
		file "cpu.$n.socket" "$cpu/topology/physical_package_id"
		file "cpu.$n.die" "$cpu/topology/die_id"
		file "cpu.$n.core" "$cpu/topology/core_id"
	done
	for range in /sys/firmware/memmap/*; do
		n=${range##*/}
		fact "memmap.$n" "$(cat "$range/start") $(cat "$range/end") $(cat "$range/type")"
	done
	for id in /sys/class/dmi/id/*; do
		[ -f "$id" ] && [ "${id##*/}" != uevent ] && file "dmi.${id##*/}" "$id"
	done
	for table in /sys/firmware/acpi/tables/*; do
		[ -f "$table" ] && fact "acpi.${table##*/}" "$(wc -c <"$table")"
	done
	for dev in /sys/bus/pci/devices/*; do
		[ -e "$dev" ] || continue
		n=${dev##*/}
		fact "pci.$n.path" "$(readlink -f "$dev")"
		for f in vendor device class subsystem_vendor subsystem_device; do
			file "pci.$n.$f" "$dev/$f"
		done
		[ -e "$dev/driver" ] && fact "pci.$n.driver" "$(basename "$(readlink -f "$dev/driver")")"
	done
	for dev in /sys/bus/usb/devices/*; do
		[ -r "$dev/idVendor" ] || continue
		n=${dev##*/}
		fact "usb.$n.path" "$(readlink -f "$dev")"
		file "usb.$n.vendor" "$dev/idVendor"
		file "usb.$n.product" "$dev/idProduct"
		file "usb.$n.name" "$dev/product"
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
		if [ -r "$disk/serial" ]; then
			file "disk.$n.serial" "$disk/serial"
		else
			fact "disk.$n.serial" "$(serial_of "$dev")"
		fi
		file "disk.$n.model" "$dev/model"
		# shellcheck disable=SC2012 # the names are 0, 1, ...
		fact "disk.$n.queues" "$(ls "$disk/mq" 2>/dev/null | wc -l)"
		# ataN counts over all controllers; the port on its controller is in port_no.
		ata=$(echo "$dev" | sed -n 's,.*/\(ata[0-9]*\)/.*,\1,p')
		[ -n "$ata" ] && file "disk.$n.ataport" "/sys/class/ata_port/$ata/port_no"
	done
	for nic in /sys/class/net/*; do
		[ -e "$nic/device" ] || continue
		n=${nic##*/}
		fact "nic.$n.path" "$(readlink -f "$nic/device")"
		file "nic.$n.mac" "$nic/address"
		file "nic.$n.mtu" "$nic/mtu"
		fact "nic.$n.driver" "$(basename "$(readlink -f "$nic/device/driver")")"
		# shellcheck disable=SC2012 # the names are rx-0, rx-1, ...
		fact "nic.$n.queues" "$(ls -d "$nic"/queues/rx-* | wc -l)"
	done
	for port in /sys/class/virtio-ports/*; do
		[ -r "$port/name" ] && file "port.${port##*/}.name" "$port/name"
	done
	for tpm in /sys/class/tpm/*; do
		[ -e "$tpm" ] && file "tpm.${tpm##*/}.version" "$tpm/tpm_version_major"
	done
	for dog in /sys/class/watchdog/*; do
		[ -e "$dog" ] && file "watchdog.${dog##*/}.identity" "$dog/identity"
	done
	for input in /sys/class/input/input*; do
		[ -e "$input" ] && file "input.${input##*/}.name" "$input/name"
	done
}

# The power button: any event that it sends means "shut down now".
for name in /sys/class/input/event*/device/name; do
	[ "$(cat "$name")" = "Power Button" ] || continue
	event=$(echo "$name" | sed 's,.*/\(event[0-9]*\)/.*,\1,')
	# evdev refuses reads shorter than one event, which is 24 bytes on 64 bit.
	(dd if="/dev/input/$event" of=/dev/null bs=24 count=1 2>/dev/null && poweroff -f) &
done

# Written in one go and counted, so that a reader can tell a whole report from a torn one.
report >/report 2>/dev/null
{
	echo
	echo "KILN-REPORT-BEGIN"
	cat /report
	echo "KILN-REPORT-END $(wc -l </report)"
} >/dev/ttyS0

while true; do sleep 3600; done
