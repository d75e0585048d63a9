package guest

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// agentFolder holds the guest agent in a guest: the program, its loader and its libraries.
const agentFolder = "agent"

// AddAgent adds Debian's qemu-guest-agent, and the driver of ext4, to an initramfs of Build. A guest with kiln.agent=DISK on the command line of its kernel
// makes a filesystem on the disk, starts the agent, and writes files without end: a line 'KILN-WROTE N' for each that is on the disk. Each change of the
// password and the SSH keys that the agent gives to user demo is a line 'KILN-CREDENTIALS demo:PASSWORD;KEY;KEY'.
func AddAgent(initramfs string) error {
	files, err := agentFiles()
	if err != nil {
		return err
	}
	return appendFolder(initramfs, agentFolder, files)
}

// appendFolder appends an archive with a folder to an initramfs: the kernel unpacks one archive after the other.
func appendFolder(initramfs, folder string, files []archiveFile) (err error) {
	out, err := os.OpenFile(initramfs, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	archive := cpio.NewWriter(out)
	if err := archive.WriteHeader(&cpio.Header{Name: folder, Mode: cpio.TypeDir | 0o755, Links: 2}); err != nil {
		return err
	}
	for _, file := range files {
		if err := file.writeTo(archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

func agentFiles() ([]archiveFile, error) {
	source, err := findKernel()
	if err != nil {
		return nil, err
	}
	drivers, err := source.driversFor("crc32c_generic", "ext4") // ext4 asks for the checksum only by its name
	if err != nil {
		return nil, err
	}
	var files []archiveFile
	var order []string
	for _, driver := range drivers {
		order = append(order, driver.name+".ko")
		files = append(files, archiveFile{path.Join(agentFolder, driver.name+".ko"), driver.object})
	}
	files = append(files, archiveFile{path.Join(agentFolder, "order"), []byte(strings.Join(order, "\n") + "\n")})
	program, err := findAgent()
	if err != nil {
		return nil, err
	}
	linked, err := linkedFiles(agentFolder, program)
	return append(files, linked...), err
}

// findAgent returns the path of the installed guest agent, or of the agent in Debian's package.
func findAgent() (string, error) {
	const program = "usr/sbin/qemu-ga"
	if _, err := os.Stat("/" + program); err == nil {
		return "/" + program, nil
	}
	root, err := unpackedPackage("qemu-guest-agent")
	return filepath.Join(root, program), err
}
