package validate_test

var securityCredentialsCases = []testCase{
	{
		why:  "both kinds",
		rule: "security/credential-kinds",
		given: spec(`
accessCredentials:
- sshPublicKey:
    source: {secret: {secretName: k}}
    propagationMethod: {qemuGuestAgent: {users: [a]}}
  userPassword: {source: {secret: {secretName: p}}, propagationMethod: {qemuGuestAgent: {}}}
`),
		want: forbidden("spec.accessCredentials[0].userPassword"),
	},
	{
		why:  "a credential of each kind",
		rule: "security/credential-kinds",
		given: spec(`
accessCredentials:
- sshPublicKey:
    source: {secret: {secretName: k}}
    propagationMethod: {qemuGuestAgent: {users: [a]}}
- userPassword: {source: {secret: {secretName: p}}, propagationMethod: {qemuGuestAgent: {}}}
`),
	},
	{
		why:   "keys of a Secret without a name",
		rule:  "security/credential-secret",
		given: spec("accessCredentials: [{sshPublicKey: {source: {secret: {}}, propagationMethod: {qemuGuestAgent: {users: [a]}}}}]"),
		want:  required("spec.accessCredentials[0].sshPublicKey.source.secret.secretName"),
	},
	{
		why:   "passwords of a Secret that climbs",
		rule:  "security/credential-secret",
		given: spec("accessCredentials: [{userPassword: {source: {secret: {secretName: ../a}}, propagationMethod: {qemuGuestAgent: {}}}}]"),
		want:  invalid("spec.accessCredentials[0].userPassword.source.secret.secretName"),
	},
	{
		why:   "keys of a Secret with dots",
		rule:  "security/credential-secret",
		given: spec("accessCredentials: [{sshPublicKey: {source: {secret: {secretName: keys.shop-1}}, propagationMethod: {qemuGuestAgent: {users: [a]}}}}]"),
	},
	{
		why:   "neither kind",
		rule:  "security/credential-kind",
		given: spec("accessCredentials: [{}]"),
		want:  required("spec.accessCredentials[0]"),
	},
	{
		why:  "a key",
		rule: "security/credential-kind",
		given: spec(`
accessCredentials:
- sshPublicKey:
    source: {secret: {secretName: k}}
    propagationMethod: {qemuGuestAgent: {users: [a]}}
`),
	},
	{
		why:   "no secret",
		rule:  "security/password-source",
		given: spec("accessCredentials: [{userPassword: {source: {}, propagationMethod: {qemuGuestAgent: {}}}}]"),
		want:  required("spec.accessCredentials[0].userPassword.source.secret"),
	},
	{
		why:  "a secret",
		rule: "security/password-source",
		given: spec(`
accessCredentials:
- userPassword: {source: {secret: {secretName: p}}, propagationMethod: {qemuGuestAgent: {}}}
`),
	},
	{
		why:   "no way",
		rule:  "security/password-method",
		given: spec("accessCredentials: [{userPassword: {source: {secret: {secretName: p}}, propagationMethod: {}}}]"),
		want:  required("spec.accessCredentials[0].userPassword.propagationMethod.qemuGuestAgent"),
	},
	{
		why:  "the guest agent",
		rule: "security/password-method",
		given: spec(`
accessCredentials:
- userPassword: {source: {secret: {secretName: p}}, propagationMethod: {qemuGuestAgent: {}}}
`),
	},
	{
		why:   "no secret",
		rule:  "security/key-source",
		given: spec("accessCredentials: [{sshPublicKey: {source: {}, propagationMethod: {qemuGuestAgent: {users: [a]}}}}]"),
		want:  required("spec.accessCredentials[0].sshPublicKey.source.secret"),
	},
	{
		why:  "a secret",
		rule: "security/key-source",
		given: spec(`
accessCredentials:
- sshPublicKey:
    source: {secret: {secretName: k}}
    propagationMethod: {qemuGuestAgent: {users: [a]}}
`),
	},
	{
		why:   "by a volume that is not there",
		rule:  "security/key-volume",
		given: spec("accessCredentials: [{sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {noCloud: {}}}}]"),
		want:  invalid("spec.accessCredentials[0].sshPublicKey.propagationMethod.noCloud"),
	},
	{
		why:  "by a volume of the other format",
		rule: "security/key-volume",
		given: spec(`
accessCredentials:
- sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {configDrive: {}}}
domain:
  devices: {disks: [{name: c}]}
volumes: [{name: c, cloudInitNoCloud: {userData: x}}]
`),
		want: invalid("spec.accessCredentials[0].sshPublicKey.propagationMethod.configDrive"),
	},
	{
		why:  "NoCloud has a volume",
		rule: "security/key-volume",
		given: spec(`
accessCredentials:
- sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {noCloud: {}}}
domain:
  devices: {disks: [{name: c}]}
volumes: [{name: c, cloudInitNoCloud: {userData: x}}]
`),
	},
	{
		why:  "a config drive has a volume",
		rule: "security/key-volume",
		given: spec(`
accessCredentials:
- sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {configDrive: {}}}
domain:
  devices: {disks: [{name: c}]}
volumes: [{name: c, cloudInitConfigDrive: {userData: x}}]
`),
	},
	{
		why:  "nobody",
		rule: "security/key-users",
		given: spec(`
accessCredentials:
- sshPublicKey:
    source: {secret: {secretName: k}}
    propagationMethod: {qemuGuestAgent: {users: []}}
`),
		want: required("spec.accessCredentials[0].sshPublicKey.propagationMethod.qemuGuestAgent.users"),
	},
	{
		why:  "one user",
		rule: "security/key-users",
		given: spec(`
accessCredentials:
- sshPublicKey:
    source: {secret: {secretName: k}}
    propagationMethod: {qemuGuestAgent: {users: [a]}}
`),
	},
	{
		why:   "no way",
		rule:  "security/key-method",
		given: spec("accessCredentials: [{sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {}}}]"),
		want:  invalid("spec.accessCredentials[0].sshPublicKey.propagationMethod"),
	},
	{
		why:  "two ways",
		rule: "security/key-method",
		given: spec(`
accessCredentials:
- sshPublicKey:
    source: {secret: {secretName: k}}
    propagationMethod: {noCloud: {}, qemuGuestAgent: {users: [a]}}
domain:
  devices: {disks: [{name: c}]}
volumes: [{name: c, cloudInitNoCloud: {userData: x}}]
`),
		want: invalid("spec.accessCredentials[0].sshPublicKey.propagationMethod"),
	},
	{
		why:  "one way",
		rule: "security/key-method",
		given: spec(`
accessCredentials:
- sshPublicKey:
    source: {secret: {secretName: k}}
    propagationMethod: {qemuGuestAgent: {users: [a]}}
`),
	},
}
