#!/bin/sh
# Installs what the tests and 'make run' need: on Debian as root through apt-get, elsewhere it says exactly
# what is missing and fails. A machine that has everything is left alone, without a look at the network.
# No service is started, and the boot loader stays as it is: the guest's kernel and boot loaders are unpacked by
# test/guest, never installed.
set -eu
PATH=$PATH:/usr/sbin:/sbin

# One line for each need: the Debian package, and a file pattern that shows it is there. A file and not
# dpkg's word, so that other distributions and hand-made installations pass too.
needs() {
	cat <<'EOF'
libvirt-daemon              /usr/sbin/libvirtd
libvirt-daemon-system       /var/lib/libvirt
libvirt-daemon-driver-qemu  /usr/lib*/*libvirt/connection-driver/libvirt_driver_qemu.so /usr/lib*/*/libvirt/connection-driver/libvirt_driver_qemu.so
libvirt-clients             /usr/bin/virt-xml-validate
libxml2-utils               /usr/bin/xmllint
qemu-system-x86             /usr/bin/qemu-system-x86_64
qemu-system-arm             /usr/bin/qemu-system-aarch64
qemu-system-misc            /usr/bin/qemu-system-s390x
qemu-utils                  /usr/bin/qemu-img
ovmf                        /usr/share/OVMF/OVMF_CODE*.fd
qemu-efi-aarch64            /usr/share/AAVMF/AAVMF_CODE*.fd
swtpm                       /usr/bin/swtpm
swtpm-tools                 /usr/bin/swtpm_setup
busybox-static              /bin/busybox /usr/bin/busybox
util-linux                  /usr/bin/unshare
mount                       /bin/mount /usr/bin/mount
iptables                    /sbin/iptables /usr/sbin/iptables
iproute2                    /bin/ip /usr/bin/ip /sbin/ip /usr/sbin/ip
e2fsprogs                   /sbin/mke2fs /usr/sbin/mke2fs
debootstrap                 /usr/sbin/debootstrap /usr/bin/debootstrap
git                         /usr/bin/git
gcc                         /usr/bin/gcc
libc6-dev                   /usr/lib/*/libc.a /usr/lib*/libc.a
chromium                    /usr/bin/chromium
ca-certificates             /etc/ssl/certs/ca-certificates.crt
EOF
}

# missing prints the packages of which no pattern matches.
missing() {
	needs | while read -r package patterns; do
		found=
		for file in $patterns; do # unquoted: here the patterns become files
			if [ -e "$file" ]; then found=yes; fi
		done
		if [ -z "$found" ]; then echo "$package"; fi
	done
}

list=$(missing | tr '\n' ' ')
if [ -z "$list" ]; then
	echo "deps: everything is there"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "deps: missing, by the names of Debian's packages: $list" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "deps: missing; run as root: apt-get install --no-install-recommends $list" >&2
	exit 1
fi
echo "deps: installing $list"
export DEBIAN_FRONTEND=noninteractive
# Package lists are old or absent in images of containers; then versions are asked for that are gone.
apt-get update -qq
# The answer 101 of a policy keeps packages from starting their services; the tests start libvirtd themselves,
# and a container has no init to start it with. A policy that is already there is its owner's business.
if [ ! -e /usr/sbin/policy-rc.d ]; then
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT INT TERM
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
fi
# shellcheck disable=SC2086 # one argument each
apt-get install -qq -y --no-install-recommends $list >/dev/null
list=$(missing | tr '\n' ' ')
if [ -n "$list" ]; then
	echo "deps: installed, and still not found: $list" >&2
	exit 1
fi
echo "deps: everything is there now"
