package validate_test

var placementCases = []testCase{
	{
		why:   "two labels",
		rule:  "placement/hostname",
		given: spec("hostname: web.example"),
		want:  invalid("spec.hostname"),
	},
	{
		why:   "one label",
		rule:  "placement/hostname",
		given: spec("hostname: web"),
	},
	{
		why:   "64 characters",
		rule:  "placement/hostname",
		given: spec("hostname: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
		want:  invalid("spec.hostname"),
	},
	{
		why:   "63 characters",
		rule:  "placement/hostname",
		given: spec("hostname: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
	},
	{
		why:   "an upper-case letter",
		rule:  "placement/subdomain",
		given: spec("subdomain: Example"),
		want:  invalid("spec.subdomain"),
	},
	{
		why:   "two labels",
		rule:  "placement/subdomain",
		given: spec("subdomain: web.example"),
	},
	{
		why:   "an underscore",
		rule:  "placement/service-account",
		given: spec("serviceAccountName: my_account"),
		want:  invalid("spec.serviceAccountName"),
	},
	{
		why:   "a name",
		rule:  "placement/service-account",
		given: spec("serviceAccountName: mine"),
	},
	{
		why:  "another account than the volume's",
		rule: "placement/service-account-volume",
		given: spec(`
serviceAccountName: mine
domain:
  devices: {disks: [{name: a}]}
volumes: [{name: a, serviceAccount: {serviceAccountName: other}}]
`),
		want: invalid("spec.serviceAccountName"),
	},
	{
		why:  "the volume's account",
		rule: "placement/service-account-volume",
		given: spec(`
serviceAccountName: mine
domain:
  devices: {disks: [{name: a}, {name: b}]}
volumes: [{name: a, serviceAccount: {serviceAccountName: mine}}, {name: b, configMap: {name: b}}]
`),
	},
	{
		why:   "a word that is none",
		rule:  "placement/eviction-strategy",
		given: spec("evictionStrategy: Migrate"),
		want:  notSupported("spec.evictionStrategy"),
	},
	{
		why:   "a strategy",
		rule:  "placement/eviction-strategy",
		given: spec("evictionStrategy: LiveMigrate"),
	},
	{
		why:   "a word that is none",
		rule:  "placement/start-strategy",
		given: spec("startStrategy: Running"),
		want:  notSupported("spec.startStrategy"),
	},
	{
		why:   "paused",
		rule:  "placement/start-strategy",
		given: spec("startStrategy: Paused"),
	},
	{
		why:   "a probe would restart the paused guest",
		rule:  "placement/paused-liveness",
		given: spec("{startStrategy: Paused, livenessProbe: {guestAgentPing: {}}}"),
		want:  invalid("spec.startStrategy"),
	},
	{
		why:   "a probe of readiness restarts nothing",
		rule:  "placement/paused-liveness",
		given: spec("{startStrategy: Paused, readinessProbe: {guestAgentPing: {}}}"),
	},
	{
		why:   "a probe of a guest that is not paused",
		rule:  "placement/paused-liveness",
		given: spec("livenessProbe: {guestAgentPing: {}}"),
	},
	{
		why:    "a strategy that is none is refused as such alone",
		rule:   "placement/paused-liveness",
		given:  spec("{startStrategy: Running, livenessProbe: {guestAgentPing: {}}}"),
		others: []string{"placement/start-strategy"},
	},
	{
		why:   "a word that is none",
		rule:  "placement/toleration-operator",
		given: spec("tolerations: [{key: a, operator: In}]"),
		want:  notSupported("spec.tolerations[0].operator"),
	},
	{
		why:   "both operators, and none",
		rule:  "placement/toleration-operator",
		given: spec("tolerations: [{key: a, operator: Equal, value: b}, {key: a, operator: Exists}, {key: a}]"),
	},
	{
		why:   "a word that is none",
		rule:  "placement/toleration-effect",
		given: spec("tolerations: [{key: a}, {key: a, effect: Evict}]"),
		want:  notSupported("spec.tolerations[1].effect"),
	},
	{
		why:   "the effects of taints",
		rule:  "placement/toleration-effect",
		given: spec("tolerations: [{key: a, effect: NoExecute}, {key: a, effect: NoSchedule}, {key: a, effect: PreferNoSchedule}]"),
	},
	{
		why:  "a scheme that kubelet does not speak",
		rule: "placement/probe-scheme",
		given: spec(`
readinessProbe: {httpGet: {port: 80, scheme: FTP}}
domain:
  devices:
    interfaces: [{name: default, masquerade: {}}]
networks: [{name: default, pod: {}}]
`),
		want: notSupported("spec.readinessProbe.httpGet.scheme"),
	},
	{
		why:  "HTTPS",
		rule: "placement/probe-scheme",
		given: spec(`
readinessProbe: {httpGet: {port: 443, scheme: HTTPS}}
domain:
  devices:
    interfaces: [{name: default, masquerade: {}}]
networks: [{name: default, pod: {}}]
`),
	},
	{
		why:   "a probe by network, without the pod's",
		rule:  "placement/probe-network",
		given: spec("{readinessProbe: {httpGet: {port: 80}}, livenessProbe: {tcpSocket: {port: 80}}}"),
		want:  invalid("spec.readinessProbe.httpGet", "spec.livenessProbe.tcpSocket"),
	},
	{
		why:  "the pod's network is one of several",
		rule: "placement/probe-network",
		given: spec(`
readinessProbe: {httpGet: {port: 80}}
domain:
  devices:
    interfaces: [{name: default, masquerade: {}}, {name: other, bridge: {}}]
networks: [{name: default, pod: {}}, {name: other, multus: {networkName: other}}]
`),
	},
	{
		why:   "a probe inside of the guest",
		rule:  "placement/probe-network",
		given: spec("readinessProbe: {exec: {command: [a]}}"),
	},
	{
		why:   "no way",
		rule:  "placement/probe-handler",
		given: spec("readinessProbe: {}"),
		want:  required("spec.readinessProbe"),
	},
	{
		why:   "one way",
		rule:  "placement/probe-handler",
		given: spec("readinessProbe: {guestAgentPing: {}}"),
	},
	{
		why:   "two ways",
		rule:  "placement/probe-handlers",
		given: spec("readinessProbe: {exec: {command: [a]}, guestAgentPing: {}}"),
		want:  forbidden("spec.readinessProbe.guestAgentPing"),
	},
	{
		why:   "a way for each probe",
		rule:  "placement/probe-handlers",
		given: spec("{readinessProbe: {exec: {command: [a]}}, livenessProbe: {guestAgentPing: {}}}"),
	},
}
