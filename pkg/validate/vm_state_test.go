package validate_test

const oneVolume = "spec: {template: {spec: {volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}}}"

var vmStateCases = []testCase{
	{
		why:   "a VM that is restored is started",
		rule:  "vm/restore-running",
		given: vmChange("status: {restoreInProgress: r}", "spec: {runStrategy: Always}"),
		want:  forbidden("spec.runStrategy"),
	},
	{
		why:   "a VM that is restored is started by the field of old",
		rule:  "vm/restore-running",
		given: vmChange("{spec: {running: false, runStrategy: null}, status: {restoreInProgress: r}}", "spec: {running: true}"),
		want:  forbidden("spec.running"),
	},
	{
		why:   "a VM that is restored gets other labels",
		rule:  "vm/restore-running",
		given: vmChange("status: {restoreInProgress: r}", "metadata: {labels: {a: b}}"),
	},
	{
		why:   "a VM that is not restored is started",
		rule:  "vm/restore-running",
		given: vmChange("", "spec: {runStrategy: Always}"),
	},
	{
		why:   "a VM that is created",
		rule:  "vm/restore-running",
		given: vm("status: {restoreInProgress: r}"),
	},
	{
		why:   "a VM that had no template",
		rule:  "vm/restore-running",
		given: vmChange("{spec: {template: null}, status: {restoreInProgress: r}}", "spec: {runStrategy: Always, template: {spec: {domain: {}}}}"),
	},
	{
		why:    "a VM that loses its template",
		rule:   "vm/restore-running",
		given:  vmChange("status: {restoreInProgress: r}", "spec: {runStrategy: Always, template: null}"),
		others: []string{"vm/template"},
	},
	{
		why:   "a VM of which a snapshot is taken is started",
		rule:  "vm/snapshot-running",
		given: vmChange("status: {snapshotInProgress: s}", "spec: {runStrategy: Always}"),
		want:  forbidden("spec.runStrategy"),
	},
	{
		why:   "a VM of which a snapshot is taken gets other labels",
		rule:  "vm/snapshot-running",
		given: vmChange("status: {snapshotInProgress: s}", "metadata: {labels: {a: b}}"),
	},
	{
		why:   "a VM of which a snapshot is taken gets a volume",
		rule:  "vm/snapshot-volumes",
		given: vmChange("status: {snapshotInProgress: s}", oneVolume),
		want:  forbidden("spec.template.spec.volumes"),
	},
	{
		why:   "a VM of which a snapshot is taken gets memory",
		rule:  "vm/snapshot-volumes",
		given: vmChange("status: {snapshotInProgress: s}", "spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}"),
	},
	{
		why:   "a VM that is restored gets a volume",
		rule:  "vm/snapshot-volumes",
		given: vmChange("status: {restoreInProgress: r}", oneVolume),
	},
}
