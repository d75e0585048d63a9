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

// logTail is the number of bytes that are read from the end of QEMU's log.
const logTail = 16 << 10

var (
	// libvirtLine matches lines that every log contains: libvirt's lines about start and end, and QEMU's lines about serial consoles.
	libvirtLine = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.+]+: (starting up|shutting down)|^char device redirected to `)
	// timestamp matches the time at the start of QEMU's messages.
	timestamp = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z `)
)

// addQEMULastLine appends the last line of QEMU's log to the message of a crash.
func (d *Daemon) addQEMULastLine(of v1alpha1.GuestDomain) v1alpha1.GuestDomain {
	if d == nil || of.Reason != v1alpha1.ReasonCrashed {
		return of
	}
	logs, _ := filepath.Glob(filepath.Join(d.CacheHome(), "libvirt", "qemu", "log", "*.log")) // the pattern is valid
	if len(logs) != 1 {
		return of
	}
	if line := lastQEMULine(readTail(logs[0])); line != "" {
		of.Message = condition.Note(of.Message + "; QEMU's last line: " + line)
	}
	return of
}

// readTail returns the end of a file; nil if the file cannot be read. If a tenant has replaced the file with a FIFO, readTail does not wait for its writer.
func readTail(path string) []byte {
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

// lastQEMULine returns the last line that QEMU wrote to a log since its start, without its time; empty if QEMU wrote no line.
func lastQEMULine(log []byte) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		line := bytes.TrimSpace(lines[i])
		switch {
		case bytes.HasPrefix(line, []byte("-msg timestamp=")): // libvirt logs the command line before QEMU's first line
			return ""
		case len(line) > 0 && !libvirtLine.Match(line):
			return string(timestamp.ReplaceAll(line, nil))
		}
	}
	return ""
}
