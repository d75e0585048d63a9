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
)

// libraries are the folders of shared libraries on Debian.
var libraries = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// linkedFiles returns a program and all that it is linked with, in a folder of the guest: the program by its name, the file loader, and the libraries by
// their names.
func linkedFiles(folder, program string) (files []archiveFile, err error) {
	found := map[string]string{filepath.Base(program): program}
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
	for name, from := range found {
		content, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		files = append(files, archiveFile{path.Join(folder, name), content})
	}
	return files, nil
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
