package guest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// stuckLog takes nothing until it is freed.
type stuckLog struct {
	freed chan struct{}
	mutex sync.Mutex
	text  bytes.Buffer
}

func (s *stuckLog) Write(text []byte) (int, error) {
	<-s.freed
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.Write(text)
}

// TestConsoleIsTheLog: QEMU writes single characters. While the log takes none, a megabyte of them waits, and the rest is dropped and counted: the
// writer, which is the guest, is never stopped.
func TestConsoleIsTheLog(t *testing.T) {
	for _, test := range []struct {
		why         string
		bytes       int
		wantDropped bool
	}{
		{"a burst that fits is kept whole", 60 << 10, false},
		{"a flood is dropped in part", 4 << 20, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			log := &stuckLog{freed: make(chan struct{})}
			path := filepath.Join(t.TempDir(), "serial.log")
			c, err := openConsole(path, log)
			if err != nil {
				t.Fatal(err)
			}
			qemu, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			step := 1
			if test.wantDropped {
				step = 4096
			}
			for range test.bytes / step {
				if _, err := io.WriteString(qemu, strings.Repeat("x", step)); err != nil {
					t.Fatal(err)
				}
			}
			close(log.freed)
			if _, err := io.WriteString(qemu, "last words"); err != nil {
				t.Fatal(err)
			}
			c.close()
			log.mutex.Lock()
			defer log.mutex.Unlock()
			got := log.text.String()
			kept, dropped := strings.Count(got, "x"), strings.Contains(got, "bytes of the console were dropped")
			if dropped != test.wantDropped {
				t.Errorf("%d of %d bytes are kept; it ends in %q", kept, test.bytes, got[max(0, len(got)-80):])
			}
			if !dropped && (kept != test.bytes || !strings.HasSuffix(got, "last words")) {
				t.Errorf("%d of %d bytes are kept; it ends in %q", kept, test.bytes, got[max(0, len(got)-80):])
			}
			// One text is on its way while another waits.
			if most := 2*mostWaiting + part; kept > most {
				t.Errorf("%d bytes are kept, want at most %d", kept, most)
			}
		})
	}
}
