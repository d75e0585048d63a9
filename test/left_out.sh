#!/bin/sh
# Prints the packages and modules that 'make test' leaves out: the entries of the table below whose paths are as on the main branch. Their tests take minutes
# and rarely fail alone. 'make nightly' runs all of them. On the main branch itself, all are left out.
set -eu
cd "$(dirname "$0")/.."

# A package or module, and the paths that it covers besides its own.
covers() {
	cat <<'EOF'
test/backends     pkg/domain/backend test/libvirt
test/beside       internal/kubevirt internal/review internal/lifecycle pkg/domain/kubevirt manifests/beside-kubevirt manifests/overlays manifests/rbac test/kubevirt
test/catalog      internal/oci internal/site internal/workbench pkg/catalog manifests/catalog
test/controlplane
test/domains      pkg/domain pkg/render pkg/hardware pkg/address test/libvirt
test/frontends    pkg/domain/frontend pkg/domain/backend
test/hooked       internal/kubevirt/hook pkg/domain pkg/record test/libvirt
test/install      manifests certs cmd internal/command internal/oci test/krew docs/how-to/install.md README.md
test/kubevirt     internal/create internal/subresource pkg/domain/kubevirt
test/node         test/cgroups test/controlplane test/installation manifests/images
test/site         docs README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md internal/site internal/browser internal/cli manifests test/corpus
test/virtlauncher test/cgroups test/node test/controlplane test/kubevirt test/cluster test/guest test/installation manifests/beside-kubevirt manifests/images
test/promtool     manifests/alerts manifests/metrics internal/guestmetrics docs/reference/metrics.md
EOF
}

main=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || echo HEAD)
covers | while read -r package paths; do
	for path in $package $paths; do
		[ -e "$path" ] || { echo "left_out.sh: there is no $path" >&2; exit 1; }
	done
	# shellcheck disable=SC2086 # the paths are words
	if git diff --quiet "$main" -- "$package" go.mod $paths; then
		echo "$package"
	fi
done
