// Package stream copies between a WebSocket, as KubeVirt's clients speak it, and a connection to a guest.
package stream

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// How long a caller may receive nothing while the guest sends.
const (
	// ConsoleStall is for consoles and displays. A guest blocks while its serial console is not read.
	ConsoleStall = 10 * time.Second
	// ForwardStall is for forwarded ports. A paused download costs only two sockets, and the guest's TCP waits as for any peer.
	ForwardStall = 10 * time.Minute
)

const (
	// Subprotocol is the WebSocket subprotocol of KubeVirt's clients: each binary message is a piece of the stream.
	Subprotocol = "plain.kubevirt.io"
	// handshakeLimit bounds the handshake with a caller.
	handshakeLimit = 10 * time.Second
	// pingInterval is the time between two pings of a caller, who must answer within silenceLimit. A broken connection would not be noticed otherwise.
	pingInterval = 10 * time.Second
	silenceLimit = time.Minute
	// bufferSize is the size of a buffer, in bytes; longestMessage bounds a message of the caller. KubeVirt's clients send up to 32 KiB.
	bufferSize     = 32 << 10
	longestMessage = 16 << 20
)

// relay copies between a caller and a guest.
type relay struct {
	caller *websocket.Conn
	guest  net.Conn
	// stall is how long the caller may receive nothing. stalled reports whether a message waits for the caller: pings wait behind it, and so their answers do
	// not arrive.
	stall   time.Duration
	stalled atomic.Bool
}

// Relay upgrades the caller's request to a WebSocket, and copies between it and the connection until one of them ends, the caller receives nothing for the
// time of stall, or the context of the request ends. It closes both.
func Relay(w http.ResponseWriter, r *http.Request, guest net.Conn, stall time.Duration) {
	upgrader := websocket.Upgrader{
		HandshakeTimeout: handshakeLimit, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize, Subprotocols: []string{Subprotocol},
		// Kubernetes' API server, which forwards the request, checks the origin of a browser's page.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	caller, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		guest.Close()
		return // Upgrade has answered
	}
	caller.SetReadLimit(longestMessage)
	ctx, end := context.WithCancel(r.Context())
	defer end()
	context.AfterFunc(ctx, func() {
		caller.Close()
		guest.Close()
	})
	both := &relay{caller: caller, guest: guest, stall: stall}
	var work sync.WaitGroup
	for _, copied := range []func(){both.toGuest, both.toCaller, func() { both.pingCaller(ctx) }} {
		work.Go(func() {
			defer end()
			copied()
		})
	}
	work.Wait()
}

// noteAlive records a sign of life of the caller, and sets the deadline of the next.
func (b *relay) noteAlive() {
	limit := silenceLimit
	if b.stalled.Load() {
		limit = max(limit, b.stall)
	}
	_ = b.caller.SetReadDeadline(time.Now().Add(limit))
}

// toGuest copies the messages of the caller.
func (b *relay) toGuest() {
	b.noteAlive()
	b.caller.SetPongHandler(func(string) error {
		b.noteAlive()
		return nil
	})
	for {
		_, message, err := b.caller.NextReader()
		if err != nil {
			return
		}
		b.noteAlive()
		if _, err := io.Copy(b.guest, message); err != nil {
			return
		}
		b.noteAlive() // the guest may have blocked the copy for long
	}
}

// toCaller copies what the guest sends.
func (b *relay) toCaller() {
	buffer := make([]byte, bufferSize)
	for {
		n, err := b.guest.Read(buffer)
		if n > 0 && b.sendToCaller(buffer[:n]) != nil {
			return
		}
		if err != nil {
			_ = b.caller.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
			return
		}
	}
}

// sendToCaller sends a message to the caller, and waits up to b.stall until the caller receives it. Only the end of a stall is a sign of life, because the
// kernel's buffer accepts other messages at once.
func (b *relay) sendToCaller(message []byte) error {
	b.stalled.Store(true)
	waits := time.AfterFunc(pingInterval, b.noteAlive)
	defer func() {
		b.stalled.Store(false)
		if !waits.Stop() {
			b.noteAlive()
		}
	}()
	_ = b.caller.SetWriteDeadline(time.Now().Add(b.stall))
	return b.caller.WriteMessage(websocket.BinaryMessage, message)
}

// pingCaller sends pings to the caller, which answers with a sign of life.
func (b *relay) pingCaller(ctx context.Context) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if b.caller.WriteControl(websocket.PingMessage, nil, time.Now().Add(b.stall)) != nil {
				return
			}
		}
	}
}
