package validate_test

var schedulingCases = []testCase{
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
		want:  invalid("spec.subdomain"),
	},
	{
		why:   "one label",
		rule:  "placement/subdomain",
		given: spec("subdomain: web"),
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
		why:   "an unknown word",
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
		why:   "an unknown word",
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
		why:    "only the rule about the strategy refuses an unknown strategy",
		rule:   "placement/paused-liveness",
		given:  spec("{startStrategy: Running, livenessProbe: {guestAgentPing: {}}}"),
		others: []string{"placement/start-strategy"},
	},
	{
		why:   "an unknown word",
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
		why:   "an unknown word",
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
	{
		why:   "an underscore",
		rule:  "placement/priority-class",
		given: spec(`priorityClassName: A_b`),
		want:  invalid("spec.priorityClassName"),
	},
	{
		why:   "a name",
		rule:  "placement/priority-class",
		given: spec(`priorityClassName: system-cluster.critical`),
	},
	{
		why:   "a value with a space, a key with two, a value of 64 characters",
		rule:  "placement/node-selector",
		given: spec(`nodeSelector: {zone: a b, "my  key": c, z: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}`),
		want:  invalid("spec.nodeSelector[my  key]", "spec.nodeSelector[z]", "spec.nodeSelector[zone]"),
	},
	{
		why:   "labels of nodes",
		rule:  "placement/node-selector",
		given: spec(`nodeSelector: {topology.kubernetes.io/zone: a, empty: ""}`),
	},
	{
		why:   "a key with a space",
		rule:  "placement/toleration-key",
		given: spec(`tolerations: [{key: a b, operator: Exists}]`),
		want:  invalid("spec.tolerations[0].key"),
	},
	{
		why:   "a key with a prefix",
		rule:  "placement/toleration-key",
		given: spec(`tolerations: [{key: example.com/a, operator: Exists}]`),
	},
	{
		why:   "equal to a value of no taint, also without an operator",
		rule:  "placement/toleration-all",
		given: spec(`tolerations: [{operator: Equal, value: z}, {value: z}]`),
		want:  required("spec.tolerations[0].key", "spec.tolerations[1].key"),
	},
	{
		why:   "any taint",
		rule:  "placement/toleration-all",
		given: spec(`tolerations: [{operator: Exists}]`),
	},
	{
		why:   "a value with a space",
		rule:  "placement/toleration-value",
		given: spec(`tolerations: [{key: a, value: b c}]`),
		want:  invalid("spec.tolerations[0].value"),
	},
	{
		why:   "a value",
		rule:  "placement/toleration-value",
		given: spec(`tolerations: [{key: a, value: b}]`),
	},
	{
		why:   "a value of any",
		rule:  "placement/toleration-no-value",
		given: spec(`tolerations: [{key: a, operator: Exists, value: b}]`),
		want:  forbidden("spec.tolerations[0].value"),
	},
	{
		why:   "no value",
		rule:  "placement/toleration-no-value",
		given: spec(`tolerations: [{key: a, operator: Exists}]`),
	},
	{
		why:   "a time of another effect, or of all",
		rule:  "placement/toleration-seconds",
		given: spec(`tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}, {key: b, operator: Exists, tolerationSeconds: 5}]`),
		want:  forbidden("spec.tolerations[0].tolerationSeconds", "spec.tolerations[1].tolerationSeconds"),
	},
	{
		why:   "a time",
		rule:  "placement/toleration-seconds",
		given: spec(`tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]`),
	},
	{
		why:   "no command",
		rule:  "placement/probe-command",
		given: spec(`livenessProbe: {exec: {command: []}}`),
		want:  required("spec.livenessProbe.exec.command"),
	},
	{
		why:   "a command",
		rule:  "placement/probe-command",
		given: spec(`livenessProbe: {exec: {command: ["true"]}}`),
	},
	{
		why:   "a port above 65535",
		rule:  "placement/probe-port",
		given: spec(`{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, readinessProbe: {tcpSocket: {port: 65536}}}`),
		want:  invalid("spec.readinessProbe.tcpSocket.port"),
	},
	{
		why:   "the last port",
		rule:  "placement/probe-port",
		given: spec(`{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, readinessProbe: {tcpSocket: {port: 65535}}}`),
	},
	{
		why:   "no port",
		rule:  "placement/probe-port",
		given: spec(`{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, readinessProbe: {httpGet: {port: 0}}}`),
		want:  invalid("spec.readinessProbe.httpGet.port"),
	},
	{
		why:   "the first port",
		rule:  "placement/probe-port",
		given: spec(`{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, readinessProbe: {httpGet: {port: 1}}}`),
	},
	{
		why:   "a name that no port has",
		rule:  "placement/probe-port",
		given: spec(`{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, readinessProbe: {httpGet: {port: Web_1}}}`),
		want:  invalid("spec.readinessProbe.httpGet.port"),
	},
	{
		why:   "a name of a port",
		rule:  "placement/probe-port",
		given: spec(`{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, readinessProbe: {httpGet: {port: web}}}`),
	},
	{
		why:  "a name of a header with a space",
		rule: "placement/probe-header",
		given: spec(`{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, ` +
			`readinessProbe: {httpGet: {port: 1, httpHeaders: [{name: X-A, value: a}, {name: X A, value: a}]}}}`),
		want: invalid("spec.readinessProbe.httpGet.httpHeaders[1].name"),
	},
	{
		why:  "a header",
		rule: "placement/probe-header",
		given: spec(`{networks: [{name: a, pod: {}}], domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}, ` +
			`readinessProbe: {httpGet: {port: 1, httpHeaders: [{name: X-A, value: a b}]}}}`),
	},
	{
		why:  "numbers below 0",
		rule: "placement/probe-number",
		given: spec(`livenessProbe: {guestAgentPing: {}, initialDelaySeconds: -1, timeoutSeconds: -1, periodSeconds: -1, ` +
			`successThreshold: -1, failureThreshold: -1}`),
		want: invalid("spec.livenessProbe.initialDelaySeconds", "spec.livenessProbe.timeoutSeconds", "spec.livenessProbe.periodSeconds",
			"spec.livenessProbe.successThreshold", "spec.livenessProbe.failureThreshold"),
	},
	{
		why:   "numbers of 0, which are absent",
		rule:  "placement/probe-number",
		given: spec(`livenessProbe: {guestAgentPing: {}, initialDelaySeconds: 0, timeoutSeconds: 0, periodSeconds: 0, successThreshold: 0, failureThreshold: 0}`),
	},
	{
		why:   "two successes of a liveness probe",
		rule:  "placement/liveness-success",
		given: spec(`livenessProbe: {guestAgentPing: {}, successThreshold: 2}`),
		want:  invalid("spec.livenessProbe.successThreshold"),
	},
	{
		why:   "one success",
		rule:  "placement/liveness-success",
		given: spec(`{livenessProbe: {guestAgentPing: {}, successThreshold: 1}, readinessProbe: {guestAgentPing: {}, successThreshold: 2}}`),
	},
	{
		why:   "less than no time",
		rule:  "placement/grace-period",
		given: spec("terminationGracePeriodSeconds: -1"),
		want:  invalid("spec.terminationGracePeriodSeconds"),
	},
	{
		why:   "no time",
		rule:  "placement/grace-period",
		given: spec("terminationGracePeriodSeconds: 0"),
	},
}
