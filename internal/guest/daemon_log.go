package guest

import (
	"bytes"
	"io"
	"regexp"
	"sync"
)

// withoutDevice matches what libvirt reports as an error each time that it looks at the processor of a machine whose /dev/kvm the pod has not got
// (virHostCPUGetMSRFromKVM and others in its src/util/virhostcpu.c). It then does without.
var withoutDevice = regexp.MustCompile(`: error : virHostCPUGet\w+:\d+ : Unable to open /dev/kvm: `)

// longestLine is the longest line that is held back until it ends, in bytes.
const longestLine = 64 << 10

// emulatedLog passes on the lines of a daemon whose guests are emulated, but for those about the device that emulation does without: libvirt has no filter that
// leaves out an error.
type emulatedLog struct {
	to   io.Writer
	mu   sync.Mutex
	line []byte
}

// WithoutDevice returns a log for the daemon of an emulated guest, which leaves out what libvirt says of /dev/kvm.
func WithoutDevice(to io.Writer) io.Writer { return &emulatedLog{to: to} }

// Write passes on the lines that have ended.
func (l *emulatedLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = append(l.line, text...)
	for {
		end := bytes.IndexByte(l.line, '\n') + 1
		if end == 0 && len(l.line) > longestLine {
			end = len(l.line)
		}
		if end == 0 {
			return len(text), nil
		}
		line := l.line[:end]
		l.line = l.line[end:]
		if withoutDevice.Match(line) {
			continue
		}
		if _, err := l.to.Write(line); err != nil {
			return len(text), err
		}
	}
}
