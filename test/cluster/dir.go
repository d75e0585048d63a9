package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Dir makes a temporary folder for this process, and removes those that others left who were killed: nobody else can. The
// owner's process ID is in the name. An ID that is in use again keeps a folder for longer, which does no harm.
func Dir(prefix string) (string, error) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"-*-*"))
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix+"-"), "-")
		if _, err := strconv.Atoi(owner); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join("/proc", owner)); os.IsNotExist(err) {
			if err := os.RemoveAll(dir); err != nil {
				return "", err
			}
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s-%d-", prefix, os.Getpid()))
}
