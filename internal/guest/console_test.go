package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stuck is a log that takes nothing until it is released.
type stuck struct {
	bytes.Buffer
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	return s.Buffer.Write(p)
}

// TestConsole: a guest never waits for the log, what is dropped is counted, and its last words are in the log.
func TestConsole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "console")
	log := &stuck{release: make(chan struct{})}
	c, err := openConsole(path, log)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	written := make(chan error, 1)
	go func() { // eight times what may wait for the log
		_, err := guest.Write(bytes.Repeat([]byte("0123456789abcdef"), 8*partsInFlight*part/16))
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the guest waits for the log")
	}
	close(log.release)
	for len(c.parts) > 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := guest.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	c.close()
	text := log.String()
	if !strings.HasSuffix(text, "last words") || !strings.Contains(text, " bytes of the console were dropped") {
		t.Errorf("the log has %d bytes and ends in '%s'", len(text), text[max(0, len(text)-100):])
	}
	if most := 2 * partsInFlight * part; len(text) > most {
		t.Errorf("the log has %d bytes, and %d were to be kept at most", len(text), most)
	}
}

// TestConsoleAgain: a launcher that starts again in its container finds the pipe of the one before.
func TestConsoleAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	for range 2 {
		c, err := openConsole(path, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		c.close()
	}
}
