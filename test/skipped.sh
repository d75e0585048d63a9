#!/bin/sh
# Says which tests 'make test' has left out on this machine, from gotestsum's records bin/tests-*.json: it proves nothing about them. The reasons are in
# gotestsum's summaries above. Linux machines without root or cgroups that can be written to skip all tests that need a Kubernetes node, see test/node/require.go.
# Its arguments are the packages that were left out, see left_out.sh.
set -eu
for package; do
	echo "make test: $package was left out, because what it covers is as on the main branch ('make nightly' runs it)"
done
list=$(cat bin/tests-*.json | grep '"Action":"skip"' | sed -n 's/.*"Package":"\([^"]*\)","Test":"\([^"]*\)".*/  \1 \2/p' | sort)
if [ -z "$list" ]; then
	echo "make test: no test was skipped"
	exit 0
fi
echo "make test: $(echo "$list" | wc -l) TESTS WERE SKIPPED ON THIS MACHINE:"
echo "$list"
