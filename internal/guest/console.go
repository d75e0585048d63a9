package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The serial console of the guest becomes the log of its container: QEMU writes it into a pipe, and this process copies the pipe to its standard output, each
// line as an entry of its own (console_entries.go). QEMU stops the guest while the pipe is full. So the pipe is always read, and what the log does not take in
// time is dropped, with a note of how much.

// console copies a pipe.
type console struct {
	pipe *os.File
	log  *entries
	work sync.WaitGroup

	mutex sync.Mutex
	// waiting is on its way to the log; lost is how many bytes were dropped after it.
	waiting []byte
	lost    int
	// arrived wakes write. It is closed when nothing more comes.
	arrived chan struct{}
}

const (
	// part is the most that is read at once, in bytes. QEMU writes single characters: what waits is bounded in bytes, by mostWaiting.
	part        = 16 << 10
	mostWaiting = 1 << 20
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
	c := &console{pipe: pipe, log: newEntries(out), arrived: make(chan struct{}, 1)}
	c.work.Go(c.read)
	c.work.Go(c.write)
	return c, nil
}

// read reads until the pipe is closed, or empty after close has set its deadline.
func (c *console) read() {
	defer close(c.arrived)
	buffer := make([]byte, part)
	for {
		n, err := c.pipe.Read(buffer)
		c.keep(buffer[:n])
		select {
		case c.arrived <- struct{}{}:
		default: // write is awake
		}
		if err != nil {
			return
		}
	}
}

// keep adds a text to what waits for the log, or drops it where that is too much.
func (c *console) keep(text []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.waiting)+len(text) > mostWaiting {
		c.lost += len(text)
		return
	}
	c.waiting = append(c.waiting, text...)
}

// write writes what was read. The beginning of a line is written when the guest has paused in it: it may be a prompt.
func (c *console) write() {
	pause := time.NewTimer(inLine)
	defer pause.Stop()
	for open := true; open; {
		select {
		case _, open = <-c.arrived:
			c.log.add(c.take())
			pause.Reset(inLine)
		case <-pause.C:
			c.log.endLine(true)
			c.log.note()
		}
	}
	c.log.end()
}

// take returns what waits for the log, and how many bytes were dropped after it.
func (c *console) take() (text []byte, lost int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	text, lost = c.waiting, c.lost
	c.waiting, c.lost = nil, 0
	return text, lost
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
