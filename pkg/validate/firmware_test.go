package validate_test

var firmwareCases = []testCase{
	{
		why:   "arm64 has no BIOS",
		rule:  "firmware/bios-arm64",
		given: spec("{architecture: arm64, domain: {firmware: {bootloader: {bios: {}}}}}"),
		want:  forbidden("spec.domain.firmware.bootloader.bios"),
	},
	{
		why:   "arm64 boots through EFI",
		rule:  "firmware/bios-arm64",
		given: spec("{architecture: arm64, domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}"),
	},
	{
		why:   "a PC has a BIOS",
		rule:  "firmware/bios-arm64",
		given: spec("domain: {firmware: {bootloader: {bios: {}}}}"),
	},
	{
		why:   "s390x has no EFI",
		rule:  "firmware/efi-s390x",
		given: spec("{architecture: s390x, domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}"),
		want:  forbidden("spec.domain.firmware.bootloader.efi"),
	},
	{
		why:   "no bootloader is named",
		rule:  "firmware/efi-s390x",
		given: spec("{architecture: s390x, domain: {firmware: {bootloader: {}}}}"),
	},
	{
		why:   "a PC has EFI",
		rule:  "firmware/efi-s390x",
		given: spec("domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:   "both",
		rule:  "firmware/bootloaders",
		given: spec("domain: {firmware: {bootloader: {efi: {secureBoot: false}, bios: {}}}}"),
		want:  forbidden("spec.domain.firmware.bootloader.bios"),
	},
	{
		why:   "one",
		rule:  "firmware/bootloaders",
		given: spec("domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:   "the other",
		rule:  "firmware/bootloaders",
		given: spec("domain: {firmware: {bootloader: {bios: {}}}}"),
	},
	{
		why:   "no bootloader",
		rule:  "firmware/bootloaders",
		given: spec("domain: {firmware: {serial: x}}"),
	},
	{
		why:   "Secure Boot, with SMM that arm64 does not have",
		rule:  "firmware/secure-boot-arm64",
		given: spec("{architecture: arm64, domain: {firmware: {bootloader: {efi: {secureBoot: true}}}, features: {smm: {}}}}"),
		want:  forbidden("spec.domain.firmware.bootloader.efi.secureBoot"),
	},
	{
		why:   "Secure Boot with SMM, on amd64",
		rule:  "firmware/secure-boot-arm64",
		given: spec("domain: {firmware: {bootloader: {efi: {secureBoot: true}}}, features: {smm: {}}}"),
	},
	{
		why:   "SMM without a word on Secure Boot",
		rule:  "firmware/secure-boot-arm64",
		given: spec("{architecture: arm64, domain: {firmware: {bootloader: {efi: {}}}, features: {smm: {}}}}"),
	},
	{
		why:  "Secure Boot without features is refused for want of SMM",
		rule: "firmware/secure-boot-arm64",
		given: spec(`
architecture: arm64
domain:
  firmware: {bootloader: {efi: {secureBoot: true}}}
  features: {smm: {enabled: false}}
`),
		others: []string{"firmware/secure-boot-smm"},
	},
	{
		why:   "Secure Boot is on unless it is off, and needs SMM",
		rule:  "firmware/secure-boot-smm",
		given: spec("domain: {firmware: {bootloader: {efi: {}}}}"),
		want:  invalid("spec.domain.firmware.bootloader.efi.secureBoot"),
	},
	{
		why:   "SMM that is off",
		rule:  "firmware/secure-boot-smm",
		given: spec("domain: {firmware: {bootloader: {efi: {}}}, features: {smm: {enabled: false}}}"),
		want:  invalid("spec.domain.firmware.bootloader.efi.secureBoot"),
	},
	{
		why:   "SMM that is on",
		rule:  "firmware/secure-boot-smm",
		given: spec("domain: {firmware: {bootloader: {efi: {}}}, features: {smm: {}}}"),
	},
	{
		why:   "Secure Boot that is off",
		rule:  "firmware/secure-boot-smm",
		given: spec("domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}"),
	},
	{
		why:    "a TDX guest measures its firmware",
		rule:   "firmware/secure-boot-smm",
		given:  spec("domain: {firmware: {bootloader: {efi: {}}}, launchSecurity: {tdx: {}}}"),
		limits: gates("WorkloadEncryptionTDX"),
	},
	{
		why:    "v1.8 wants SMM of a TDX guest, too",
		rule:   "firmware/secure-boot-tdx",
		given:  spec("domain: {firmware: {bootloader: {efi: {}}}, launchSecurity: {tdx: {}}}"),
		limits: beside(8, "WorkloadEncryptionTDX"),
		want:   invalid("spec.domain.firmware.bootloader.efi.secureBoot"),
	},
	{
		why:    "a TDX guest without Secure Boot",
		rule:   "firmware/secure-boot-tdx",
		given:  spec("domain: {firmware: {bootloader: {efi: {secureBoot: false}}}, launchSecurity: {tdx: {}}}"),
		limits: beside(8, "WorkloadEncryptionTDX"),
	},
	{
		why:    "v1.9 has no such rule",
		rule:   "firmware/secure-boot-tdx",
		given:  spec("domain: {firmware: {bootloader: {efi: {}}}, launchSecurity: {tdx: {}}}"),
		limits: beside(9, "WorkloadEncryptionTDX"),
	},
	{
		why:    "s390x has no EFI, and is refused for it alone",
		rule:   "firmware/secure-boot-smm",
		given:  spec("{architecture: s390x, domain: {firmware: {bootloader: {efi: {}}}}}"),
		others: []string{"firmware/efi-s390x"},
	},
	{
		why:   "another bootloader",
		rule:  "firmware/secure-boot-smm",
		given: spec("domain: {firmware: {bootloader: {bios: {}}}}"),
	},
	{
		why:   "serial output without a port",
		rule:  "firmware/serial-port",
		given: spec("domain: {firmware: {bootloader: {bios: {useSerial: true}}}, devices: {autoattachSerialConsole: false}}"),
		want:  invalid("spec.domain.firmware.bootloader.bios.useSerial"),
	},
	{
		why:   "serial output with a port",
		rule:  "firmware/serial-port",
		given: spec("domain: {firmware: {bootloader: {bios: {useSerial: true}}}, devices: {autoattachSerialConsole: true}}"),
	},
	{
		why:   "no serial output without a port",
		rule:  "firmware/serial-port",
		given: spec("domain: {firmware: {bootloader: {bios: {useSerial: false}}}, devices: {autoattachSerialConsole: false}}"),
	},
	{
		why:   "s390x has no such firmware",
		rule:  "firmware/serial-s390x",
		given: spec("{architecture: s390x, domain: {firmware: {bootloader: {bios: {useSerial: true}}}}}"),
		want:  forbidden("spec.domain.firmware.bootloader.bios.useSerial"),
	},
	{
		why:   "a PC has",
		rule:  "firmware/serial-s390x",
		given: spec("domain: {firmware: {bootloader: {bios: {useSerial: true}}}}"),
	},
	{
		why:   "EFI without ACPI",
		rule:  "firmware/efi-acpi",
		given: spec("domain: {firmware: {bootloader: {efi: {secureBoot: false}}}, features: {acpi: {enabled: false}}}"),
		want:  invalid("spec.domain.features.acpi.enabled"),
	},
	{
		why:   "EFI with ACPI",
		rule:  "firmware/efi-acpi",
		given: spec("domain: {firmware: {bootloader: {efi: {secureBoot: false}}}, features: {acpi: {enabled: true}}}"),
	},
	{
		why:   "BIOS without ACPI",
		rule:  "firmware/efi-acpi",
		given: spec("domain: {firmware: {bootloader: {bios: {}}}, features: {acpi: {enabled: false}}}"),
	},
	{
		why:  "s390x has neither, and is refused for EFI alone",
		rule: "firmware/efi-acpi",
		given: spec(`
architecture: s390x
domain:
  firmware: {bootloader: {efi: {secureBoot: false}}}
  features: {acpi: {enabled: false}}
`),
		others: []string{"firmware/efi-s390x"},
	},
}
