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

// How long a caller may take nothing of what the guest sends.
const (
	// ConsoleStall is that of consoles and displays: a guest whose serial console is not read waits for it.
	ConsoleStall = 10 * time.Second
	// ForwardStall is that of forwarded ports: a download that pauses costs two sockets, and the guest's TCP waits as for any peer.
	ForwardStall = 10 * time.Minute
)

const (
	// Subprotocol is that of KubeVirt's clients: each binary message is a piece of the stream.
	Subprotocol = "plain.kubevirt.io"
	// handshakeLimit bounds the handshake with a caller.
	handshakeLimit = 10 * time.Second
	// pingInterval is the time between two pings of a caller, who must answer within silenceLimit: a connection that is cut says nothing.
	pingInterval = 10 * time.Second
	silenceLimit = time.Minute
	// part is the size of a buffer, in bytes; longestMessage bounds a message of the caller. KubeVirt's clients send up to 32 KiB.
	part           = 32 << 10
	longestMessage = 16 << 20
)

// relay copies between a caller and a guest.
type relay struct {
	caller *websocket.Conn
	guest  net.Conn
	// stall is how long the caller may take nothing. stalled reports whether a message waits for him: pings wait behind it, and his answers do not come.
	stall   time.Duration
	stalled atomic.Bool
}

// Relay makes the caller's request a WebSocket, and copies between it and the connection until one of them ends, the caller takes nothing for the time of
// stall, or the context of the request ends. It closes both.
func Relay(w http.ResponseWriter, r *http.Request, guest net.Conn, stall time.Duration) {
	upgrader := websocket.Upgrader{
		HandshakeTimeout: handshakeLimit, ReadBufferSize: part, WriteBufferSize: part, Subprotocols: []string{Subprotocol},
		// A browser's page is checked by Kubernetes' API server, whose client this is.
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
	for _, copied := range []func(){both.toGuest, both.toCaller, func() { both.ping(ctx) }} {
		work.Go(func() {
			defer end()
			copied()
		})
	}
	work.Wait()
}

// alive notes a sign of life of the caller, and that the next is due.
func (b *relay) alive() {
	limit := silenceLimit
	if b.stalled.Load() {
		limit = max(limit, b.stall)
	}
	_ = b.caller.SetReadDeadline(time.Now().Add(limit))
}

// toGuest copies the messages of the caller.
func (b *relay) toGuest() {
	b.alive()
	b.caller.SetPongHandler(func(string) error {
		b.alive()
		return nil
	})
	for {
		_, message, err := b.caller.NextReader()
		if err != nil {
			return
		}
		b.alive()
		if _, err := io.Copy(b.guest, message); err != nil {
			return
		}
		b.alive() // the guest may have kept it for long
	}
}

// toCaller copies what the guest sends.
func (b *relay) toCaller() {
	buffer := make([]byte, part)
	for {
		n, err := b.guest.Read(buffer)
		if n > 0 && b.send(buffer[:n]) != nil {
			return
		}
		if err != nil {
			_ = b.caller.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
			return
		}
	}
}

// send waits for a caller who takes nothing for up to b.stall. Only what he takes after a stall is a sign of life: the kernel takes the rest for him.
func (b *relay) send(message []byte) error {
	b.stalled.Store(true)
	waits := time.AfterFunc(pingInterval, b.alive)
	defer func() {
		b.stalled.Store(false)
		if !waits.Stop() {
			b.alive()
		}
	}()
	_ = b.caller.SetWriteDeadline(time.Now().Add(b.stall))
	return b.caller.WriteMessage(websocket.BinaryMessage, message)
}

// ping asks the caller for a sign of life.
func (b *relay) ping(ctx context.Context) {
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
