package observer

import (
	"github.com/kilnvm/kiln/internal/nodecpu/fleet"
	"github.com/prometheus/client_golang/prometheus"
)

// unrecorded is the label of guests whose hardware record has no CPU that the next boot needs.
const unrecorded fleet.Outlook = "unrecorded"

// outlooks are the values of the metric's label.
var outlooks = []fleet.Outlook{fleet.Everywhere, fleet.Somewhere, fleet.Nowhere, fleet.Unreported, unrecorded}

// guestCPUs is the number of guests by outlook.
var guestCPUs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "kiln_guest_cpus",
	Help: "Guests with a hardware record, by where they can start again with the recorded CPU: everywhere, somewhere (some nodes lack it), nowhere, unreported " +
		"(no agent reports the CPUs of the nodes) or unrecorded (the record has no CPU). From the leader; no values on other replicas.",
}, []string{"offered"})

// Metrics returns the metrics of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{guestCPUs} }
