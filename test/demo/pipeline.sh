#!/bin/sh
# Shows what Kiln makes of examples/vm.yaml, by bin/kubectl-kiln alone: 'make run' does it before it builds Kubernetes, which takes minutes the first time.
set -eu
cd "$(dirname "$0")/../.."

# show prints a command, and the lines of its output that sed's address selects.
show() {
	lines=$1
	shift
	printf '\n$ kubectl kiln %s\n' "$*"
	{ bin/kubectl-kiln "$@" 2>&1 || true; } | sed -n "${lines}p"
}

echo "What Kiln makes of examples/vm.yaml. The first line of each part is a command that you can repeat with bin in your PATH:"
show 1,12 expand -f examples/vm.yaml --catalog manifests/catalog --stage admitted
show 5,28 explain -f examples/vm.yaml --catalog manifests/catalog
show '/<disk /,/<\/disk>/' render -f examples/vm.yaml --catalog manifests/catalog --stage frontend
show '/<disk /,/<\/disk>/' render -f examples/vm.yaml --catalog manifests/catalog
show 1,5 validate -f examples/conflict.yaml --catalog manifests/catalog
if [ -n "${KUBECONFIG:-}" ] && [ -z "${WEBHOOK_HOST:-}${RUNTIME:-}" ]; then
	printf '\nNext, Kiln is installed beside the KubeVirt of the cluster that KUBECONFIG names.\n\n'
	exit
fi
cat <<END

Next, the same VM is created in a cluster. etcd and Kubernetes are built of their sources, unless they are in the cache: the first time about 8 minutes on two
idle cores, and 5 more for the programs of a node.

END
