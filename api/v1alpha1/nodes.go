package v1alpha1

// ConditionGuests is on Nodes on which 'launcher devices' runs. It is 'True' if the node has everything that guests may need. Otherwise it is 'False', and its
// message lists what is missing.
const ConditionGuests = "KilnGuests"

// Reasons of ConditionGuests.
const (
	// ReasonNodeComplete means that all checks passed. The message lists what could not be checked.
	ReasonNodeComplete = "Complete"
	// ReasonNodeIncomplete means that something is missing. Guests that do not need what is missing can run.
	ReasonNodeIncomplete = "Incomplete"
)
