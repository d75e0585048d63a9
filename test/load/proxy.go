package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// proxy stands between one process and the API server. It counts the requests of the process, and can have it list everything anew, as it must after
// an API server has restarted.
type proxy struct {
	server *http.Server
	url    string
	ca     []byte

	mutex    sync.Mutex
	requests map[string]int
	// open are the paths that are watched, and expired the paths whose next watch is refused.
	open, expired map[string]bool
	// cut ends the watches that are open.
	cut context.CancelFunc
	ctx context.Context
}

func startProxy(config *rest.Config) (*proxy, error) {
	transport, err := rest.TransportFor(&rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData, CAFile: config.CAFile}})
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	pair, err := keyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	silent := log.New(io.Discard, "", 0) // a watch that is cut is no error
	through := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: silent, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	p := &proxy{url: "https://" + listener.Addr().String(), ca: certificate, requests: map[string]int{}, open: map[string]bool{}, expired: map[string]bool{}}
	p.ctx, p.cut = context.WithCancel(context.Background())
	pass := func(w http.ResponseWriter, r *http.Request) { p.forwardRequest(through, w, r) }
	p.server = &http.Server{ReadHeaderTimeout: time.Minute, TLSConfig: pair, ErrorLog: silent, Handler: http.HandlerFunc(pass)}
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

func (p *proxy) forwardRequest(through http.Handler, w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	watch := query.Get("watch") == "true"
	p.mutex.Lock()
	p.requests[verbOf(r)]++
	cut, refuse := p.ctx, false
	if watch {
		p.open[r.URL.Path] = true
		refuse = p.expired[r.URL.Path] && query.Get("sendInitialEvents") == ""
		delete(p.expired, r.URL.Path)
	}
	p.mutex.Unlock()
	if refuse {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonExpired, Code: http.StatusGone, Message: "too old resource version"})
		return
	}
	if watch {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(cut, cancel)()
		r = r.WithContext(ctx)
	}
	through.ServeHTTP(w, r)
}

// verbOf returns what the request asks for, such as 'list virtualmachines'.
func verbOf(r *http.Request) string {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch { // /api/v1/... and /apis/GROUP/VERSION/...
	case len(segments) > 2 && segments[0] == "api":
		segments = segments[2:]
	case len(segments) > 3 && segments[0] == "apis":
		segments = segments[3:]
	default:
		return "get discovery"
	}
	if len(segments) > 2 && segments[0] == "namespaces" {
		segments = segments[2:]
	}
	query, what := r.URL.Query(), segments[0]
	if len(segments) > 2 {
		what += "/" + segments[2]
	}
	switch {
	case query.Get("sendInitialEvents") == "true":
		return "list " + what
	case query.Get("watch") == "true":
		return "watch " + what
	case r.Method == http.MethodGet && len(segments) == 1:
		return "list " + what
	}
	return strings.ToLower(r.Method) + " " + what
}

// forceRelist ends all watches, and refuses each path once, so that its reflector lists again.
func (p *proxy) forceRelist() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for path := range p.open {
		p.expired[path] = true
	}
	p.cut()
	p.ctx, p.cut = context.WithCancel(context.Background())
}

// takeRequests returns the requests since the last call.
func (p *proxy) takeRequests() map[string]int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	taken := p.requests
	p.requests = map[string]int{}
	return taken
}

// writeKubeconfig writes the kubeconfig of an account with the proxy as its server.
func (p *proxy) writeKubeconfig(from, to string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return err
	}
	for _, one := range config.Clusters {
		one.Server, one.CertificateAuthority, one.CertificateAuthorityData = p.url, "", p.ca
	}
	return clientcmd.WriteToFile(*config, to)
}

func (p *proxy) close() error {
	p.cut()
	return errors.Join(p.server.Close())
}
