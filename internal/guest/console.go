package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The serial console of the guest becomes the log of its container: QEMU writes it into a pipe, and this process copies the pipe to its standard output.
// QEMU stops the guest while the pipe is full. So the pipe is always read, and what the log does not take in time is dropped, with a note of how much.

// console copies a pipe.
type console struct {
	pipe *os.File
	out  io.Writer
	// parts are on their way to out; lost is how many bytes were dropped since the last one.
	parts chan []byte
	work  sync.WaitGroup
}

const (
	// part is the most that is read at once, in bytes, and partsInFlight how many parts wait for the log.
	part          = 16 << 10
	partsInFlight = 64
	// drainLimit bounds the wait for the last words of a guest.
	drainLimit = time.Second
)

// openConsole makes the pipe and copies it until close. It is opened for writing too, so that neither side waits for the other, and none sees an end.
func openConsole(path string, out io.Writer) (*console, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mkfifo(path, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	pipe, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	c := &console{pipe: pipe, out: out, parts: make(chan []byte, partsInFlight)}
	c.work.Go(c.read)
	c.work.Go(c.write)
	return c, nil
}

// read reads until the pipe is closed, or empty after close has set its deadline.
func (c *console) read() {
	defer close(c.parts)
	lost, buffer := 0, make([]byte, part)
	for {
		n, err := c.pipe.Read(buffer)
		text := append([]byte(nil), buffer[:n]...)
		if lost > 0 {
			text = append(fmt.Appendf(nil, "\n[%d bytes of the console were dropped: the log was too slow]\n", lost), text...)
		}
		if n > 0 {
			select {
			case c.parts <- text:
				lost = 0
			default:
				lost += n
			}
		}
		if err != nil {
			return
		}
	}
}

// write writes what was read. After an error of the log the rest is dropped.
func (c *console) write() {
	var failed error
	for text := range c.parts {
		if failed == nil {
			_, failed = c.out.Write(text)
		}
	}
}

// close copies what the guest has written last, and closes the pipe. A log that does not take it within drainLimit does not get it.
func (c *console) close() {
	_ = c.pipe.SetReadDeadline(time.Now().Add(drainLimit / 10))
	done, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	go func() {
		c.work.Wait()
		cancel()
	}()
	<-done.Done()
	_ = c.pipe.Close()
}
