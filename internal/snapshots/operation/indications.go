package operation

import api "kubevirt.io/api/snapshot/v1beta1"

// indicationMessages explain KubeVirt's indications of how a snapshot of a running guest was taken.
var indicationMessages = map[api.Indication]string{
	api.VMSnapshotOnlineSnapshotIndication:  "the guest was running",
	api.VMSnapshotPausedIndication:          "the guest was paused: its volumes are as after a power failure",
	api.VMSnapshotGuestAgentIndication:      "the guest agent froze the file systems",
	api.VMSnapshotNoGuestAgentIndication:    "no guest agent froze the file systems: the volumes are as after a power failure",
	api.VMSnapshotQuiesceTimeoutIndication:  "the freeze ended before all volumes were snapshotted: they are as after a power failure",
	api.VMSnapshotPartialSnapshotIndication: "the content of some volumes is not included: see excludedVolumes",
}

// AddIndications adds indications that the status does not contain yet.
func AddIndications(status *api.VirtualMachineSnapshotStatus, indications ...api.Indication) {
	for _, indication := range indications {
		known := false
		for _, was := range status.SourceIndications {
			known = known || was.Indication == indication
		}
		if !known {
			//nolint:staticcheck // older clients read the deprecated field
			status.Indications = append(status.Indications, indication)
			status.SourceIndications = append(status.SourceIndications, api.SourceIndication{Indication: indication, Message: indicationMessages[indication]})
		}
	}
}
