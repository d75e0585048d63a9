package cgroups

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory returns the bytes that a cgroup has besides pages of files: of its processes, of memory files, and of the kernel.
func Memory(folder string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(folder, "memory.stat"))
	if err != nil {
		return 0, err
	}
	figures := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if key, value, is := strings.Cut(strings.TrimSpace(line), " "); is {
			if figures[key], err = strconv.ParseInt(value, 10, 64); err != nil {
				return 0, err
			}
		}
	}
	if _, unified := figures["anon"]; unified {
		return sum(folder, figures, "anon", "shmem", "kernel")
	}
	// Version 1: keys without 'total_' leave out the cgroups of the containers.
	if figures["kernel"], err = Number(folder, "memory.kmem.usage_in_bytes"); err != nil {
		return 0, err
	}
	return sum(folder, figures, "total_rss", "total_shmem", "kernel")
}

// sum adds figures that must be there: kernels before 5.18 have no 'kernel' in version 2.
func sum(folder string, figures map[string]int64, keys ...string) (all int64, err error) {
	for _, key := range keys {
		value, is := figures[key]
		if !is {
			return 0, fmt.Errorf("%s/memory.stat has no '%s'", folder, key)
		}
		all += value
	}
	return all, nil
}

// Number reads a file of a cgroup with one number.
func Number(folder, file string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
