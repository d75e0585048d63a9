package clusterconfig

import (
	"crypto/tls"
	"fmt"
	"slices"

	v1 "kubevirt.io/api/core/v1"
)

// ServerTLS is spec.configuration.tlsConfiguration of the KubeVirt object as Kiln's servers follow it. Groups (curves) are not configurable there: Go's are
// offered, as by KubeVirt's servers.
type ServerTLS struct {
	// MinVersion is at least TLS 1.2.
	MinVersion uint16
	// CipherSuites are offered with TLS 1.2; nil for Go's. The suites of TLS 1.3 cannot be chosen.
	CipherSuites []uint16
}

// minVersions are the values of minTLSVersion. No client of Kiln's servers needs less than TLS 1.2: API servers, Prometheus, virtctl.
var minVersions = map[v1.TLSProtocolVersion]uint16{
	"": tls.VersionTLS12, v1.VersionTLS10: tls.VersionTLS12, v1.VersionTLS11: tls.VersionTLS12, v1.VersionTLS12: tls.VersionTLS12,
	v1.VersionTLS13: tls.VersionTLS13,
}

// serverTLS returns what KubeVirt's servers make of a configuration, which may be nil, with a warning for each value that has no effect. virt-operator refuses
// most such values when the object changes. None of them is an error: a server that stops for a typing error is worse than one with Go's cipher suites.
func serverTLS(configured *v1.TLSConfiguration) (now ServerTLS, warnings []string) {
	now.MinVersion = tls.VersionTLS12
	if configured == nil {
		return now, nil
	}
	const path = "spec.configuration.tlsConfiguration"
	version, known := minVersions[configured.MinTLSVersion]
	switch {
	case !known:
		warnings = append(warnings, fmt.Sprintf("%s.minTLSVersion '%.64s' is unknown and has no effect: TLS 1.2 is the least", path, configured.MinTLSVersion))
	case configured.MinTLSVersion == v1.VersionTLS10 || configured.MinTLSVersion == v1.VersionTLS11:
		warnings = append(warnings, fmt.Sprintf("%s.minTLSVersion '%s' has no effect: TLS 1.2 is the least of Kiln's servers", path, configured.MinTLSVersion))
	default:
		now.MinVersion = version
	}
	if now.MinVersion == tls.VersionTLS13 && len(configured.Ciphers) > 0 {
		return now, append(warnings, path+".ciphers have no effect with minTLSVersion 'VersionTLS13', which has cipher suites of its own")
	}
	for i, name := range configured.Ciphers {
		if suite := suiteNamed(name); suite == nil {
			warnings = append(warnings, fmt.Sprintf("%s.ciphers[%d] '%.64s' is unknown and has no effect", path, i, name))
		} else {
			now.CipherSuites = append(now.CipherSuites, suite.ID)
		}
	}
	return now, warnings
}

// suiteNamed returns a cipher suite that Go has, also an insecure one, or nil.
func suiteNamed(name string) *tls.CipherSuite {
	suites := slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites())
	if i := slices.IndexFunc(suites, func(s *tls.CipherSuite) bool { return s.Name == name }); i >= 0 {
		return suites[i]
	}
	return nil
}

// equals reports whether both are the same.
func (s ServerTLS) equals(other ServerTLS) bool {
	return s.MinVersion == other.MinVersion && slices.Equal(s.CipherSuites, other.CipherSuites)
}

// Cipher suites of TLS 1.2 that HTTP/2 permits (RFC 9113, appendix A), and two of which Go's servers of HTTP/2 need one.
var (
	http2Required  = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	http2Permitted = append([]uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}, http2Required...)
)

// SpeaksHTTP2 reports whether a server with these cipher suites can offer HTTP/2 to all clients. A client ends a connection of HTTP/2 with another suite.
func (s ServerTLS) SpeaksHTTP2() bool {
	others := slices.ContainsFunc(s.CipherSuites, func(suite uint16) bool { return !slices.Contains(http2Permitted, suite) })
	required := slices.ContainsFunc(s.CipherSuites, func(suite uint16) bool { return slices.Contains(http2Required, suite) })
	return s.MinVersion == tls.VersionTLS13 || len(s.CipherSuites) == 0 || required && !others
}

// TLS returns what is in force for servers, and a channel that is closed when it changes.
func (w *Watcher) TLS() (ServerTLS, <-chan struct{}) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.currentTLS()
}

// currentTLS is TLS. The mutex must be locked.
func (w *Watcher) currentTLS() (ServerTLS, <-chan struct{}) {
	if w.tlsChanged == nil {
		w.tlsChanged = make(chan struct{})
	}
	now := ServerTLS{}
	if w.read != nil {
		now = w.read.TLS
	}
	now.MinVersion = max(now.MinVersion, tls.VersionTLS12) // nothing is configured
	return now, w.tlsChanged
}

// FollowTLS makes each handshake of a server use what is in force then. The configuration's own GetConfigForClient, if any, is asked before. Other fields may
// still be set before the first handshake.
func (w *Watcher) FollowTLS(server *tls.Config) {
	own := server.GetConfigForClient
	server.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		chosen := server
		if own != nil {
			given, err := own(hello)
			if err != nil {
				return nil, err
			}
			if given != nil {
				chosen = given
			}
		}
		now, _ := w.TLS()
		one := chosen.Clone()
		one.GetConfigForClient, one.MinVersion, one.CipherSuites = nil, now.MinVersion, now.CipherSuites
		if !now.SpeaksHTTP2() && !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
			one.NextProtos = slices.DeleteFunc(slices.Clone(one.NextProtos), func(protocol string) bool { return protocol == "h2" })
		}
		return one, nil
	}
}
