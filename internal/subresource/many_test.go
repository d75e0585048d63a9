package subresource

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/internal/launcherserver"
	"github.com/kilnvm/kiln/test/poll"
)

// waitForRelease waits until this process has at most the given numbers of goroutines and open files.
func waitForRelease(t *testing.T, goroutines, files int) {
	t.Helper()
	if !poll.Until(time.Minute, func() bool { return runtime.NumGoroutine() <= goroutines && countOpenFiles(t) <= files }) {
		all := make([]byte, 1<<20)
		t.Fatalf("%d goroutines and %d files, want %d and %d as before:\n%s",
			runtime.NumGoroutine(), countOpenFiles(t), goroutines, files, all[:runtime.Stack(all, true)])
	}
}

// countOpenFiles returns the number of open files of this process.
func countOpenFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestManyConsoles: of two hundred clients the last one has the console, and nothing of the others stays, whether they close or are just gone.
func TestManyConsoles(t *testing.T) {
	s := newStage(t, nil)
	warm, _, err := s.dial(t, "console")
	if err != nil {
		t.Fatal(err)
	}
	warm.Close()
	s.waitForNoStreams(t)
	goroutines, files := runtime.NumGoroutine(), countOpenFiles(t)
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			conn, response, err := s.dial(t, "console")
			if err != nil {
				text := []byte(nil)
				if response != nil {
					text, _ = io.ReadAll(response.Body)
				}
				if !strings.Contains(string(text), "taken the connection over") {
					t.Errorf("client %d: %v: %s", i, err, text)
				}
				return
			}
			defer conn.Close()
			if i%2 == 0 { // without a word: as a cable that is cut
				conn.UnderlyingConn().Close()
				return
			}
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			_ = conn.WriteMessage(websocket.BinaryMessage, []byte("x"))
			_, _, _ = conn.ReadMessage() // its own text, or the end by the next client
		})
	}
	work.Wait()
	last, _, err := s.dial(t, "console")
	if err != nil {
		t.Fatal(err)
	}
	if got := say(t, last, "still there"); got != "STILL THERE" {
		t.Errorf("the console says '%s'", got)
	}
	last.Close()
	waitForRelease(t, goroutines, files)
}

// TestFlood: a guest that writes without end fills no memory of a client that does not read, and a client that reads nothing is disconnected: the guest would
// wait for it.
func TestFlood(t *testing.T) {
	s := newStage(t, nil)
	flooding := filepath.Join(t.TempDir(), "f")
	listener, err := net.Listen("unix", flooding)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	written := make(chan int, 1)
	go func() {
		guest, err := listener.Accept()
		if err != nil {
			return
		}
		defer guest.Close()
		text, total := make([]byte, 64<<10), 0
		for {
			n, err := guest.Write(text)
			if total += n; err != nil {
				written <- total
				return
			}
		}
	}()
	s.server.Serve(launcherserver.Guest{Owner: hypervisor.Owner{UID: "vmi"}, Console: flooding, Display: flooding})
	conn, _, err := s.dial(t, "console")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case total := <-written:
		const most = 64 << 20 // the sockets' own buffers
		if total > most {
			t.Errorf("%d bytes were taken of the guest, with nobody who reads them", total)
		}
	case <-time.After(time.Minute):
		t.Error("a client that reads nothing keeps the guest waiting")
	}
}
