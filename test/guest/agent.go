package guest

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// agentFolder holds the guest agent in a guest: the program, its loader and its libraries.
const agentFolder = "agent"

// libraries are the folders of shared libraries on Debian.
var libraries = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// AddAgent adds Debian's qemu-guest-agent, and the driver of ext4, to an initramfs of Build. A guest with kiln.agent=DISK on the command line of its kernel
// makes a filesystem on the disk, starts the agent, and writes files without end: a line 'KILN-WROTE N' for each that is on the disk.
func AddAgent(initramfs string) (err error) {
	files, err := agentFiles()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(initramfs, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	archive := cpio.NewWriter(out) // the kernel unpacks one archive after the other
	if err := archive.WriteHeader(&cpio.Header{Name: agentFolder, Mode: cpio.TypeDir | 0o755, Links: 2}); err != nil {
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
	linked, err := linkedFiles(program)
	if err != nil {
		return nil, err
	}
	for name, from := range linked {
		content, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		files = append(files, archiveFile{path.Join(agentFolder, name), content})
	}
	return files, nil
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

// linkedFiles returns a program and all that it is linked with, by their names in the guest: qemu-ga, loader, and the names of the libraries.
func linkedFiles(program string) (map[string]string, error) {
	found := map[string]string{"qemu-ga": program}
	for open := []string{program}; len(open) > 0; open = open[1:] {
		file, err := elf.Open(open[0])
		if err != nil {
			return nil, err
		}
		needed, err := file.ImportedLibraries()
		if loader := dynamicLoader(file); loader != "" {
			found["loader"] = loader
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", open[0], err)
		}
		for _, name := range needed {
			if found[name] != "" {
				continue
			}
			library, err := filepath.EvalSymlinks(filepath.Join("/usr/lib", libraries[runtime.GOARCH], name))
			if err != nil {
				return nil, fmt.Errorf("%s needs library '%s': %w", open[0], name, err)
			}
			found[name] = library
			open = append(open, library)
		}
	}
	return found, nil
}

// dynamicLoader returns the dynamic loader of a program; empty for a library.
func dynamicLoader(file *elf.File) string {
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			text := make([]byte, part.Filesz)
			if _, err := part.ReadAt(text, 0); err == nil {
				return strings.TrimRight(string(text), "\x00")
			}
		}
	}
	return ""
}
