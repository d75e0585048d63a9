package validate_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// The accounts that change objects. A user has no rights of a controller; a launcher and a migrator are controllers, too.
var (
	user       = validate.Account{Name: "user"}
	controller = validate.Account{Name: "controller"}
	updater    = validate.Account{Name: "updater"}
	launcher   = validate.Account{Name: "launcher", Node: "here"}
	migrator   = validate.Account{Name: "migrator"}
	collector  = validate.Account{Name: "collector"}
	handler    = validate.Account{Name: "KubeVirt's handler", Node: "here"}
)

// accounts is a cluster that knows them.
func accounts(limits *config.Limits) {
	limits.Controllers = []string{controller.Name, updater.Name, launcher.Name, migrator.Name, handler.Name}
	limits.Updaters, limits.LiveUpdate = []string{updater.Name}, &config.LiveUpdate{MaxHotplugRatio: 4}
	limits.Launchers = []string{launcher.Name, handler.Name}
	limits.Migrators = []string{migrator.Name, handler.Name}
	limits.KubeVirt = []string{handler.Name}
	limits.Collectors = []string{collector.Name}
}

// unchanging is such a cluster, with rollout strategy Stage.
func unchanging(limits *config.Limits) {
	accounts(limits)
	limits.LiveUpdate = nil
}

// quoting is a VMI with this in its metadata and spec, where TDX guests ask /run/quotes for quotes.
func quoting(fragment string) given {
	return func(t testing.TB, _ config.Limits) field.ErrorList {
		return validate.QuoteSocket(object[v1.VirtualMachineInstance](t, legalVMI, fragment), config.Defaults{QuoteSocket: "/run/quotes"}, config.Newest, nil)
	}
}

// runsWith is a guest that may get more CPUs.
const runsWith = "spec: {domain: {cpu: {sockets: 2, cores: 1, threads: 1, maxSockets: 8}}}"

// Owners of a guest.
const (
	ownedByNone = "metadata: {ownerReferences: []}"
	ownedByPod  = "metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: p}]}"
	ownedByVM   = "metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: u}]}"
	ownedByBoth = `
metadata:
  ownerReferences:
  - {apiVersion: v1, kind: Pod, name: p, uid: p}
  - {apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: u}
`
)
