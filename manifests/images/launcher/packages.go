package launcher

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/manifests/images/debian"
)

// backports are the source packages that are too old in the release: its libvirt 9.0 cannot start passt for an interface.
var backports = []string{"libvirt", "qemu", "seabios"}

// packages are the packages with programs and data of the image on each architecture.
var packages = []string{
	"base-files",                   // os-release and the texts of licences
	"libvirt-daemon",               // libvirtd
	"libvirt-daemon-common",        // libvirt_iohelper, which saves and dumps memory
	"libvirt-common",               // the models of CPUs
	"libvirt-daemon-driver-qemu",   // as the name says
	"libvirt-daemon-driver-secret", // keys of disks and TPMs
	"libvirt-clients",              // virsh, for people who debug a guest
	"qemu-system-common", "qemu-system-data", "ipxe-qemu", "seabios",
	"qemu-utils", // qemu-img
	"passt",
	"swtpm", "swtpm-tools",
	"gnutls-bin", // certtool, which swtpm_localca calls
	"tzdata",     // the time zones of clock.timezone: without them QEMU's clock is UTC, without an error
}

// platform has the packages and names that differ between architectures.
type platform struct {
	packages []string
	// qemu is the name of the emulator, and triplet the name of the folder of libraries.
	qemu, triplet string
	firmware      []string
}

// platforms has the platforms by Go's names for architectures.
var platforms = map[string]platform{
	"amd64": {
		packages: []string{"qemu-system-x86", "ovmf"}, qemu: "qemu-system-x86_64", triplet: "x86_64-linux-gnu",
		firmware: []string{"usr/share/OVMF", "usr/share/ovmf",
			// Builds of 2 MB have no descriptor; builds with 'snakeoil' trust a published key.
			"!usr/share/OVMF/OVMF_CODE.*", "!usr/share/OVMF/OVMF_VARS.*", "!usr/share/*/*snakeoil*"},
	},
	"arm64": {
		packages: []string{"qemu-system-arm", "qemu-efi-aarch64"}, qemu: "qemu-system-aarch64", triplet: "aarch64-linux-gnu",
		firmware: []string{"usr/share/AAVMF", "usr/share/qemu-efi-aarch64", "!usr/share/*/*snakeoil*"},
	},
}

// executables are the programs of the packages that a launcher starts, and virsh.
var executables = []string{
	"usr/bin/certtool", "usr/bin/passt", "usr/bin/passt.avx2", "usr/bin/qemu-img", "usr/bin/swtpm", "usr/bin/swtpm_cert", "usr/bin/swtpm_ioctl",
	"usr/bin/swtpm_localca", "usr/bin/swtpm_setup", "usr/bin/virsh", "usr/lib/libvirt/libvirt_iohelper", "usr/sbin/libvirtd",
}

// modules are the parts of QEMU that a pod does not use: sound cards, screens and Braille displays of the host, smart cards, s390x.
var modules = []string{"audio-*", "chardev-baum.so", "hw-s390x-*", "hw-usb-smartcard.so", "ui-*"}

// foreign are the firmware files for architectures without an emulator in the image, and the list of trace events.
var foreign = []string{
	"QEMU,*", "*.dtb", "hppa-*", "npcm*", "openbios-*", "palcode-*", "s390-*", "skiboot.lid", "slof.bin", "u-boot*", "vof.bin", "trace-events-all",
}

// debianSet returns the set of files that the image takes from Debian; false for an unknown architecture.
func debianSet(architecture string) (debian.Set, bool) {
	p, found := platforms[architecture]
	libraries := "usr/lib/" + p.triplet
	s := debian.Set{Architecture: architecture, Backports: backports,
		Texts: map[string]string{"etc/passwd": passwd, "etc/group": group, "etc/libvirt/qemu.conf": qemuConf}}
	s.Packages = append(append(s.Packages, packages...), p.packages...)
	s.Files = append(append(s.Files, executables...), "usr/bin/"+p.qemu,
		"etc/os-release", "usr/lib/os-release", "usr/share/common-licenses", "usr/share/doc/*/copyright", // licences demand that their texts come along
		"etc/swtpm*", "usr/share/swtpm",
		// The loader of dynamic programs, which they name by this path, has a link of its own.
		"usr/lib64", "usr/lib/ld-linux-*",
		libraries, "!"+libraries+"/gconv", // nobody converts from other encodings than UTF-8
		"usr/share/zoneinfo", "!usr/share/zoneinfo/posix", "!usr/share/zoneinfo/right", "!usr/share/zoneinfo/localtime", // other spellings of the same zones
		"usr/lib/ipxe", "usr/share/libvirt", "!usr/share/libvirt/*.png", "usr/share/qemu", "usr/share/seabios")
	s.Files = append(s.Files, p.firmware...)
	for _, name := range modules {
		s.Files = append(s.Files, "!"+libraries+"/qemu/"+name)
	}
	for _, name := range foreign {
		s.Files = append(s.Files, "!usr/share/qemu/"+name)
	}
	return s, found
}

// architectureNames returns the names of the architectures for a message.
func architectureNames() string {
	return strings.Join(slices.Sorted(maps.Keys(platforms)), ", ")
}
