package validate_test

var affinityCases = []testCase{
	{
		why:   "no term",
		rule:  "placement/node-terms",
		given: spec("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"),
		want:  required("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"),
	},
	{
		why:   "one term",
		rule:  "placement/node-terms",
		given: nodeTerm("matchExpressions: [{key: a, operator: Exists}]"),
	},
	{
		why:   "nothing about nodes",
		rule:  "placement/node-terms",
		given: spec("affinity: {}"),
	},
	{
		why:   "a weight of 0",
		rule:  "placement/node-weight",
		given: weighted("nodeAffinity", "{weight: 0, preference: {matchExpressions: [{key: a, operator: Exists}]}}"),
		want:  invalid("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"),
	},
	{
		why:   "a weight of 101",
		rule:  "placement/node-weight",
		given: weighted("nodeAffinity", "{weight: 101, preference: {matchExpressions: [{key: a, operator: Exists}]}}"),
		want:  invalid("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"),
	},
	{
		why:   "a weight of 1",
		rule:  "placement/node-weight",
		given: weighted("nodeAffinity", "{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}"),
	},
	{
		why:   "a weight of 100",
		rule:  "placement/node-weight",
		given: weighted("nodeAffinity", "{weight: 100, preference: {matchExpressions: [{key: a, operator: Exists}]}}"),
	},
	{
		why:   "an unknown word",
		rule:  "placement/node-operator",
		given: nodeTerm("matchExpressions: [{key: a, operator: Is, values: [b]}]"),
		want:  notSupported("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator"),
	},
	{
		why:   "an operator",
		rule:  "placement/node-operator",
		given: nodeTerm("matchExpressions: [{key: a, operator: NotIn, values: [b]}]"),
	},
	{
		why:   "a key of two slashes",
		rule:  "placement/node-key",
		given: nodeTerm("matchExpressions: [{key: a/b/c, operator: Exists}]"),
		want:  invalid("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key"),
	},
	{
		why:   "nothing before and behind the slash of a key is one mistake",
		rule:  "placement/node-key",
		given: nodeTerm("matchExpressions: [{key: /, operator: Exists}]"),
		want:  invalid("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key"),
	},
	{
		why:   "a key and a value of labels are two",
		rule:  "placement/pod-selector",
		given: spec("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {a b: c d}}}]}}"),
		want: invalid("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels",
			"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels"),
	},
	{
		why:  "two values of a label",
		rule: "placement/pod-selector",
		given: spec("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchExpressions: [" +
			"{key: a, operator: In, values: [c d, c d]}]}}]}}"),
		want: invalid("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values[0]",
			"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values[1]"),
	},
	{
		why:   "a key with a prefix",
		rule:  "placement/node-key",
		given: nodeTerm("matchExpressions: [{key: example.org/a, operator: Exists}]"),
	},
	{
		why:   "'In' without values",
		rule:  "placement/node-values",
		given: nodeTerm("matchExpressions: [{key: a, operator: In}]"),
		want:  required("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values"),
	},
	{
		why:   "'NotIn' without values",
		rule:  "placement/node-values",
		given: nodeTerm("matchExpressions: [{key: a, operator: NotIn}]"),
		want:  required("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values"),
	},
	{
		why:   "'In' one value",
		rule:  "placement/node-values",
		given: nodeTerm("matchExpressions: [{key: a, operator: In, values: [b]}]"),
	},
	{
		why:   "'Exists' with a value",
		rule:  "placement/node-no-values",
		given: nodeTerm("matchExpressions: [{key: a, operator: Exists, values: [b]}]"),
		want:  forbidden("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values"),
	},
	{
		why:   "'DoesNotExist' with a value",
		rule:  "placement/node-no-values",
		given: nodeTerm("matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]"),
		want:  forbidden("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values"),
	},
	{
		why:   "'DoesNotExist' without",
		rule:  "placement/node-no-values",
		given: nodeTerm("matchExpressions: [{key: a, operator: DoesNotExist}]"),
	},
	{
		why:   "'Gt' two values",
		rule:  "placement/node-one-value",
		given: nodeTerm(`matchExpressions: [{key: a, operator: Gt, values: ["1", "2"]}]`),
		want:  required("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values"),
	},
	{
		why:   "'Lt' no value",
		rule:  "placement/node-one-value",
		given: nodeTerm("matchExpressions: [{key: a, operator: Lt}]"),
		want:  required("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values"),
	},
	{
		why:   "'Lt' one value",
		rule:  "placement/node-one-value",
		given: nodeTerm(`matchExpressions: [{key: a, operator: Lt, values: ["1"]}]`),
	},
	{
		why:   "fields know no 'Exists'",
		rule:  "placement/field-operator",
		given: nodeTerm("matchFields: [{key: metadata.name, operator: Exists}]"),
		want:  notSupported("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].operator"),
	},
	{
		why:   "'NotIn'",
		rule:  "placement/field-operator",
		given: nodeTerm("matchFields: [{key: metadata.name, operator: NotIn, values: [a]}]"),
	},
	{
		why:   "two names",
		rule:  "placement/field-values",
		given: nodeTerm("matchFields: [{key: metadata.name, operator: In, values: [a, b]}]"),
		want:  required("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values"),
	},
	{
		why:   "no name",
		rule:  "placement/field-values",
		given: nodeTerm("matchFields: [{key: metadata.name, operator: In}]"),
		want:  required("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values"),
	},
	{
		why:   "one name",
		rule:  "placement/field-values",
		given: nodeTerm("matchFields: [{key: metadata.name, operator: In, values: [a]}]"),
	},
	{
		why:   "another field",
		rule:  "placement/field-key",
		given: nodeTerm("matchFields: [{key: spec.unschedulable, operator: In, values: [yes-please]}]"),
		want:  notSupported("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key"),
	},
	{
		why:   "the name",
		rule:  "placement/field-key",
		given: nodeTerm("matchFields: [{key: metadata.name, operator: In, values: [a]}]"),
	},
	{
		why:   "a name that no node has",
		rule:  "placement/field-value",
		given: nodeTerm("matchFields: [{key: metadata.name, operator: In, values: [a_b]}]"),
		want:  invalid("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values[0]"),
	},
	{
		why:   "a name with dots",
		rule:  "placement/field-value",
		given: nodeTerm("matchFields: [{key: metadata.name, operator: In, values: [a.example]}]"),
	},
}
