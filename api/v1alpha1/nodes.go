package v1alpha1

// ConditionGuests is on Nodes on which 'launcher devices' runs. It is 'True' if the node provides everything that guests may need. Otherwise it is 'False', and
// its message lists the missing parts.
const ConditionGuests = "KilnGuests"

// Reasons of ConditionGuests.
const (
	// ReasonNodeComplete means that all checks passed. The message lists the checks that were not possible.
	ReasonNodeComplete = "Complete"
	// ReasonNodeIncomplete means that something is missing. Guests that do not need the missing part can run.
	ReasonNodeIncomplete = "Incomplete"
)
