package validate_test

var featuresCases = []testCase{
	{
		why:   "arm64 has none of what a PC has",
		rule:  "features/architecture",
		given: spec("{architecture: arm64, domain: {features: {apic: {endOfInterrupt: true}, pvspinlock: {}, hyperv: {relaxed: {}}}}}"),
		want:  forbidden("spec.domain.features.apic.endOfInterrupt", "spec.domain.features.pvspinlock", "spec.domain.features.hyperv"),
	},
	{
		why:   "s390x has none either",
		rule:  "features/architecture",
		given: spec("{architecture: s390x, domain: {features: {hypervPassthrough: {enabled: true}}}}"),
		want:  forbidden("spec.domain.features.hypervPassthrough"),
	},
	{
		why:   "what is off, or empty, is right everywhere",
		rule:  "features/architecture",
		given: spec("{architecture: arm64, domain: {features: {apic: {}, hyperv: {}}}}"),
	},
	{
		why:   "a pass-through that is off",
		rule:  "features/architecture",
		given: spec("{architecture: arm64, domain: {features: {hypervPassthrough: {enabled: false}}}}"),
	},
	{
		why:   "nothing about PCs",
		rule:  "features/architecture",
		given: spec("{architecture: arm64, domain: {features: {acpi: {}}}}"),
	},
	{
		why:   "amd64 has them",
		rule:  "features/architecture",
		given: spec("domain: {features: {apic: {endOfInterrupt: true}, pvspinlock: {}, hyperv: {relaxed: {enabled: true}}}}"),
	},
	{
		why:   "evmcs without vapic",
		rule:  "features/hyperv-needs",
		given: spec("domain: {features: {hyperv: {evmcs: {enabled: true}}}, cpu: {features: [{name: vmx, policy: require}]}}"),
		want:  invalid("spec.domain.features.hyperv.evmcs"),
	},
	{
		why:  "evmcs with vapic",
		rule: "features/hyperv-needs",
		given: spec(`
domain:
  features: {hyperv: {evmcs: {enabled: true}, vapic: {enabled: true}}}
  cpu: {features: [{name: vmx, policy: require}]}
`),
	},
	{
		why:   "what is needed is off",
		rule:  "features/hyperv-needs",
		given: spec("domain: {features: {hyperv: {ipi: {enabled: true}, vpindex: {enabled: false}}}}"),
		want:  invalid("spec.domain.features.hyperv.ipi"),
	},
	{
		why:  "features that are off need nothing",
		rule: "features/hyperv-needs",
		given: spec(`
domain:
  features:
    hyperv:
      ipi: {enabled: false}
      tlbflush: {enabled: false}
      synictimer: {enabled: false}
      synic: {enabled: false}
`),
	},
	{
		why:   "all that need vpindex, without it",
		rule:  "features/hyperv-needs",
		given: spec("domain: {features: {hyperv: {ipi: {enabled: true}, tlbflush: {enabled: true}, synic: {enabled: true}}}}"),
		want:  invalid("spec.domain.features.hyperv.ipi", "spec.domain.features.hyperv.tlbflush", "spec.domain.features.hyperv.synic"),
	},
	{
		why:  "all that need vpindex, with it",
		rule: "features/hyperv-needs",
		given: spec(`
domain:
  features:
    hyperv:
      ipi: {enabled: true}
      tlbflush: {enabled: true}
      synic: {enabled: true}
      vpindex: {enabled: true}
`),
	},
	{
		why:   "synictimer without synic",
		rule:  "features/hyperv-needs",
		given: spec("domain: {features: {hyperv: {synictimer: {enabled: true}, vpindex: {enabled: true}}}}"),
		want:  invalid("spec.domain.features.hyperv.synictimer"),
	},
	{
		why:   "synictimer with synic",
		rule:  "features/hyperv-needs",
		given: spec("domain: {features: {hyperv: {synictimer: {enabled: true}, synic: {enabled: true}, vpindex: {enabled: true}}}}"),
	},
	{
		why:   "a feature that is mentioned is not on explicitly",
		rule:  "features/hyperv-needs",
		given: spec("domain: {features: {hyperv: {ipi: {}}}}"),
	},
	{
		why:   "neither on nor off",
		rule:  "features/hyperv-passthrough-enabled",
		given: spec("domain: {features: {hypervPassthrough: {}}}"),
		want:  required("spec.domain.features.hypervPassthrough.enabled"),
	},
	{
		why:   "off",
		rule:  "features/hyperv-passthrough-enabled",
		given: spec("domain: {features: {hypervPassthrough: {enabled: false}}}"),
	},
	{
		why:   "beside features by name",
		rule:  "features/hyperv-passthrough-alone",
		given: spec("domain: {features: {hypervPassthrough: {enabled: true}, hyperv: {}}}"),
		want:  forbidden("spec.domain.features.hyperv"),
	},
	{
		why:   "alone",
		rule:  "features/hyperv-passthrough-alone",
		given: spec("domain: {features: {hypervPassthrough: {enabled: true}}}"),
	},
	{
		why:   "fewer than libvirt takes",
		rule:  "features/hyperv-spinlocks",
		given: spec("domain: {features: {hyperv: {spinlocks: {spinlocks: 4094}}}}"),
		want:  invalid("spec.domain.features.hyperv.spinlocks.spinlocks"),
	},
	{
		why:   "as many as libvirt takes",
		rule:  "features/hyperv-spinlocks",
		given: spec("domain: {features: {hyperv: {spinlocks: {spinlocks: 4095}}}}"),
	},
	{
		why:   "fewer, and off",
		rule:  "features/hyperv-spinlocks",
		given: spec("domain: {features: {hyperv: {spinlocks: {enabled: false, spinlocks: 1}}}}"),
	},
	{
		why:   "no number",
		rule:  "features/hyperv-spinlocks",
		given: spec("domain: {features: {hyperv: {spinlocks: {enabled: true}}}}"),
	},
	{
		why:   "thirteen bytes",
		rule:  "features/hyperv-vendor-id",
		given: spec("domain: {features: {hyperv: {vendorid: {vendorid: KVMKVMKVMKVMK}}}}"),
		want:  tooLong("spec.domain.features.hyperv.vendorid.vendorid"),
	},
	{
		why:   "twelve bytes",
		rule:  "features/hyperv-vendor-id",
		given: spec("domain: {features: {hyperv: {vendorid: {vendorid: KVMKVMKVMKVM}}}}"),
	},
	{
		why:   "a vendor without a name, which libvirt refuses",
		rule:  "features/hyperv-vendor-id",
		given: spec("domain: {features: {hyperv: {vendorid: {}}}}"),
		want:  required("spec.domain.features.hyperv.vendorid.vendorid"),
	},
	{
		why:   "a comma would end QEMU's option",
		rule:  "features/hyperv-vendor-id",
		given: spec("domain: {features: {hyperv: {vendorid: {vendorid: 'ab,c'}}}}"),
		want:  invalid("spec.domain.features.hyperv.vendorid.vendorid"),
	},
	{
		why:   "XML has no control characters",
		rule:  "features/hyperv-vendor-id",
		given: spec("domain: {features: {hyperv: {vendorid: {vendorid: \"a\\u0001\"}}}}"),
		want:  invalid("spec.domain.features.hyperv.vendorid.vendorid"),
	},
	{
		why:   "blanks, brackets and letters of other languages",
		rule:  "features/hyperv-vendor-id",
		given: spec("domain: {features: {hyperv: {vendorid: {vendorid: 'a <ü'}}}}"),
	},
	{
		why:   "thirteen bytes, and off",
		rule:  "features/hyperv-vendor-id",
		given: spec("domain: {features: {hyperv: {vendorid: {enabled: false, vendorid: KVMKVMKVMKVMK}}}}"),
	},
	{
		why:   "no CPU",
		rule:  "features/evmcs-vmx",
		given: spec("domain: {features: {hyperv: {evmcs: {}}}}"),
		want:  required("spec.domain.cpu"),
	},
	{
		why:   "a CPU without features",
		rule:  "features/evmcs-vmx",
		given: spec("domain: {features: {hyperv: {evmcs: {}}}, cpu: {cores: 1}}"),
		want:  required("spec.domain.cpu.features"),
	},
	{
		why:   "evmcs is off",
		rule:  "features/evmcs-vmx",
		given: spec("domain: {features: {hyperv: {evmcs: {enabled: false}}}}"),
	},
	{
		why:   "vmx is there",
		rule:  "features/evmcs-vmx",
		given: spec("domain: {features: {hyperv: {evmcs: {}}}, cpu: {features: [{name: vmx, policy: require}]}}"),
	},
	{
		why:   "features without Hyper-V",
		rule:  "features/evmcs-vmx",
		given: spec("domain: {features: {acpi: {}}}"),
	},
	{
		why:   "vmx is optional",
		rule:  "features/evmcs-vmx-policy",
		given: spec("domain: {features: {hyperv: {evmcs: {}}}, cpu: {features: [{name: aes}, {name: vmx, policy: optional}]}}"),
		want:  invalid("spec.domain.cpu.features[1].policy"),
	},
	{
		why:  "other features may be optional",
		rule: "features/evmcs-vmx-policy",
		given: spec(`
domain:
  features: {hyperv: {evmcs: {}}}
  cpu: {features: [{name: aes, policy: optional}, {name: vmx, policy: require}]}
`),
	},
}
