package subresource

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Streams counts the open streams by subresource, and bounds them. The library bounds only other requests.
type Streams struct {
	open *prometheus.GaugeVec

	mutex sync.Mutex
	// byNamespace is the number of open streams by namespace, all is their sum.
	byNamespace map[string]int
	all         int
}

// The largest numbers of open streams in this process, in all and for one namespace. A stream has two connections and some 100 KiB.
const (
	mostStreams            = 1000
	mostStreamsOfNamespace = 250
)

// NewStreams returns a counter without streams. Its metric has a series for each subresource before a stream is opened, because no series would look like no
// process.
func NewStreams() *Streams {
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kiln_subresource_streams", Help: "Streams to guests that are open, by subresource: console, vnc or portforward.",
	}, []string{"subresource"})
	for _, subresource := range []string{"console", "vnc", "portforward"} {
		open.WithLabelValues(subresource)
	}
	return &Streams{open: open, byNamespace: map[string]int{}}
}

// Metric returns the metric of the counter.
func (s *Streams) Metric() prometheus.Collector { return s.open }

// reserveStream counts a request for a stream in a namespace, unless too many are open. The caller calls leave when the request has ended.
func (s *Streams) reserveStream(namespace string) (leave func(), ok bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.all >= mostStreams || s.byNamespace[namespace] >= mostStreamsOfNamespace {
		return nil, false
	}
	s.all++
	s.byNamespace[namespace]++
	return func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.all--
		if s.byNamespace[namespace]--; s.byNamespace[namespace] == 0 {
			delete(s.byNamespace, namespace)
		}
	}, true
}

// countOpen counts an open stream. The caller calls ended when the stream ends.
func (s *Streams) countOpen(subresource string) (ended func()) {
	open := s.open.WithLabelValues(subresource)
	open.Inc()
	return open.Dec
}
