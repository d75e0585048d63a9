package validate_test

var podAffinityCases = []testCase{
	{
		why:   "a weight of 0",
		rule:  "placement/pod-weight",
		given: weighted("podAffinity", "{weight: 0, podAffinityTerm: {topologyKey: zone}}"),
		want:  invalid("spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"),
	},
	{
		why:   "a weight of 1",
		rule:  "placement/pod-weight",
		given: weighted("podAffinity", "{weight: 1, podAffinityTerm: {topologyKey: zone}}"),
	},
	{
		why:  "an unknown word",
		rule: "placement/pod-selector",
		given: spec(`
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: zone
      labelSelector: {matchExpressions: [{key: a, operator: Is}]}
`),
		want: invalid("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator"),
	},
	{
		why:  "labels",
		rule: "placement/pod-selector",
		given: spec(`
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}
`),
	},
	{
		why:  "an unknown word",
		rule: "placement/pod-namespace-selector",
		given: spec(`
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: zone
      namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}
`),
		want: invalid("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector.matchExpressions[0].operator"),
	},
	{
		why:  "all namespaces",
		rule: "placement/pod-namespace-selector",
		given: spec(`
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaceSelector: {}}]
`),
	},
	{
		why:  "a name that no namespace has",
		rule: "placement/pod-namespace",
		given: spec(`
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaces: [a, b.example]}]
`),
		want: invalid("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaces[1]"),
	},
	{
		why:  "a name",
		rule: "placement/pod-namespace",
		given: spec(`
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaces: [a]}]
`),
	},
	{
		why:   "no key",
		rule:  "placement/pod-topology-key",
		given: weighted("podAntiAffinity", `{weight: 1, podAffinityTerm: {topologyKey: ""}}`),
		want:  required("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey"),
	},
	{
		why:   "a key of two slashes",
		rule:  "placement/pod-topology-key",
		given: weighted("podAntiAffinity", "{weight: 1, podAffinityTerm: {topologyKey: a/b/c}}"),
		want:  invalid("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey"),
	},
	{
		why:   "a key",
		rule:  "placement/pod-topology-key",
		given: weighted("podAntiAffinity", "{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname}}"),
	},
	{
		why:   "a skew of 0",
		rule:  "placement/spread-skew",
		given: spec("topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"),
		want:  invalid("spec.topologySpreadConstraints[0].maxSkew"),
	},
	{
		why:   "a skew of 1",
		rule:  "placement/spread-skew",
		given: spec("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"),
	},
	{
		why:   "no key",
		rule:  "placement/spread-topology-key",
		given: spec(`topologySpreadConstraints: [{maxSkew: 1, topologyKey: "", whenUnsatisfiable: DoNotSchedule}]`),
		want:  required("spec.topologySpreadConstraints[0].topologyKey"),
	},
	{
		why:   "a key",
		rule:  "placement/spread-topology-key",
		given: spec("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]"),
	},
	{
		why:   "no word",
		rule:  "placement/spread-unsatisfiable",
		given: spec("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone}]"),
		want:  notSupported("spec.topologySpreadConstraints[0].whenUnsatisfiable"),
	},
	{
		why:   "a word",
		rule:  "placement/spread-unsatisfiable",
		given: spec("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"),
	},
	{
		why:  "an unknown word",
		rule: "placement/spread-selector",
		given: spec(`
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: zone
  whenUnsatisfiable: DoNotSchedule
  labelSelector: {matchExpressions: [{key: a, operator: Is}]}
`),
		want: invalid("spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator"),
	},
	{
		why:  "labels",
		rule: "placement/spread-selector",
		given: spec(`
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: zone
  whenUnsatisfiable: DoNotSchedule
  labelSelector: {matchLabels: {a: b}}
`),
	},
	{
		why:  "words that are none",
		rule: "placement/spread-policy",
		given: spec(`
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: zone
  whenUnsatisfiable: DoNotSchedule
  nodeAffinityPolicy: Honour
  nodeTaintsPolicy: honor
`),
		want: notSupported("spec.topologySpreadConstraints[0].nodeAffinityPolicy", "spec.topologySpreadConstraints[0].nodeTaintsPolicy"),
	},
	{
		why:  "words",
		rule: "placement/spread-policy",
		given: spec(`
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: zone
  whenUnsatisfiable: DoNotSchedule
  nodeAffinityPolicy: Honor
  nodeTaintsPolicy: Ignore
`),
	},
	{
		why:  "the last of three counts",
		rule: "placement/spread-twice",
		given: spec(`
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
- {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
- {maxSkew: 3, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
`),
		want: duplicate("spec.topologySpreadConstraints[0]", "spec.topologySpreadConstraints[1]"),
	},
	{
		why:  "one key with both words",
		rule: "placement/spread-twice",
		given: spec(`
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
- {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
`),
	},
	{
		why:  "a value with a space",
		rule: "placement/node-value",
		given: spec(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ` +
			`[{matchExpressions: [{key: a, operator: In, values: [b, c d]}]}]}}}`),
		want: invalid("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[1]"),
	},
	{
		why:  "values",
		rule: "placement/node-value",
		given: spec(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ` +
			`[{matchExpressions: [{key: a, operator: In, values: [b, "", 1.2-c_d]}]}]}}}`),
	},
	{
		why:   "keys without a selector",
		rule:  "placement/pod-label-keys",
		given: spec(`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, matchLabelKeys: [a]}]}}`),
		want:  forbidden("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys"),
	},
	{
		why:  "a key with a space",
		rule: "placement/pod-label-keys",
		given: spec(`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, ` +
			`labelSelector: {}, mismatchLabelKeys: [a b]}]}}`),
		want: invalid("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].mismatchLabelKeys[0]"),
	},
	{
		why:  "a key that is to match, and not to",
		rule: "placement/pod-label-keys",
		given: spec(`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, ` +
			`labelSelector: {}, matchLabelKeys: [b, a], mismatchLabelKeys: [a]}]}}`),
		want: invalid("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[1]"),
	},
	{
		why:  "keys",
		rule: "placement/pod-label-keys",
		given: spec(`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, ` +
			`labelSelector: {}, matchLabelKeys: [b], mismatchLabelKeys: [a]}]}}`),
	},
	{
		why:   "keys without a selector",
		rule:  "placement/spread-label-keys",
		given: spec(`topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a]}]`),
		want:  forbidden("spec.topologySpreadConstraints[0].matchLabelKeys"),
	},
	{
		why:   "keys",
		rule:  "placement/spread-label-keys",
		given: spec(`topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [a]}]`),
	},
	{
		why:   "no domain",
		rule:  "placement/spread-domains",
		given: spec(`topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0}]`),
		want:  invalid("spec.topologySpreadConstraints[0].minDomains"),
	},
	{
		why:   "domains that are only preferred",
		rule:  "placement/spread-domains",
		given: spec(`topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 1}]`),
		want:  invalid("spec.topologySpreadConstraints[0].minDomains"),
	},
	{
		why:   "a domain",
		rule:  "placement/spread-domains",
		given: spec(`topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 1}]`),
	},
}
