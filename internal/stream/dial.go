package stream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Dial opens a stream at a path of an API server, with the credentials of a client. If the server refuses the stream, the error is the Status in its answer.
func Dial(access *rest.Config, path string, query url.Values) (net.Conn, error) {
	config, err := rest.TLSConfigFor(access)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(access)
	if err != nil {
		return nil, err
	}
	opening := &opening{tls: config, proxy: access.Proxy}
	// The wrappers add the credentials of the caller: a token, a credential plugin, impersonation.
	wrapped, err := rest.HTTPWrappersForConfig(access, opening)
	if err != nil {
		return nil, err
	}
	at := server.JoinPath(path)
	at.RawQuery = query.Encode()
	request, err := http.NewRequest(http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := wrapped.RoundTrip(request)
	if response != nil && response.Body != nil {
		defer response.Body.Close()
	}
	switch {
	case opening.conn != nil:
		return &messages{Conn: opening.conn}, nil
	case response != nil:
		return nil, refusalError(response)
	case err == nil:
		err = errors.New("the API server has opened no stream")
	}
	return nil, &url.Error{Op: "Get", URL: at.Redacted(), Err: err} // what http.Client would return
}

// opening is the transport that opens a WebSocket.
type opening struct {
	tls   *tls.Config
	proxy func(*http.Request) (*url.URL, error)
	conn  *websocket.Conn
}

func (o *opening) RoundTrip(r *http.Request) (*http.Response, error) {
	dialer := websocket.Dialer{
		TLSClientConfig: o.tls, Proxy: o.proxy, Subprotocols: []string{Subprotocol}, HandshakeTimeout: handshakeLimit,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
	}
	if dialer.Proxy == nil {
		dialer.Proxy = http.ProxyFromEnvironment
	}
	at := *r.URL
	at.Scheme = map[string]string{"https": "wss", "http": "ws"}[at.Scheme]
	conn, response, err := dialer.DialContext(r.Context(), at.String(), r.Header)
	if errors.Is(err, websocket.ErrBadHandshake) && response != nil {
		return response, nil // it contains the reason
	}
	o.conn = conn
	return response, err
}

// longestRefusal is the largest size of an answer that refuses a stream, in bytes.
const longestRefusal = 64 << 10

// refusalError returns the error in a response.
func refusalError(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, longestRefusal))
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	object, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(text, nil, &metav1.Status{})
	if status, is := object.(*metav1.Status); err == nil && is {
		return apierrors.FromObject(status)
	}
	return fmt.Errorf("the API server answers %s", response.Status)
}

// messages is a WebSocket as a connection: each write is a message, and reads run over the ends of messages.
type messages struct {
	*websocket.Conn
	current io.Reader
}

func (m *messages) Read(into []byte) (int, error) {
	for {
		if m.current == nil {
			_, next, err := m.NextReader()
			if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				return 0, io.EOF
			}
			if err != nil {
				return 0, err
			}
			m.current = next
		}
		n, err := m.current.Read(into)
		if errors.Is(err, io.EOF) {
			m.current, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (m *messages) Write(text []byte) (int, error) {
	if err := m.WriteMessage(websocket.BinaryMessage, text); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (m *messages) SetDeadline(at time.Time) error {
	return errors.Join(m.SetReadDeadline(at), m.SetWriteDeadline(at))
}
