#!/bin/sh
# What admission takes of the API server's CPU, by the API server's own profile. Create VMs meanwhile. Needs Go, and the right to read /debug/pprof.
# The metrics of policies cannot say it: API server 1.36 counts validations only when they refuse or fail.
#   manifests/policies/cost.sh [SECONDS]
set -eu
profile=$(mktemp)
trap 'rm -f "$profile"' EXIT
kubectl get --raw "/debug/pprof/profile?seconds=${1:-10}" >"$profile"
go tool pprof -top -cum -nodecount=1000000 -nodefraction=0 "$profile" | awk '
  BEGIN {
    of["policy/validating.(*Plugin).Validate"] = "ValidatingAdmissionPolicies"
    of["webhook/mutating.(*Plugin).Admit"] = "mutating webhooks, with their match conditions"
    of["webhook/validating.(*Plugin).Validate"] = "validating webhooks, with their match conditions"
    of["handlers.(*patcher).patchResource.func2"] = "patches, as of a controller to a status"
  }
  { name = $6; sub(".*/admission/plugin/", "", name); sub(".*/endpoints/", "", name); time[name] = $4; share[name] = $5 }
  END { for (name in of) printf "%8s %7s  %s\n", name in time ? time[name] : "0s", name in share ? share[name] : "0%", of[name] | "sort -k3" }'
