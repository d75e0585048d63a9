package subresource

import (
	"errors"
	"io"
	"net/http"
	"net/http/httputil"

	"github.com/gorilla/websocket"
	"github.com/kilnvm/kiln/internal/launcherserver"
	"github.com/kilnvm/kiln/internal/stream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
)

// errNoUpgrade is the answer to a plain GET of a stream.
var errNoUpgrade = apierrors.NewBadRequest("connect by WebSocket")

// Stream passes a WebSocket on to the launcher, which ends it.
func (l *Launchers) Stream(w http.ResponseWriter, r *http.Request, vmi *v1.VirtualMachineInstance, path string) {
	at, transport, err := l.connectionTo(r.Context(), vmi)
	if err != nil {
		writeAnswer(w, r, reply{}, err)
		return
	}
	if !websocket.IsWebSocketUpgrade(r) {
		writeAnswer(w, r, reply{}, errNoUpgrade)
		return
	}
	target, err := at.Parse("/" + path)
	if err != nil {
		writeAnswer(w, r, reply{}, err)
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		// The launcher learns neither the name nor the address of the caller.
		Rewrite: func(passed *httputil.ProxyRequest) {
			passed.Out.URL, passed.Out.Host, passed.Out.Header = target, "", handshakeHeaders(passed.In.Header)
			passed.Out.Header.Set(launcherserver.GuestHeader, string(vmi.UID))
			passed.Out.Header.Set("Sec-Websocket-Protocol", stream.Subprotocol) // another protocol that a caller offers may contain a token
		},
		ModifyResponse: func(response *http.Response) error {
			if response.StatusCode != http.StatusSwitchingProtocols {
				return launcherError(vmi, response)
			}
			body, both := response.Body.(io.ReadWriteCloser)
			if !both {
				return errors.New("the launcher has opened no stream")
			}
			response.Header, response.Body = handshakeHeaders(response.Header), unsplitStream{body}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			var status apierrors.APIStatus
			if !errors.As(err, &status) {
				err = unreachableError(vmi, err)
			}
			writeAnswer(w, r, reply{}, err)
		},
	}
	proxy.ServeHTTP(w, r)
}

// unsplitStream is a stream without CloseWrite. With CloseWrite, the proxy would wait for the launcher after the caller has closed its connection, as long as
// the launcher likes.
type unsplitStream struct{ io.ReadWriteCloser }

// handshakeHeaders returns only the headers of a WebSocket's handshake.
func handshakeHeaders(all http.Header) http.Header {
	kept := http.Header{}
	for _, name := range []string{
		"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Accept", "Sec-Websocket-Extensions",
	} {
		if values, given := all[name]; given {
			kept[name] = values
		}
	}
	return kept
}
