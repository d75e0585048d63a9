// Package stream copies between a WebSocket, as KubeVirt's clients speak it, and a connection to a guest.
package stream

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// Subprotocol is that of KubeVirt's clients: each binary message is a piece of the stream.
	Subprotocol = "plain.kubevirt.io"
	// handshakeLimit bounds the handshake with a caller.
	handshakeLimit = 10 * time.Second
	// pingInterval is the time between two pings of a caller, who must answer within silenceLimit: a connection that is cut says nothing.
	pingInterval = 10 * time.Second
	silenceLimit = time.Minute
	// stallLimit is how long a caller may take nothing of what the guest sends. A guest whose serial console is not read waits for it.
	stallLimit = 10 * time.Second
	// part is the size of a buffer, in bytes; longestMessage bounds a message of the caller. KubeVirt's clients send up to 32 KiB.
	part           = 32 << 10
	longestMessage = 16 << 20
)

// Relay makes the caller's request a WebSocket, and copies between it and the connection until one of them ends, or the context of the request. It closes
// both.
func Relay(w http.ResponseWriter, r *http.Request, guest net.Conn) {
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
	var work sync.WaitGroup
	for _, copied := range []func(){
		func() { toGuest(guest, caller) }, func() { toCaller(caller, guest) }, func() { ping(ctx, caller) },
	} {
		work.Go(func() {
			defer end()
			copied()
		})
	}
	work.Wait()
}

// toGuest copies the messages of the caller.
func toGuest(guest net.Conn, caller *websocket.Conn) {
	alive := func(string) error { return caller.SetReadDeadline(time.Now().Add(silenceLimit)) }
	_ = alive("")
	caller.SetPongHandler(alive)
	for {
		_, message, err := caller.NextReader()
		if err != nil {
			return
		}
		_ = alive("")
		if _, err := io.Copy(guest, message); err != nil {
			return
		}
		_ = alive("") // the guest may have kept it for long
	}
}

// toCaller copies what the guest sends.
func toCaller(caller *websocket.Conn, guest net.Conn) {
	buffer := make([]byte, part)
	for {
		n, err := guest.Read(buffer)
		if n > 0 {
			_ = caller.SetWriteDeadline(time.Now().Add(stallLimit))
			if caller.WriteMessage(websocket.BinaryMessage, buffer[:n]) != nil {
				return
			}
		}
		if err != nil {
			_ = caller.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
			return
		}
	}
}

// ping asks the caller for a sign of life.
func ping(ctx context.Context, caller *websocket.Conn) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if caller.WriteControl(websocket.PingMessage, nil, time.Now().Add(stallLimit)) != nil {
				return
			}
		}
	}
}
