package guest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
)

// logTail is how much of the end of QEMU's log is read, in bytes.
const logTail = 16 << 10

var (
	// usual matches what every log has: the lines of libvirt about start and end, and QEMU's about its serial consoles.
	usual = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.+]+: (starting up|shutting down)|^char device redirected to `)
	// stamp matches the time before each message of QEMU.
	stamp = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z `)
)

// withLastLine adds to the message of a crash what QEMU wrote last.
func (d *Daemon) withLastLine(of v1alpha1.GuestDomain) v1alpha1.GuestDomain {
	if d == nil || of.Reason != v1alpha1.ReasonCrashed {
		return of
	}
	logs, _ := filepath.Glob(filepath.Join(d.CacheHome(), "libvirt", "qemu", "log", "*.log")) // the pattern is valid
	if len(logs) != 1 {
		return of
	}
	if said := lastLine(tail(logs[0])); said != "" {
		of.Message = condition.Note(of.Message + "; QEMU's last line: " + said)
	}
	return of
}

// tail returns the end of a file, nil if it cannot be read. It does not wait for the writer of a FIFO, which a tenant may put in the place of the file.
func tail(path string) []byte {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > logTail {
		_, _ = file.Seek(-logTail, io.SeekEnd)
	}
	content, _ := io.ReadAll(io.LimitReader(file, logTail))
	return content
}

// lastLine returns the last line of a log that QEMU wrote since its start, without its time; empty if it wrote none.
func lastLine(log []byte) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		line := bytes.TrimSpace(lines[i])
		switch {
		case bytes.HasPrefix(line, []byte("-msg timestamp=")): // the end of the command line that libvirt writes
			return ""
		case len(line) > 0 && !usual.Match(line):
			return string(stamp.ReplaceAll(line, nil))
		}
	}
	return ""
}
