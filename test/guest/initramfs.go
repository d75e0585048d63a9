package guest

import (
	_ "embed"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/cavaliergopher/cpio"
)

//go:embed init.sh
var initScript []byte

// packInitramfs writes a root file system with a script as process 1, its shell, and modules of the kernel. The archive is left uncompressed: unpacking it
// under TCG costs the guest more than reading 6 MiB does.
func packInitramfs(source kernelSource, shell string, script []byte, modules []string, out io.Writer) error {
	drivers, err := source.driversFor(modules...)
	if err != nil {
		return err
	}
	busybox, err := os.ReadFile(shell)
	if err != nil {
		return err
	}
	// The kernel unpacks a cpio archive of format newc, and runs its file /init as process 1.
	archive := cpio.NewWriter(out)
	for _, dir := range []string{"bin", "dev", "proc", "sys", "modules"} {
		if err := archive.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755, Links: 2}); err != nil {
			return err
		}
	}
	files := []archiveFile{
		{"init", script},
		{"bin/busybox", busybox},
	}
	var order []string
	for _, driver := range drivers {
		name := path.Base(driver.name) + ".ko"
		order = append(order, name)
		files = append(files, archiveFile{path.Join("modules", name), driver.object})
	}
	// The script loads the modules in this order; insmod resolves no dependencies.
	files = append(files, archiveFile{"modules/order", []byte(strings.Join(order, "\n") + "\n")})
	for _, file := range files {
		if err := file.writeTo(archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

// packVault writes an archive with only the program vault, which the kernel unpacks after the first one.
func packVault(program, path string) (err error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	archive := cpio.NewWriter(out)
	if err := (archiveFile{"bin/vault", content}).writeTo(archive); err != nil {
		return err
	}
	return archive.Close()
}

type archiveFile struct {
	name    string
	content []byte
}

// writeTo adds the file as executable by all; the guest has no other user than root.
func (f archiveFile) writeTo(archive *cpio.Writer) error {
	header := &cpio.Header{Name: f.name, Mode: cpio.TypeReg | 0o755, Size: int64(len(f.content)), Links: 1}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(f.content)
	return err
}
