package validate_test

var networksBindingsCases = []testCase{
	{
		why:   "no binding",
		rule:  "networks/binding",
		given: onPod("model: virtio"),
		want:  required("spec.domain.devices.interfaces[0]"),
	},
	{
		why:   "a binding",
		rule:  "networks/binding",
		given: onPod("masquerade: {}"),
	},
	{
		why:   "two bindings",
		rule:  "networks/bindings",
		given: onPod("bridge: {}, masquerade: {}"),
		want:  forbidden("spec.domain.devices.interfaces[0].masquerade"),
	},
	{
		why:   "one",
		rule:  "networks/bindings",
		given: onPod("bridge: {}"),
	},
	{
		why:   "slirp",
		rule:  "networks/binding-retired",
		given: onPod("slirp: {}"),
		want:  forbidden("spec.domain.devices.interfaces[0].slirp"),
	},
	{
		why:   "the passt of old",
		rule:  "networks/binding-retired",
		given: onPod("passt: {}"),
		want:  forbidden("spec.domain.devices.interfaces[0].passt"),
	},
	{
		why:   "macvtap",
		rule:  "networks/binding-retired",
		given: onMultus("macvtap: {}"),
		want:  forbidden("spec.domain.devices.interfaces[0].macvtap"),
	},
	{
		why:   "what took their place",
		rule:  "networks/binding-retired",
		given: onMultus("binding: {name: macvtap}"),
	},
	{
		why:   "masquerade on another network",
		rule:  "networks/masquerade-pod",
		given: onMultus("masquerade: {}"),
		want:  invalid("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:   "masquerade without a network",
		rule:  "networks/masquerade-pod",
		given: nics("{name: a, masquerade: {}}", ""),
		want:  invalid("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:   "masquerade on the pod's network",
		rule:  "networks/masquerade-pod",
		given: onPod("masquerade: {}"),
	},
	{
		why:   "a bridge on another network",
		rule:  "networks/masquerade-pod",
		given: onMultus("bridge: {}"),
	},
	{
		why:   "the address of the pod's bridge",
		rule:  "networks/masquerade-mac",
		given: onPod("masquerade: {}, macAddress: '02:00:00:00:00:00'"),
		want:  forbidden("spec.domain.devices.interfaces[0].macAddress"),
	},
	{
		why:   "the address of the pod's bridge, with dashes",
		rule:  "networks/masquerade-mac",
		given: onPod("masquerade: {}, macAddress: '02-00-00-00-00-00'"),
		want:  forbidden("spec.domain.devices.interfaces[0].macAddress"),
	},
	{
		why:   "the address after it",
		rule:  "networks/masquerade-mac",
		given: onPod("masquerade: {}, macAddress: '02:00:00:00:00:01'"),
	},
	{
		why:   "the address of a pod's bridge on a network without such a bridge",
		rule:  "networks/masquerade-mac",
		given: onMultus("bridge: {}, macAddress: '02:00:00:00:00:00'"),
	},
	{
		why:    "a bridge on the pod's network",
		rule:   "networks/bridge-pod",
		given:  onPod("bridge: {}"),
		limits: noBridge,
		want:   forbidden("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:   "a bridge in a cluster that allows it",
		rule:  "networks/bridge-pod",
		given: onPod("bridge: {}"),
	},
	{
		why:    "a bridge on another network",
		rule:   "networks/bridge-pod",
		given:  onMultus("bridge: {}"),
		limits: noBridge,
	},
	{
		why:    "masquerade",
		rule:   "networks/bridge-pod",
		given:  onPod("masquerade: {}"),
		limits: noBridge,
	},
	{
		why:    "passt without the feature gate",
		rule:   "networks/passt-gate",
		given:  onPod("passtBinding: {}"),
		limits: gates("-PasstBinding"),
		want:   forbidden("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:    "passt with the feature gate",
		rule:   "networks/passt-gate",
		given:  onPod("passtBinding: {}"),
		limits: gates("PasstBinding"),
	},
	{
		why:    "passt on another network",
		rule:   "networks/passt-pod",
		given:  onMultus("passtBinding: {}"),
		limits: gates("PasstBinding"),
		want:   invalid("spec.domain.devices.interfaces[0].name"),
	},
	{
		why:    "passt on the pod's network",
		rule:   "networks/passt-pod",
		given:  onPod("passtBinding: {}"),
		limits: gates("PasstBinding"),
	},
}
