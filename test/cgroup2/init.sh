#!/bin/busybox sh
# Process 1 of the machine until its root file system is there: the files of the machine that started it, read-only, below a disk.
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /lower /disk /root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
	insmod "/modules/$module" || echo "KILN-FAILED module $module"
done
until [ -b /dev/vda ]; do sleep 0.1; done
mount -t virtiofs -o ro host /lower || echo "KILN-FAILED no files"
mount -t ext4 /dev/vda /disk || echo "KILN-FAILED no disk"
mkdir -p /disk/upper /disk/work
mount -t overlay -o lowerdir=/lower,upperdir=/disk/upper,workdir=/disk/work root /root || echo "KILN-FAILED no root"
for dir in disk proc sys dev; do
	mount --move "/$dir" "/root/$dir"
done
exec switch_root /root /bin/sh /machine/machine.sh
