package debian

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// choosePackages returns the sorted names of the named packages and of the packages with libraries that files of chosen packages load.
func choosePackages(named []string, found map[string]files) ([]string, error) {
	owners := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		for file := range found[name] {
			if base := path.Base(file); strings.Contains(base, ".so") && owners[base] == "" {
				owners[base] = name
			}
		}
	}
	chosen := map[string]bool{}
	for next := slices.Clone(named); len(next) > 0; next = next[1:] {
		name := next[0]
		if chosen[name] {
			continue
		}
		chosen[name] = true
		for file, place := range found[name] {
			libraries, err := neededLibraries(place)
			if err != nil {
				return nil, fmt.Errorf("%s: '%s': %w", name, file, err)
			}
			for _, library := range libraries {
				if owners[library] == "" {
					return nil, fmt.Errorf("'%s' of package %s loads '%s', which no package of the image has", file, name, library)
				}
				next = append(next, owners[library])
			}
		}
	}
	return slices.Sorted(maps.Keys(chosen)), nil
}

// neededLibraries returns the names of the libraries that a program or library loads when it starts; nil for other files.
func neededLibraries(place string) (names []string, err error) {
	info, err := os.Lstat(place)
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	file, err := os.Open(place)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := io.ReadFull(file, magic); err != nil || string(magic) != elf.ELFMAG {
		return nil, nil
	}
	object, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	if object.Section(".dynamic") == nil {
		return nil, nil // firmware, or a static program
	}
	return object.ImportedLibraries()
}
