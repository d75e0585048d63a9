package devices

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// writeIfChanged writes a file atomically: neither a reader nor a crash of the machine finds a part of it. It does not write a file that has the content
// already, because container runtimes and kubelet watch these folders.
func writeIfChanged(file string, content []byte) error {
	if now, err := os.ReadFile(file); err == nil && bytes.Equal(now, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	// In the folder itself: its parent may be another file system.
	return renameio.WriteFile(file, content, 0o644, renameio.WithTempDir(filepath.Dir(file)))
}
