package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	v1 "kubevirt.io/api/core/v1"
	kvcorev1 "kubevirt.io/client-go/kubevirt/typed/core/v1"
)

// kept bounds what is held of a stream.
const kept = 64 << 10

// bannerBytes is the length of what an RFB server says first (RFC 6143, 7.1.1).
const bannerBytes = 12

// streamed is the answer of a call that opens a stream.
type streamed struct {
	Read  string `json:"read"`
	Bytes int64  `json:"bytes"`
	Ended string `json:"ended"`
}

// ofStreams are the calls that open a stream.
var ofStreams = map[string]known{
	"console":  {nothing, openConsole},
	"vnc":      {nothing, openVNC},
	"usbredir": {nothing, openUSBRedirection},
	"vsock":    {something, openVSOCK},
	"portforward": {something, func(ctx context.Context, t target, argument string) (any, error) {
		return t.forwardPort(ctx, t.vm(), argument)
	}},
	"vmi-portforward": {something, func(ctx context.Context, t target, argument string) (any, error) {
		return t.forwardPort(ctx, t.vmi(), argument)
	}},
}

func openConsole(ctx context.Context, t target, _ string) (any, error) {
	// Without options: with a time limit, the client asks again each second for as long as the server refuses by status 400.
	return t.openStream(ctx, func() (kvcorev1.StreamInterface, error) { return t.vmi().SerialConsole(t.name, nil) })
}

func openVNC(ctx context.Context, t target, _ string) (any, error) {
	conn, err := dialStream(ctx, func() (kvcorev1.StreamInterface, error) { return t.vmi().VNC(t.name, false) })
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	banner := make([]byte, bannerBytes)
	n, err := io.ReadFull(conn, banner)
	answer := &streamed{Read: string(banner[:n]), Bytes: int64(n), Ended: "until"}
	if err != nil {
		answer.Ended, err = howStreamEnded(err)
	}
	return answer, err
}

func openUSBRedirection(ctx context.Context, t target, _ string) (any, error) {
	return t.openStream(ctx, func() (kvcorev1.StreamInterface, error) { return t.vmi().USBRedir(t.name) })
}

func openVSOCK(ctx context.Context, t target, argument string) (any, error) {
	port, err := strconv.ParseUint(argument, 10, 32)
	if err != nil {
		return nil, err
	}
	options := &v1.VSOCKOptions{TargetPort: uint32(port)}
	return t.openStream(ctx, func() (kvcorev1.StreamInterface, error) { return t.vmi().VSOCK(t.name, options) })
}

// forwards is what VMs and VMIs have in common here.
type forwards interface {
	PortForward(name string, port int, protocol string) (kvcorev1.StreamInterface, error)
}

func (t target) forwardPort(ctx context.Context, to forwards, argument string) (any, error) {
	number, protocol, _ := strings.Cut(argument, "/")
	port, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	return t.openStream(ctx, func() (kvcorev1.StreamInterface, error) { return to.PortForward(t.name, port, protocol) })
}

// openStream opens a stream, writes and reads.
func (t target) openStream(ctx context.Context, open func() (kvcorev1.StreamInterface, error)) (any, error) {
	conn, err := dialStream(ctx, open)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if t.send != "" {
		if _, err := io.WriteString(conn, t.send); err != nil {
			return &streamed{Ended: "error"}, err
		}
	}
	return readUntil(conn, t.until)
}

// dialStream opens a stream with the deadline of ctx.
func dialStream(ctx context.Context, open func() (kvcorev1.StreamInterface, error)) (net.Conn, error) {
	stream, err := withinContext(ctx, open)
	if err != nil {
		return nil, err
	}
	if stream == nil { // the client's answer to a success without a websocket
		return nil, errors.New("the server answered without a websocket")
	}
	conn := stream.AsConn()
	deadline, _ := ctx.Deadline()
	return conn, conn.SetDeadline(deadline)
}

// readUntil reads until a text was seen, the stream ends, or its deadline passes.
func readUntil(conn io.Reader, until string) (any, error) {
	answer := &streamed{}
	var text []byte
	buffer := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buffer)
		answer.Bytes += int64(n)
		seen := max(0, len(text)-len(until)) // the text may have begun in what was read before
		text = append(text, buffer[:n]...)
		if at := bytes.Index(text[seen:], []byte(until)); until != "" && at >= 0 {
			text, answer.Ended, err = text[:seen+at+len(until)], "until", nil
		} else if err != nil {
			answer.Ended, err = howStreamEnded(err)
		}
		text = text[max(0, len(text)-kept):]
		if answer.Ended != "" {
			answer.Read = string(text)
			return answer, err
		}
	}
}

// howStreamEnded says how a stream ended, and which error is worth reporting.
func howStreamEnded(err error) (string, error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed", nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "time", nil
	}
	return "error", err
}
