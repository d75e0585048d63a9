package guest

import (
	"bytes"
	"io"
	"regexp"
	"sync"
)

// kvmDeviceError matches the error that libvirt logs each time that it inspects the processor while the pod has no /dev/kvm (virHostCPUGetMSRFromKVM and
// others in its src/util/virhostcpu.c). The error has no consequence.
var kvmDeviceError = regexp.MustCompile(`: error : virHostCPUGet\w+:\d+ : Unable to open /dev/kvm: `)

// maxHeldLine is the number of bytes of an unfinished line above which it is passed on.
const maxHeldLine = 64 << 10

// kvmErrorFilter passes on the log lines of the daemon of an emulated guest, except errors about /dev/kvm, which emulation does not use. libvirt itself has no
// log filter that drops an error.
type kvmErrorFilter struct {
	to   io.Writer
	mu   sync.Mutex
	line []byte
}

// WithoutDevice returns a log for the daemon of an emulated guest. It drops libvirt's errors about the missing /dev/kvm, and passes other lines on.
func WithoutDevice(to io.Writer) io.Writer { return &kvmErrorFilter{to: to} }

// Write passes on the lines that are complete.
func (l *kvmErrorFilter) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = append(l.line, text...)
	for {
		end := bytes.IndexByte(l.line, '\n') + 1
		if end == 0 && len(l.line) > maxHeldLine {
			end = len(l.line)
		}
		if end == 0 {
			return len(text), nil
		}
		line := l.line[:end]
		l.line = l.line[end:]
		if kvmDeviceError.Match(line) {
			continue
		}
		if _, err := l.to.Write(line); err != nil {
			return len(text), err
		}
	}
}
