package subresource

import "github.com/prometheus/client_golang/prometheus"

// Streams counts the streams that are open, by subresource.
type Streams struct{ open *prometheus.GaugeVec }

// NewStreams returns a counter, which is a metric.
func NewStreams() Streams {
	return Streams{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kiln_subresource_streams", Help: "Streams to guests that are open, by subresource: console, vnc or portforward.",
	}, []string{"subresource"})}
}

// Metric returns the metric of the counter.
func (s Streams) Metric() prometheus.Collector { return s.open }

// opened counts a stream. The caller calls what it returns when the stream ends.
func (s Streams) opened(subresource string) (ended func()) {
	open := s.open.WithLabelValues(subresource)
	open.Inc()
	return open.Dec
}
