package node

import "errors"

// Errors of a start that its owner need not read.
var (
	// errHardwareAwaited is the error of a start that the controller's next update of the GuestHardware causes again.
	errHardwareAwaited = errors.New("the controller has not named this VMI in its GuestHardware yet")
	// errNotClaimed is the error of a start whose VMI was deleted, or claimed by another machine, in the meantime.
	errNotClaimed = errors.New("the VMI is no longer to run on this machine")
)
