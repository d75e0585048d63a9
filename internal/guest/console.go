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

// The serial console of the guest becomes the log of its container: QEMU writes to a pipe, and this process copies the pipe to its standard output, one log
// entry per line (console_log.go). QEMU stops the guest while the pipe is full. Therefore the pipe is always read. Text that the log does not take in time is
// dropped, and the log says how many bytes were dropped.

// consolePipe copies the pipe of the serial console to a consoleLog.
type consolePipe struct {
	pipe *os.File
	log  *consoleLog
	work sync.WaitGroup

	mutex sync.Mutex
	// queued is the text to log next, and dropped the number of bytes that were dropped after it.
	queued  []byte
	dropped int
	// arrived wakes writeLog. It is closed after the last text.
	arrived chan struct{}
}

const (
	// readSize is the number of bytes of one read. QEMU writes single characters: therefore maxQueued bounds the queued text in bytes.
	readSize  = 16 << 10
	maxQueued = 1 << 20
	// drainLimit bounds the wait for the guest's last output.
	drainLimit = time.Second
)

// openConsole creates the pipe and copies it until drainAndClose. The pipe is opened for reading and writing: neither side waits for the other, and no side
// reads an end of file.
func openConsole(path string, out io.Writer) (*consolePipe, error) {
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
	c := &consolePipe{pipe: pipe, log: newConsoleLog(out), arrived: make(chan struct{}, 1)}
	c.work.Go(c.readPipe)
	c.work.Go(c.writeLog)
	return c, nil
}

// readPipe queues text until the pipe is closed, or empty after drainAndClose has set the deadline.
func (c *consolePipe) readPipe() {
	defer close(c.arrived)
	buffer := make([]byte, readSize)
	for {
		n, err := c.pipe.Read(buffer)
		c.queueText(buffer[:n])
		select {
		case c.arrived <- struct{}{}:
		default: // writeLog is awake
		}
		if err != nil {
			return
		}
	}
}

// queueText queues a text for the log. It drops the text if the queue would become longer than maxQueued.
func (c *consolePipe) queueText(text []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.queued)+len(text) > maxQueued {
		c.dropped += len(text)
		return
	}
	c.queued = append(c.queued, text...)
}

// writeLog logs the queued text until the last text. It logs an unfinished line after partialLineDelay, because the line may be a prompt.
func (c *consolePipe) writeLog() {
	pause := time.NewTimer(partialLineDelay)
	defer pause.Stop()
	for open := true; open; {
		select {
		case _, open = <-c.arrived:
			c.log.addText(c.takeQueued())
			pause.Reset(partialLineDelay)
		case <-pause.C:
			c.log.writeLine(true)
			c.log.writeDropped()
		}
	}
	c.log.writeLastLine()
}

// takeQueued empties the queue. It returns the queued text and the number of bytes that were dropped after it.
func (c *consolePipe) takeQueued() (text []byte, dropped int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	text, dropped = c.queued, c.dropped
	c.queued, c.dropped = nil, 0
	return text, dropped
}

// drainAndClose copies the guest's last output, and closes the pipe. Output that the log does not take within drainLimit is lost.
func (c *consolePipe) drainAndClose() {
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
