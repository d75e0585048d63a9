package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Folders of grub.cfg. Debian's signed GRUB has the second one built in.
const (
	biosFolder = "/boot/grub"
	efiFolder  = "/EFI/debian"
)

// grubConfig boots without a menu. GRUB has found its configuration on the disk that the kernel is on. Verb: the initramfs.
const grubConfig = "linux /boot/vmlinuz " + Cmdline + " kiln.seed\ninitrd %s\nboot\n"

// efiLoaders returns the files by which EFI boots, by their names on the disk. shim is signed by Microsoft, and trusts what Debian signed: GRUB, which it
// starts from its own folder, and the kernel.
func efiLoaders() (map[string]string, error) {
	shim, err := unpackedPackage("shim-signed")
	if err != nil {
		return nil, err
	}
	grub, err := unpackedPackage("grub-efi-amd64-signed")
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"/EFI/BOOT/BOOTX64.EFI": filepath.Join(shim, "usr/lib/shim/shimx64.efi.signed"),
		"/EFI/BOOT/grubx64.efi": filepath.Join(grub, "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"),
	}, nil
}

// Places in GRUB's images for a BIOS, each with a little-endian number (grub-core/boot/i386/pc/boot.S and diskboot.S, include/grub/offsets.h).
const (
	// kernelSector, in the first sector of the disk, has the sector of the core image.
	kernelSector = 0x5c
	// codeEnd is where the code of the first sector ends, and the partition table begins.
	codeEnd = 0x1b8
	// rest, in the first sector of the core image, has the sector of all that follows. The number of sectors is behind it, and the segment to read to.
	rest = 0x1f4
)

// biosLoader returns the code of a disk's first sector, and GRUB's core image, which is to be written to the sector at.
func biosLoader(at uint64) (first, core []byte, err error) {
	modules, err := unpackedPackage("grub-pc-bin")
	if err != nil {
		return nil, nil, err
	}
	tools, err := unpackedPackage("grub-common")
	if err != nil {
		return nil, nil, err
	}
	from := filepath.Join(modules, "usr/lib/grub/i386-pc")
	if first, err = os.ReadFile(filepath.Join(from, "boot.img")); err != nil {
		return nil, nil, err
	}
	work, err := os.MkdirTemp("", "kiln-grub-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	// A device without a name is the one that the BIOS booted from.
	if _, err := runCommand(work, filepath.Join(tools, "usr/bin/grub-mkimage"), "--format=i386-pc", "--directory="+from, "--output=core.img",
		"--prefix=(,gpt2)"+biosFolder, "biosdisk", "part_gpt", "fat", "normal", "linux"); err != nil {
		return nil, nil, err
	}
	if core, err = os.ReadFile(filepath.Join(work, "core.img")); err != nil {
		return nil, nil, err
	}
	if len(first) != sector || len(core) <= sector {
		return nil, nil, fmt.Errorf("GRUB's images have %d and %d bytes", len(first), len(core))
	}
	binary.LittleEndian.PutUint64(first[kernelSector:], at)
	binary.LittleEndian.PutUint64(core[rest:], at+1)
	binary.LittleEndian.PutUint16(core[rest+8:], uint16((len(core)-1)/sector))
	return first[:codeEnd], core, nil
}
