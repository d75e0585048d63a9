package images

import (
	_ "embed"
	"slices"

	"github.com/kilnvm/kiln/manifests/images/debian"
)

// passwd and group name the accounts of KubeVirt's images.
var (
	//go:embed passwd
	passwd string
	//go:embed group
	group string
)

// backports are the source packages that are taken from the backports of Debian 12, as in Kiln's own image.
var backports = []string{"libvirt", "qemu", "seabios"}

// libraries is the folder of libraries.
const libraries = "usr/lib/x86_64-linux-gnu"

// shell are the packages of programs that scripts of both images run, and common the files that both images take.
var (
	shell  = []string{"base-files", "bash", "coreutils", "dash", "findutils", "grep", "mount", "procps", "sed", "tar", "util-linux", "xorriso"}
	common = []string{"etc/os-release", "usr/lib/os-release", "usr/share/common-licenses", "usr/share/doc/*/copyright", "usr/bin", "usr/sbin",
		"usr/lib64", "usr/lib/ld-linux-*", libraries, "!" + libraries + "/gconv", "!" + libraries + "/perl*"}
)

// set is what both images have.
func set(packages, files []string) debian.Set {
	return debian.Set{Backports: backports, Packages: slices.Concat(shell, packages), Files: slices.Concat(common, files),
		Texts: map[string]string{"etc/passwd": passwd, "etc/group": group}}
}

// handlerSet is what virt-handler calls.
func handlerSet() debian.Set {
	return set([]string{"iproute2", "nftables", "qemu-utils"},
		[]string{"etc/iproute2", "!" + libraries + "/tc", "!usr/bin/qemu-*", "usr/bin/qemu-img", "!usr/sbin/qemu-*"})
}

// launcherSet is what virt-launcher calls, for guests of this architecture.
func launcherSet() debian.Set {
	s := set([]string{
		"libvirt-daemon", "libvirt-daemon-common", "libvirt-daemon-log", "libvirt-common", "libvirt-daemon-driver-qemu", "libvirt-clients",
		"qemu-system-common", "qemu-system-data", "qemu-system-x86", "ipxe-qemu", "seabios", "ovmf", "qemu-utils",
		"dmidecode", "passt", "swtpm", "swtpm-tools", "gnutls-bin", "nftables", "netcat-openbsd", "tzdata",
	}, []string{
		"etc/libvirt/virtlogd.conf", "etc/swtpm*", "usr/lib/libvirt", "usr/lib/ipxe", "usr/share/libvirt", "!usr/share/libvirt/*.png", "usr/share/qemu",
		"usr/share/seabios", "usr/share/OVMF", "usr/share/ovmf", "!usr/share/*/*snakeoil*", "usr/share/swtpm", "usr/share/zoneinfo",
		"!usr/share/zoneinfo/posix", "!usr/share/zoneinfo/right", "!usr/share/zoneinfo/localtime", "!usr/lib/libvirt/virt-aa-helper",
		"!usr/bin/qemu-system-*", "usr/bin/qemu-system-x86_64", "!usr/bin/qemu-x86_64*",
	})
	for _, name := range []string{"audio-*", "chardev-baum.so", "hw-s390x-*", "hw-usb-smartcard.so", "ui-*"} { // for screens and devices of a desk
		s.Files = append(s.Files, "!"+libraries+"/qemu/"+name)
	}
	return s
}
