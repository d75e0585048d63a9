package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
	"github.com/diskfs/go-diskfs/partition/gpt"
)

// The boot disk begins with GRUB for a BIOS: its first sector, and the rest in a partition of its own. The EFI system partition has shim and GRUB as Debian
// distributes them, signed for Secure Boot, and kernel and initramfs, which both GRUBs read.
const (
	sector = 512
	// firstFree is the first sector behind the GPT, and alignment the first sector of the EFI system partition. The sector before it belongs to no partition:
	// see MarkOffset.
	firstFree, alignment = 34, 2048
	markSector           = alignment - 1
	// diskSize makes the clusters of FAT32 4 KiB large. GRUB is slow with the clusters of a smaller disk, which have 512 bytes. Most of the file is a hole.
	diskSize  = 320 << 20
	systemEnd = diskSize/sector - firstFree
)

// MarkOffset is where init.sh reads and writes the mark of a disk, and MarkSize the most that it reads. No partition table and no partition lies there.
const (
	MarkOffset = markSector * sector
	MarkSize   = 64
)

// BuildDisk writes a raw disk below dir that boots the guest from BIOS and from EFI, also with Secure Boot, and returns its path. What init.sh is to do beside
// its report stands in the user data of a cloud-init seed. The mark of the disk is 'of the image'. From EFI the guest has the program vault.
func BuildDisk(dir string) (string, error) {
	kernel, initramfs, err := Build(dir)
	if err != nil {
		return "", err
	}
	files, err := efiLoaders()
	if err != nil {
		return "", err
	}
	vault := filepath.Join(dir, "boot", "vault")
	if err := buildVault(vault); err != nil {
		return "", err
	}
	for folder, initramfs := range map[string]string{biosFolder: "/boot/initrd", efiFolder: "/boot/initrd /boot/vault"} {
		config := filepath.Join(dir, filepath.Base(folder)+".cfg")
		if err := os.WriteFile(config, fmt.Appendf(nil, grubConfig, initramfs), 0o644); err != nil {
			return "", err
		}
		files[folder+"/grub.cfg"] = config
	}
	files["/boot/vmlinuz"], files["/boot/initrd"], files["/boot/vault"] = kernel, initramfs, vault
	path := filepath.Join(dir, "disk.img")
	return path, writeDisk(path, files)
}

// buildVault makes the program vault, in an archive of its own.
func buildVault(path string) (err error) {
	root, err := runCommand("", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/kilnvm/kiln")
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "kiln-vault-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	program := filepath.Join(work, "vault")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	build.Dir = filepath.Join(strings.TrimSpace(root), "test", "guest", "vault")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("vault: %w\n%s", err, out)
	}
	return packVault(program, path)
}

// writeDisk makes the disk of the files, by their names in the EFI system partition.
func writeDisk(path string, files map[string]string) (err error) {
	image, err := file.CreateFromPath(path, diskSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, image.Close()) }()
	out, err := image.Writable()
	if err != nil {
		return err
	}
	table := &gpt.Table{LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true, Partitions: []*gpt.Partition{
		{Index: 1, Start: firstFree, End: markSector - 1, Type: gpt.BIOSBoot, Name: "GRUB"},
		{Index: 2, Start: alignment, End: systemEnd - 1, Type: gpt.EFISystemPartition, Name: "EFI"},
	}}
	if err := table.Write(out, diskSize); err != nil {
		return err
	}
	if err := fillPartition(image, files); err != nil {
		return err
	}
	return beginDisk(out)
}

// fillPartition makes the file system of the EFI system partition.
func fillPartition(image backend.Storage, files map[string]string) error {
	system, err := fat32.Create(image, (systemEnd-alignment)*sector, alignment*sector, sector, "KILN", true)
	if err != nil {
		return err
	}
	for name, source := range files {
		content, err := os.Open(source)
		if err != nil {
			return err
		}
		err = writeFile(system, name, content)
		if err := errors.Join(err, content.Close()); err != nil {
			return fmt.Errorf("%s of the boot disk: %w", name, err)
		}
	}
	return nil
}

func writeFile(system *fat32.FileSystem, name string, content io.Reader) error {
	if err := system.Mkdir(path.Dir(name)); err != nil {
		return err
	}
	file, err := system.OpenFile(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// beginDisk writes GRUB for a BIOS, and the mark.
func beginDisk(image io.WriterAt) error {
	first, core, err := biosLoader(firstFree)
	if err != nil {
		return err
	}
	if most := (markSector - firstFree) * sector; len(core) > most {
		return fmt.Errorf("GRUB has %d bytes, and its partition %d", len(core), most)
	}
	for offset, content := range map[int64][]byte{0: first, firstFree * sector: core, MarkOffset: []byte("of the image\n")} {
		if _, err := image.WriteAt(content, offset); err != nil {
			return err
		}
	}
	return nil
}
