package clusterconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/prometheus/client_golang/prometheus"
)

// Failures counts the reads of the configuration that failed, so that the previous configuration stays in force.
var Failures = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "kiln_configuration_failures_total",
	Help: "Readings of the configuration or of the FrontendProfiles that failed, so that the previous ones stay in force.",
})

var (
	infoDesc = prometheus.NewDesc("kiln_configuration_info",
		"Always 1. The labels are a digest of the configuration in force and the FrontendProfile in force: replicas with different digests judge differently.",
		[]string{"digest", "frontend_profile"}, nil)
	changeDesc = prometheus.NewDesc("kiln_configuration_change_timestamp_seconds",
		"Unix time at which this process put the configuration in force.", nil, nil)
)

// inForce are the values of metrics about a configuration. They are computed once for each change.
type inForce struct {
	digest, profile string
	since           time.Time
}

func newInForce(cluster config.Cluster, profile string) *inForce {
	text, err := json.Marshal(cluster)
	if err != nil {
		panic(err) // it was read from JSON
	}
	sum := sha256.Sum256(text)
	return &inForce{digest: hex.EncodeToString(sum[:6]), profile: profile, since: time.Now()}
}

// Describe implements prometheus.Collector.
func (w *Watcher) Describe(all chan<- *prometheus.Desc) {
	all <- infoDesc
	all <- changeDesc
}

// Collect implements prometheus.Collector. It sends nothing before the first read.
func (w *Watcher) Collect(all chan<- prometheus.Metric) {
	now := w.inForce.Load()
	if now == nil {
		return
	}
	all <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, now.digest, now.profile)
	all <- prometheus.MustNewConstMetric(changeDesc, prometheus.GaugeValue, float64(now.since.UnixNano())/1e9)
}
