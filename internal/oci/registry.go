package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// Options configure the connections to registries.
type Options struct {
	// PlainHTTP uses HTTP instead of HTTPS.
	PlainHTTP bool
	// CAFile is a file with the certificates of further authorities, in PEM.
	CAFile string
	// UserAgent is the User-Agent of requests, which registries log.
	UserAgent string
}

// Client reads and writes artifacts of registries.
type Client struct {
	plain bool
	http  *auth.Client
	// limit bounds the duration of each call of a method.
	limit time.Duration
}

// maxRedirects is the number of redirects that one request may follow. Registries redirect to the storage of blobs.
const maxRedirects = 5

const (
	// callLimit suffices for a catalog of maxArchive bytes at 500 kbit/s, with pauses between attempts while a registry is busy.
	callLimit = 10 * time.Minute
	// headerLimit bounds the time from a request to the header of its answer.
	headerLimit = time.Minute
)

// withDeadline bounds the duration of a call. A registry may answer byte by byte, ask for longer and longer pauses, or send pages of tags without end.
func (c *Client) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.limit)
}

// New returns a client with the credentials of docker's configuration file and of its credential helpers.
func New(o Options) (*Client, error) {
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("docker's credentials cannot be read: %w", err)
	}
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport of HTTP has been replaced")
	}
	base = base.Clone()
	base.ResponseHeaderTimeout = headerLimit
	if o.CAFile != "" {
		if base.TLSClientConfig, err = trustAuthorities(o.CAFile); err != nil {
			return nil, err
		}
	}
	var transport http.RoundTripper = retry.NewTransport(base)
	if !o.PlainHTTP {
		transport = onlyHTTPS{transport}
	}
	client := &auth.Client{
		Client:     &http.Client{Transport: transport, CheckRedirect: checkRedirect},
		Credential: credentials.Credential(store),
		Cache:      auth.NewCache(),
	}
	client.SetUserAgent(o.UserAgent)
	return &Client{plain: o.PlainHTTP, http: client, limit: callLimit}, nil
}

// onlyHTTPS refuses unencrypted requests. A registry may name any address as its token service, and docker's credentials are sent there. A token service
// on another host is usual; a token service without encryption is refused.
type onlyHTTPS struct{ below http.RoundTripper }

// RoundTrip refuses an unencrypted request before any of it is sent.
func (t onlyHTTPS) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" {
		return nil, fmt.Errorf("the registry names '%s://%s', to which nothing is sent unencrypted: its token service needs HTTPS, or use --plain-http",
			printableText(request.URL.Scheme), printableText(request.URL.Host))
	}
	return t.below.RoundTrip(request)
}

// trustAuthorities returns a TLS configuration that trusts the authorities of the system and of a file.
func trustAuthorities(file string) (*tls.Config, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	raw, err := io.ReadAll(io.LimitReader(opened, maxManifest))
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without authorities of its own
	}
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("'%s' has no certificate in PEM", file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// checkRedirect refuses redirects from HTTPS to HTTP: everybody on the way could read the catalog, or credentials that are bound to a path.
func checkRedirect(request *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("the registry redirects more than %d times", maxRedirects)
	case via[0].URL.Scheme == "https" && request.URL.Scheme != "https":
		return fmt.Errorf("the registry redirects from HTTPS to '%s'", printableText(request.URL.Scheme))
	}
	return nil
}

// repositoryOf returns the repository of a reference.
func (c *Client) repositoryOf(r registry.Reference) *remote.Repository {
	return &remote.Repository{Client: c.http, Reference: r, PlainHTTP: c.plain, SkipReferrersGC: true, MaxMetadataBytes: maxManifest}
}

// Tags returns at most limit tags of the repository of a reference, in the registry's order. If the repository does not exist, it returns no tags and no
// error.
func (c *Client) Tags(ctx context.Context, reference string, limit int) (tags []string, err error) {
	ctx, done := c.withDeadline(ctx)
	defer done()
	r, err := parseReference(reference)
	if err != nil {
		return nil, err
	}
	stop := errors.New("enough")
	err = c.repositoryOf(r).Tags(ctx, "", func(page []string) error {
		tags = append(tags, page[:min(len(page), limit-len(tags))]...)
		if len(tags) == limit {
			return stop
		}
		return nil
	})
	if err != nil && !errors.Is(err, stop) && !unknownRepository(err) {
		return nil, explainError(reference, err)
	}
	return tags, nil
}
