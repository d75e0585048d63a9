package validate_test

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
)

var updatesStatusCases = []testCase{
	{
		why:   "a user writes the status of a guest",
		rule:  "update/status",
		given: vmiStatusChange(user, "", "status: {phase: Running}"),
		want:  forbidden("status"),
	},
	{
		why:   "nothing of the status changes",
		rule:  "update/status",
		given: vmiStatusChange(user, "status: {phase: Running}", "status: {phase: Running}"),
	},
	{
		why:    "a controller writes the status of a guest",
		rule:   "update/status",
		given:  vmiStatusChange(controller, "", "status: {phase: Running}"),
		limits: accounts,
	},
	{
		why:   "the status of a VM",
		rule:  "update/status",
		given: vmStatusChange("", "status: {created: true}"),
		want:  forbidden("status"),
	},
	{
		why:   "nothing of the status of a VM changes",
		rule:  "update/status",
		given: vmStatusChange("status: {created: true}", "metadata: {labels: {a: b}}"),
	},
	{
		why:    "a launcher writes a guest of another node",
		rule:   "update/other-node",
		given:  vmiStatusChange(launcher, "status: {nodeName: there}", "status: {phase: Running}"),
		limits: accounts,
		want:   forbidden("status.nodeName"),
	},
	{
		why:    "a launcher gives a guest to another node",
		rule:   "update/other-node",
		given:  vmiStatusChange(launcher, "", "status: {nodeName: there}"),
		limits: accounts,
		want:   forbidden("status.nodeName"),
	},
	{
		why:    "a launcher writes labels of a guest of another node",
		rule:   "update/other-node",
		given:  vmiChange(launcher, "status: {nodeName: there}", "metadata: {labels: {a: b}}"),
		limits: accounts,
		want:   forbidden("status.nodeName"),
	},
	{
		why:    "a launcher claims a guest for its own node",
		rule:   "update/other-node",
		given:  vmiStatusChange(launcher, "", "status: {nodeName: here}"),
		limits: accounts,
	},
	{
		why:    "KubeVirt's handler takes over a guest that is migrated to its node",
		rule:   "update/other-node",
		given:  vmiStatusChange(handler, "status: {nodeName: there, migrationState: {targetNode: here}}", "status: {nodeName: here}"),
		limits: accounts,
	},
	{
		why:    "a guest that is migrated to another node",
		rule:   "update/other-node",
		given:  vmiStatusChange(handler, "status: {nodeName: there, migrationState: {targetNode: elsewhere}}", "status: {nodeName: here}"),
		limits: accounts,
		want:   forbidden("status.nodeName"),
	},
	{
		why:    "a handler says itself where a guest is migrated to",
		rule:   "update/other-node",
		given:  vmiStatusChange(handler, "status: {nodeName: there}", "status: {migrationState: {targetNode: here}}"),
		limits: accounts,
		want:   forbidden("status.nodeName"),
	},
	{
		why:    "Kiln's launchers migrate nothing",
		rule:   "update/other-node",
		given:  vmiStatusChange(launcher, "status: {nodeName: there, migrationState: {targetNode: here}}", "status: {phase: Running}"),
		limits: accounts,
		want:   forbidden("status.nodeName"),
	},
	{
		why:    "a token that is bound to no node",
		rule:   "update/other-node",
		given:  vmiStatusChange(validate.Account{Name: launcher.Name}, "", "status: {nodeName: there}"),
		limits: accounts,
	},
	{
		why:    "a controller that is no launcher, from a node",
		rule:   "update/other-node",
		given:  vmiStatusChange(validate.Account{Name: controller.Name, Node: "here"}, "", "status: {nodeName: there}"),
		limits: accounts,
	},
	{
		why:    "the cluster restricts no nodes",
		rule:   "update/other-node",
		given:  vmiStatusChange(launcher, "", "status: {nodeName: there}"),
		limits: func(limits *config.Limits) { accounts(limits); gates("-NodeRestriction")(limits) },
	},
	{
		why:    "a controller moves a guest",
		rule:   "update/node",
		given:  vmiStatusChange(controller, "status: {nodeName: here}", "status: {nodeName: there}"),
		limits: accounts,
		want:   forbidden("status.nodeName"),
	},
	{
		why:    "a controller takes a guest from its node",
		rule:   "update/node",
		given:  vmiStatusChange(controller, "status: {nodeName: here}", "status: {nodeName: null}"),
		limits: accounts,
		want:   forbidden("status.nodeName"),
	},
	{
		why:    "a guest that had no node gets one",
		rule:   "update/node",
		given:  vmiStatusChange(controller, "", "status: {nodeName: here}"),
		limits: accounts,
	},
	{
		why:    "a guest stays",
		rule:   "update/node",
		given:  vmiStatusChange(controller, "status: {nodeName: here}", "status: {phase: Running}"),
		limits: accounts,
	},
	{
		why:    "a migration moves a guest",
		rule:   "update/node",
		given:  vmiStatusChange(migrator, "status: {nodeName: here}", "status: {nodeName: there}"),
		limits: accounts,
	},
}
