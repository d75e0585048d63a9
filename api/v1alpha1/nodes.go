package v1alpha1

// ConditionGuests is on Nodes whose 'launcher devices' runs. It is 'True' if the node has all that guests may need, and 'False' if something is missing,
// which its message lists.
const ConditionGuests = "KilnGuests"

// Reasons of ConditionGuests.
const (
	// ReasonNodeComplete means that nothing is missing that could be checked. The message names what could not.
	ReasonNodeComplete = "Complete"
	// ReasonNodeIncomplete means that something is missing. Guests that do not need it run.
	ReasonNodeIncomplete = "Incomplete"
)
