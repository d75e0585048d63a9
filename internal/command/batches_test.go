package command

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestBatches: data that arrives shortly after other data is read with what follows it; the first data, and what a read has left over, at once.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &arriving{begun: time.Now()}
		connection := &batchedConn{Conn: source}
		read := func(why string, size int, want string, at time.Duration) {
			t.Helper()
			into := make([]byte, size)
			n, err := connection.Read(into)
			if took := time.Since(source.begun); string(into[:n]) != want || took != at || err != nil {
				t.Errorf("%s: read '%s' after %s (%v), want '%s' after %s", why, into[:n], took, err, want, at)
			}
		}
		source.at(time.Second, "first")
		read("after a pause", 8, "first", time.Second)
		source.at(time.Second+time.Millisecond, "second")
		source.at(time.Second+19*time.Millisecond, "third")
		read("a batch", 6, "second", time.Second+batchGap)
		read("the rest of the batch", 8, "third", time.Second+batchGap)
		source.at(time.Minute, "last")
		read("after a long pause", 8, "last", time.Minute)
	})
}

// arriving is a connection whose data arrives at certain times.
type arriving struct {
	net.Conn
	begun time.Time
	data  []arrival
}

type arrival struct {
	after time.Duration
	text  string
}

func (a *arriving) at(after time.Duration, text string) {
	a.data = append(a.data, arrival{after, text})
}

// Read waits for the next data, and returns all that has arrived.
func (a *arriving) Read(into []byte) (n int, err error) {
	time.Sleep(time.Until(a.begun.Add(a.data[0].after)))
	for len(a.data) > 0 && n < len(into) && time.Since(a.begun) >= a.data[0].after {
		copied := copy(into[n:], a.data[0].text)
		n += copied
		if a.data[0].text = a.data[0].text[copied:]; a.data[0].text == "" {
			a.data = a.data[1:]
		}
	}
	return n, nil
}
