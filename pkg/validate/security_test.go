package validate_test

var securityCases = []testCase{
	{
		why:   "arm64 has no memory encryption",
		rule:  "security/encryption-arm64",
		given: spec("{architecture: arm64, domain: {launchSecurity: {sev: {}}}}"),
		want:  invalid("spec.architecture"),
	},
	{
		why:    "v1.8 has a gate for Secure Execution",
		rule:   "security/secure-execution-gate",
		given:  spec("{architecture: s390x, domain: {launchSecurity: {}}}"),
		limits: beside(8),
		want:   forbidden("spec.domain.launchSecurity"),
	},
	{
		why:    "the gate of Secure Execution is on",
		rule:   "security/secure-execution-gate",
		given:  spec("{architecture: s390x, domain: {launchSecurity: {}}}"),
		limits: beside(8, "SecureExecution"),
	},
	{
		why:   "v1.9 has no gate for Secure Execution",
		rule:  "security/secure-execution-gate",
		given: spec("{architecture: s390x, domain: {launchSecurity: {}}}"),
	},
	{
		why:   "nothing is encrypted",
		rule:  "security/encryption-arm64",
		given: spec("architecture: arm64"),
	},
	{
		why:   "on s390x the field marks the guest",
		rule:  "security/encryption-arm64",
		given: spec("{architecture: s390x, domain: {launchSecurity: {}}}"),
	},
	{
		why:   "no kind",
		rule:  "security/encryption-kind",
		given: spec("domain: {launchSecurity: {}}"),
		want:  forbidden("spec.domain.launchSecurity"),
	},
	{
		why:   "two kinds",
		rule:  "security/encryption-kind",
		given: spec("domain: {launchSecurity: {sev: {}, snp: {}}}"),
		want:  forbidden("spec.domain.launchSecurity"),
	},
	{
		why:   "two other kinds",
		rule:  "security/encryption-kind",
		given: spec("domain: {launchSecurity: {snp: {}, tdx: {}}}"),
		want:  forbidden("spec.domain.launchSecurity"),
	},
	{
		why:   "sev",
		rule:  "security/encryption-kind",
		given: spec("domain: {launchSecurity: {sev: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:   "snp",
		rule:  "security/encryption-kind",
		given: spec("domain: {launchSecurity: {snp: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:    "tdx",
		rule:   "security/encryption-kind",
		given:  spec("domain: {launchSecurity: {tdx: {}}, firmware: {bootloader: {efi: {}}}}"),
		limits: gates("WorkloadEncryptionTDX"),
	},
	{
		why:   "the gate of TDX is off",
		rule:  "security/encryption-gate",
		given: spec("domain: {launchSecurity: {tdx: {}}, firmware: {bootloader: {efi: {}}}}"),
		want:  forbidden("spec.domain.launchSecurity.tdx"),
	},
	{
		why:    "the gate of SEV is off, which SNP needs too",
		rule:   "security/encryption-gate",
		given:  spec("domain: {launchSecurity: {snp: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
		limits: gates("-WorkloadEncryptionSEV"),
		want:   forbidden("spec.domain.launchSecurity.snp"),
	},
	{
		why:   "the gate of TDX is no concern of SEV",
		rule:  "security/encryption-gate",
		given: spec("domain: {launchSecurity: {sev: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:   "a guest that runs before its secrets arrive",
		rule:  "security/sev-attestation",
		given: spec("domain: {launchSecurity: {sev: {attestation: {}}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
		want:  invalid("spec.domain.launchSecurity.sev.attestation"),
	},
	{
		why:  "a strategy that is no pause",
		rule: "security/sev-attestation",
		given: spec(`
startStrategy: Later
domain:
  launchSecurity: {sev: {attestation: {}}}
  firmware: {bootloader: {efi: {secureBoot: false}}}
`),
		want: invalid("spec.domain.launchSecurity.sev.attestation"),
	},
	{
		why:  "a guest that starts paused",
		rule: "security/sev-attestation",
		given: spec(`
startStrategy: Paused
domain:
  launchSecurity: {sev: {attestation: {}}}
  firmware: {bootloader: {efi: {secureBoot: false}}}
`),
	},
	{
		why:   "no attestation",
		rule:  "security/sev-attestation",
		given: spec("domain: {launchSecurity: {sev: {policy: {}}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:  "an interface in the boot order",
		rule: "security/encryption-netboot",
		given: spec(`
domain:
  launchSecurity: {sev: {}}
  firmware: {bootloader: {efi: {secureBoot: false}}}
  devices:
    interfaces: [{name: default, masquerade: {}, bootOrder: 1}]
networks: [{name: default, pod: {}}]
`),
		want: invalid("spec.domain.launchSecurity.sev"),
	},
	{
		why:  "an interface that is not booted from",
		rule: "security/encryption-netboot",
		given: spec(`
domain:
  launchSecurity: {sev: {}}
  firmware: {bootloader: {efi: {secureBoot: false}}}
  devices:
    interfaces: [{name: default, masquerade: {}}]
networks: [{name: default, pod: {}}]
`),
	},
	{
		why:    "TDX with SMM",
		rule:   "security/tdx-smm",
		given:  spec("domain: {launchSecurity: {tdx: {}}, features: {smm: {}}, firmware: {bootloader: {efi: {}}}}"),
		limits: gates("WorkloadEncryptionTDX"),
		want:   invalid("spec.domain.launchSecurity.tdx"),
	},
	{
		why:    "TDX without SMM",
		rule:   "security/tdx-smm",
		given:  spec("domain: {launchSecurity: {tdx: {}}, features: {smm: {enabled: false}}, firmware: {bootloader: {efi: {}}}}"),
		limits: gates("WorkloadEncryptionTDX"),
	},
	{
		why:   "SEV with SMM",
		rule:  "security/tdx-smm",
		given: spec("domain: {launchSecurity: {sev: {}}, features: {smm: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:   "no bootloader",
		rule:  "security/encryption-efi",
		given: spec("domain: {launchSecurity: {sev: {}}}"),
		want:  invalid("spec.domain.launchSecurity.sev"),
	},
	{
		why:   "another bootloader",
		rule:  "security/encryption-efi",
		given: spec("domain: {launchSecurity: {sev: {}}, firmware: {bootloader: {bios: {}}}}"),
		want:  invalid("spec.domain.launchSecurity.sev"),
	},
	{
		why:   "EFI",
		rule:  "security/encryption-efi",
		given: spec("domain: {launchSecurity: {sev: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:   "Secure Boot, which is on unless it is off",
		rule:  "security/encryption-secure-boot",
		given: spec("domain: {launchSecurity: {snp: {}}, features: {smm: {}}, firmware: {bootloader: {efi: {}}}}"),
		want:  invalid("spec.domain.launchSecurity.snp"),
	},
	{
		why:   "Secure Boot that is off",
		rule:  "security/encryption-secure-boot",
		given: spec("domain: {launchSecurity: {snp: {}}, firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:    "TDX boots securely",
		rule:   "security/encryption-secure-boot",
		given:  spec("domain: {launchSecurity: {tdx: {}}, firmware: {bootloader: {efi: {secureBoot: true}}}}"),
		limits: gates("WorkloadEncryptionTDX"),
	},
	{
		why:   "SNP with variables that are kept",
		rule:  "security/encryption-persistent",
		given: spec("domain: {launchSecurity: {snp: {}}, firmware: {bootloader: {efi: {secureBoot: false, persistent: true}}}}"),
		want:  invalid("spec.domain.launchSecurity.snp"),
	},
	{
		why:   "variables that are not kept",
		rule:  "security/encryption-persistent",
		given: spec("domain: {launchSecurity: {snp: {}}, firmware: {bootloader: {efi: {secureBoot: false, persistent: false}}}}"),
	},
	{
		why:   "SEV keeps variables",
		rule:  "security/encryption-persistent",
		given: spec("domain: {launchSecurity: {sev: {}}, firmware: {bootloader: {efi: {secureBoot: false, persistent: true}}}}"),
	},
}
