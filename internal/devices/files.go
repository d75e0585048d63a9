package devices

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// keep makes a file have this content, whole or not at all: whoever reads it at any time, and whenever the machine stops. A file that has it is left
// alone, because container runtimes and kubelet watch these folders.
func keep(file string, content []byte) error {
	if now, err := os.ReadFile(file); err == nil && bytes.Equal(now, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	// In the folder itself: its parent may be another file system.
	return renameio.WriteFile(file, content, 0o644, renameio.WithTempDir(filepath.Dir(file)))
}
