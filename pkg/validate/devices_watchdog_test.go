package validate_test

var devicesWatchdogCases = []testCase{
	{
		why:   "an unknown action of a PC's watchdog",
		rule:  "devices/watchdog-action",
		given: devices("watchdog: {name: w, i6300esb: {action: dump}}"),
		want:  notSupported("spec.domain.devices.watchdog.i6300esb.action"),
	},
	{
		why:   "an action of a PC's watchdog",
		rule:  "devices/watchdog-action",
		given: devices("watchdog: {name: w, i6300esb: {action: poweroff}}"),
	},
	{
		why:   "an unknown action of a mainframe's watchdog",
		rule:  "devices/watchdog-action",
		given: devicesOn("s390x", "watchdog: {name: w, diag288: {action: dump}}"),
		want:  notSupported("spec.domain.devices.watchdog.diag288.action"),
	},
	{
		why:   "an action of a mainframe's watchdog",
		rule:  "devices/watchdog-action",
		given: devicesOn("s390x", "watchdog: {name: w, diag288: {action: shutdown}}"),
	},
	{
		why:   "no action on amd64",
		rule:  "devices/watchdog-action",
		given: devices("watchdog: {name: w, i6300esb: {}}"),
	},
	{
		why:   "no action on s390x",
		rule:  "devices/watchdog-action",
		given: devicesOn("s390x", "watchdog: {name: w, diag288: {}}"),
	},
	{
		why:   "no model on amd64",
		rule:  "devices/watchdog-given",
		given: devices("watchdog: {name: w}"),
		want:  required("spec.domain.devices.watchdog.i6300esb"),
	},
	{
		why:   "no model on s390x",
		rule:  "devices/watchdog-given",
		given: devicesOn("s390x", "watchdog: {name: w}"),
		want:  required("spec.domain.devices.watchdog.diag288"),
	},
	{
		why:    "no model, as long as the architecture is not known",
		rule:   "devices/watchdog-given",
		given:  devicesOn("''", "watchdog: {name: w}"),
		others: []string{"machine/architecture"},
	},
	{
		why:   "a model",
		rule:  "devices/watchdog-given",
		given: devices("watchdog: {name: w, i6300esb: {}}"),
	},
	{
		why:   "a watchdog on arm64",
		rule:  "devices/watchdog-arm64",
		given: devicesOn("arm64", "watchdog: {name: w, i6300esb: {}}"),
		want:  forbidden("spec.domain.devices.watchdog"),
	},
	{
		why:   "no watchdog on arm64",
		rule:  "devices/watchdog-arm64",
		given: devicesOn("arm64", "watchdog: null"),
	},
	{
		why:   "a watchdog on amd64",
		rule:  "devices/watchdog-arm64",
		given: devices("watchdog: {name: w, i6300esb: {}}"),
	},
	{
		why:   "a mainframe's watchdog on amd64",
		rule:  "devices/watchdog-model",
		given: devices("watchdog: {name: w, diag288: {}}"),
		want:  forbidden("spec.domain.devices.watchdog.diag288"),
	},
	{
		why:   "a PC's watchdog on s390x",
		rule:  "devices/watchdog-model",
		given: devicesOn("s390x", "watchdog: {name: w, i6300esb: {}}"),
		want:  forbidden("spec.domain.devices.watchdog.i6300esb"),
	},
	{
		why:   "both on amd64",
		rule:  "devices/watchdog-model",
		given: devices("watchdog: {name: w, i6300esb: {}, diag288: {}}"),
		want:  forbidden("spec.domain.devices.watchdog.diag288"),
	},
	{
		why:   "both on s390x",
		rule:  "devices/watchdog-model",
		given: devicesOn("s390x", "watchdog: {name: w, i6300esb: {}, diag288: {}}"),
		want:  forbidden("spec.domain.devices.watchdog.i6300esb"),
	},
	{
		why:   "a PC's watchdog on amd64",
		rule:  "devices/watchdog-model",
		given: devices("watchdog: {name: w, i6300esb: {}}"),
	},
	{
		why:   "a mainframe's watchdog on s390x",
		rule:  "devices/watchdog-model",
		given: devicesOn("s390x", "watchdog: {name: w, diag288: {}}"),
	},
}
