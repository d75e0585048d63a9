package validate_test

var firmwareKernelCases = []testCase{
	{
		why:   "arguments without a kernel",
		rule:  "firmware/kernel-args",
		given: spec("domain: {firmware: {kernelBoot: {kernelArgs: quiet}}}"),
		want:  invalid("spec.domain.firmware.kernelBoot.kernelArgs"),
	},
	{
		why:   "neither",
		rule:  "firmware/kernel-args",
		given: spec("domain: {firmware: {kernelBoot: {}}}"),
	},
	{
		why:   "no image",
		rule:  "firmware/kernel-image",
		given: spec("domain: {firmware: {kernelBoot: {container: {kernelPath: /boot/vmlinuz}}}}"),
		want:  required("spec.domain.firmware.kernelBoot.container.image"),
	},
	{
		why:   "an image",
		rule:  "firmware/kernel-image",
		given: spec("domain: {firmware: {kernelBoot: {kernelArgs: quiet, container: {image: kernels, kernelPath: /boot/vmlinuz}}}}"),
	},
	{
		why:   "neither kernel nor initrd",
		rule:  "firmware/kernel-files",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels}}}}"),
		want:  required("spec.domain.firmware.kernelBoot.container.kernelPath"),
	},
	{
		why:   "an initrd alone",
		rule:  "firmware/kernel-files",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels, initrdPath: /boot/initrd}}}}"),
	},
	{
		why:   "a kernel alone",
		rule:  "firmware/kernel-files",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels, kernelPath: /boot/vmlinuz}}}}"),
	},
	{
		why:  "an unknown word",
		rule: "firmware/pull-policy",
		given: spec(`
domain:
  firmware:
    kernelBoot: {container: {image: kernels, kernelPath: /boot/vmlinuz, imagePullPolicy: Sometimes}}
`),
		want: notSupported("spec.domain.firmware.kernelBoot.container.imagePullPolicy"),
	},
	{
		why:  "a policy of pods",
		rule: "firmware/pull-policy",
		given: spec(`
domain:
  firmware: {kernelBoot: {container: {image: kernels, kernelPath: /boot/vmlinuz, imagePullPolicy: Never}}}
`),
	},
	{
		why:   "the root directory",
		rule:  "firmware/kernel-path",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels, kernelPath: /}}}}"),
		want:  invalid("spec.domain.firmware.kernelBoot.container.kernelPath"),
	},
	{
		why:   "a way out of the image",
		rule:  "firmware/kernel-path",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels, kernelPath: /boot/../../etc/shadow}}}}"),
		want:  invalid("spec.domain.firmware.kernelBoot.container.kernelPath"),
	},
	{
		why:   "relative to nothing",
		rule:  "firmware/kernel-path",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels, kernelPath: boot/vmlinuz}}}}"),
		want:  invalid("spec.domain.firmware.kernelBoot.container.kernelPath"),
	},
	{
		why:   "a file in the root directory",
		rule:  "firmware/kernel-path",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels, kernelPath: /vmlinuz}}}}"),
	},
	{
		why:   "double slashes",
		rule:  "firmware/initrd-path",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels, initrdPath: //boot/initrd}}}}"),
		want:  invalid("spec.domain.firmware.kernelBoot.container.initrdPath"),
	},
	{
		why:   "a slash at the end is read as none",
		rule:  "firmware/initrd-path",
		given: spec("domain: {firmware: {kernelBoot: {container: {image: kernels, initrdPath: /boot/initrd/}}}}"),
	},
	{
		why:   "a digit too few",
		rule:  "firmware/uuid",
		given: spec("domain: {firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f22}}"),
		want:  invalid("spec.domain.firmware.uuid"),
	},
	{
		why:   "with dashes",
		rule:  "firmware/uuid",
		given: spec("domain: {firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223}}"),
	},
	{
		why:   "without dashes",
		rule:  "firmware/uuid",
		given: spec("domain: {firmware: {uuid: 5d307ca9b3ef428c886106e72d69f223}}"),
	},
	{
		why:   "none",
		rule:  "firmware/uuid",
		given: spec(`domain: {firmware: {uuid: ""}}`),
	},
	{
		why:   "no table",
		rule:  "firmware/acpi-empty",
		given: spec("domain: {firmware: {acpi: {}}}"),
		want:  required("spec.domain.firmware.acpi"),
	},
	{
		why:  "one table",
		rule: "firmware/acpi-empty",
		given: spec(`
domain:
  firmware: {acpi: {slicNameRef: slic}}
  devices: {disks: [{name: slic}]}
volumes: [{name: slic, secret: {secretName: slic}}]
`),
	},
	{
		why:  "the other table",
		rule: "firmware/acpi-empty",
		given: spec(`
domain:
  firmware: {acpi: {msdmNameRef: msdm}}
  devices: {disks: [{name: msdm}]}
volumes: [{name: msdm, secret: {secretName: msdm}}]
`),
	},
	{
		why:   "no such volumes",
		rule:  "firmware/acpi-volume",
		given: spec("domain: {firmware: {acpi: {slicNameRef: slic, msdmNameRef: msdm}}}"),
		want:  notFound("spec.domain.firmware.acpi.slicNameRef", "spec.domain.firmware.acpi.msdmNameRef"),
	},
	{
		why:  "a volume of the name",
		rule: "firmware/acpi-volume",
		given: spec(`
domain:
  firmware: {acpi: {slicNameRef: slic}}
  devices: {disks: [{name: slic}]}
volumes: [{name: slic, secret: {secretName: slic}}]
`),
	},
	{
		why:  "a volume that is no secret",
		rule: "firmware/acpi-secret",
		given: spec(`
domain:
  firmware: {acpi: {msdmNameRef: msdm}}
  devices: {disks: [{name: msdm}]}
volumes: [{name: msdm, configMap: {name: msdm}}]
`),
		want: invalid("spec.domain.firmware.acpi.msdmNameRef"),
	},
	{
		why:  "a volume that is a secret",
		rule: "firmware/acpi-secret",
		given: spec(`
domain:
  firmware: {acpi: {msdmNameRef: msdm}}
  devices: {disks: [{name: msdm}]}
volumes: [{name: other, secret: {secretName: other}}, {name: msdm, secret: {secretName: msdm}}]
`),
		others: []string{"disks/volume-unused"},
	},
}
