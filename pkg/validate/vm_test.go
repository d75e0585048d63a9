package validate_test

var vmCases = []testCase{
	{
		why:   "no template",
		rule:  "vm/template",
		given: vm("spec: {template: null}"),
		want:  required("spec.template"),
	},
	{
		why:   "a template",
		rule:  "vm/template",
		given: vm("spec: {template: {spec: {domain: {}}}}"),
	},
	{
		why:   "both fields",
		rule:  "vm/running-and-strategy",
		given: vm("spec: {running: true}"),
		want:  forbidden("spec.running"),
	},
	{
		why:   "the field of old alone",
		rule:  "vm/running-and-strategy",
		given: vm("spec: {running: true, runStrategy: null}"),
	},
	{
		why:   "neither field",
		rule:  "vm/strategy-given",
		given: vm("spec: {runStrategy: null}"),
		want:  required("spec.runStrategy"),
	},
	{
		why:   "the field of old",
		rule:  "vm/strategy-given",
		given: vm("spec: {running: false, runStrategy: null}"),
	},
	{
		why:   "a strategy",
		rule:  "vm/strategy-given",
		given: vm("spec: {runStrategy: Always}"),
	},
	{
		why:    "a migration between clusters without the feature gate",
		rule:   "vm/strategy-gate",
		given:  vm("spec: {runStrategy: WaitAsReceiver}"),
		limits: gates("-DecentralizedLiveMigration"),
		want:   forbidden("spec.runStrategy"),
	},
	{
		why:    "a migration between clusters with the feature gate",
		rule:   "vm/strategy-gate",
		given:  vm("spec: {runStrategy: WaitAsReceiver}"),
		limits: gates("DecentralizedLiveMigration"),
	},
	{
		why:   "an unknown word",
		rule:  "vm/strategy",
		given: vm("spec: {runStrategy: Never}"),
		want:  notSupported("spec.runStrategy"),
	},
	{
		why:   "a strategy that needs no gate",
		rule:  "vm/strategy",
		given: vm("spec: {runStrategy: RerunOnFailure}"),
	},
	{
		why:   "an instancetype of no name",
		rule:  "vm/matcher-name",
		given: vm("spec: {instancetype: {}}"),
		want:  required("spec.instancetype.name"),
	},
	{
		why:   "a preference of no name",
		rule:  "vm/matcher-name",
		given: vm("spec: {preference: {}}"),
		want:  required("spec.preference.name"),
	},
	{
		why:   "names",
		rule:  "vm/matcher-name",
		given: vm("spec: {instancetype: {name: i}, preference: {name: p}}"),
	},
	{
		why:   "a volume that names them",
		rule:  "vm/matcher-name",
		given: vm("spec: {instancetype: {inferFromVolume: v}, preference: {inferFromVolume: v}}"),
	},
	{
		why:   "a name and a volume that names it",
		rule:  "vm/matcher-infer-name",
		given: vm("spec: {instancetype: {name: i, inferFromVolume: v}}"),
		want:  forbidden("spec.instancetype.name"),
	},
	{
		why:   "a name, and a volume for the preference",
		rule:  "vm/matcher-infer-name",
		given: vm("spec: {instancetype: {name: i}, preference: {inferFromVolume: v}}"),
	},
	{
		why:   "a kind and a volume that names it",
		rule:  "vm/matcher-infer-kind",
		given: vm("spec: {preference: {kind: VirtualMachinePreference, inferFromVolume: v}}"),
		want:  forbidden("spec.preference.kind"),
	},
	{
		why:   "a kind and a name",
		rule:  "vm/matcher-infer-kind",
		given: vm("spec: {preference: {kind: VirtualMachinePreference, name: p}}"),
	},
	{
		why:   "a volume",
		rule:  "vm/matcher-infer-kind",
		given: vm("spec: {preference: {inferFromVolume: v}}"),
	},
	{
		why:   "a preference for an instancetype",
		rule:  "vm/matcher-kind",
		given: vm("spec: {instancetype: {kind: VirtualMachinePreference, name: i}}"),
		want:  notSupported("spec.instancetype.kind"),
	},
	{
		why:   "an instancetype for a preference",
		rule:  "vm/matcher-kind",
		given: vm("spec: {preference: {kind: VirtualMachineInstancetype, name: p}}"),
		want:  notSupported("spec.preference.kind"),
	},
	{
		why:   "the kind of a namespace and the kind of a cluster",
		rule:  "vm/matcher-kind",
		given: vm("spec: {instancetype: {kind: VirtualMachineInstancetype, name: i}, preference: {kind: VirtualMachineClusterPreference, name: p}}"),
	},
	{
		why:   "an unknown word",
		rule:  "vm/matcher-policy",
		given: vm("spec: {instancetype: {inferFromVolume: v, inferFromVolumeFailurePolicy: Fail}}"),
		want:  notSupported("spec.instancetype.inferFromVolumeFailurePolicy"),
	},
	{
		why:   "a failure that is an error",
		rule:  "vm/matcher-policy",
		given: vm("spec: {instancetype: {inferFromVolume: v, inferFromVolumeFailurePolicy: Reject}}"),
	},
	{
		why:   "a failure that does not matter",
		rule:  "vm/matcher-policy",
		given: vm("spec: {preference: {inferFromVolume: v, inferFromVolumeFailurePolicy: Ignore}}"),
	},
	{
		why:   "another instancetype with the revision of the one before",
		rule:  "vm/revision-of-another",
		given: vmChange("spec: {instancetype: {name: i, revisionName: r}}", "spec: {instancetype: {name: j}}"),
		want:  invalid("spec.instancetype.revisionName"),
	},
	{
		why:   "another preference with the revision of the one before",
		rule:  "vm/revision-of-another",
		given: vmChange("spec: {preference: {name: p, revisionName: r}}", "spec: {preference: {name: q}}"),
		want:  invalid("spec.preference.revisionName"),
	},
	{
		why:   "another instancetype with a revision of its own",
		rule:  "vm/revision-of-another",
		given: vmChange("spec: {instancetype: {name: i, revisionName: r}}", "spec: {instancetype: {name: j, revisionName: s}}"),
	},
	{
		why:   "another instancetype without a revision",
		rule:  "vm/revision-of-another",
		given: vmChange("spec: {instancetype: {name: i}}", "spec: {instancetype: {name: j}}"),
	},
	{
		why:   "the same instancetype",
		rule:  "vm/revision-of-another",
		given: vmChange("spec: {instancetype: {name: i, revisionName: r}}", "spec: {runStrategy: Always}"),
	},
	{
		why:   "the first instancetype and preference of a VM",
		rule:  "vm/revision-of-another",
		given: vmChange("spec: {runStrategy: Always}", "spec: {instancetype: {name: i, revisionName: r}, preference: {name: p, revisionName: r}}"),
	},
	{
		why:   "a VM that is created with revisions",
		rule:  "vm/revision-of-another",
		given: vm("spec: {instancetype: {name: i, revisionName: r}, preference: {name: p, revisionName: r}}"),
	},
}
