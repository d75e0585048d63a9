package fields

// act is a field of a VMI that acts when neither domain, pod nor what is bound shows it. The test of the package that acts is named: it must exist.
type act struct {
	runtime, leaf string
	reason        string
	file, test    string
}

// acts are few: each is needed in its runtime, or the test of the table fails.
var acts = []act{
	{"pod", "volumes[].ephemeral.persistentVolumeClaim.readOnly", "it asks for what every such volume does: the pod only reads the claim",
		"../../pkg/pod/disks_test.go", "TestVolumes"},
	{"pod", "volumes[].persistentVolumeClaim.hotpluggable", "an edit that removes the disk is unplugged from the guest that runs",
		"../../pkg/validate/updates_live_test.go", "TestLiveSpec"},
	{"pod", "volumes[].dataVolume.hotpluggable", "an edit that removes the disk is unplugged from the guest that runs",
		"../../pkg/validate/updates_live_test.go", "TestLiveSpec"},
	{"node", "nodeSelector{}", "a launcher claims VMIs that select its labels", "../../internal/node/phases_test.go", "TestClaims"},
	{"node", "terminationGracePeriodSeconds", "the launcher waits so long for the guest to power off", "../../internal/node/stop_test.go", "TestGracePeriod"},
}
