package subresource

import "github.com/prometheus/client_golang/prometheus"

// Streams counts the streams that are open, by subresource.
type Streams struct{ open *prometheus.GaugeVec }

// NewStreams returns a counter, which is a metric. It has a series for each subresource before a stream is opened: none would look like no process.
func NewStreams() Streams {
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kiln_subresource_streams", Help: "Streams to guests that are open, by subresource: console, vnc or portforward.",
	}, []string{"subresource"})
	for _, subresource := range []string{"console", "vnc", "portforward"} {
		open.WithLabelValues(subresource)
	}
	return Streams{open}
}

// Metric returns the metric of the counter.
func (s Streams) Metric() prometheus.Collector { return s.open }

// opened counts a stream. The caller calls what it returns when the stream ends.
func (s Streams) opened(subresource string) (ended func()) {
	open := s.open.WithLabelValues(subresource)
	open.Inc()
	return open.Dec
}
