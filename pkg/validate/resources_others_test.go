package validate_test

import "strings"

// longDomain is legal, but not with the prefix that a ResourceQuota puts before it.
var longDomain = strings.Repeat("a.", 122) + "aa"

var resourcesOthersCases = []testCase{
	{
		why:   "a limit without a domain",
		rule:  "resources/name",
		given: spec(`domain: {resources: {limits: {gpu: '1'}}}`),
		want:  invalid("spec.domain.resources.limits[gpu]"),
	},
	{
		why:   "a request without a domain",
		rule:  "resources/name",
		given: spec(`domain: {resources: {requests: {gpu: '1'}}}`),
		want:  invalid("spec.domain.resources.requests[gpu]"),
	},
	{
		why:   "huge pages of no size",
		rule:  "resources/name",
		given: spec(`domain: {resources: {requests: {hugepages-big: 2Mi}}}`),
		want:  invalid("spec.domain.resources.requests[hugepages-big]"),
	},
	{
		why:   "a name with a space",
		rule:  "resources/name",
		given: spec(`domain: {resources: {limits: {example.org/a b: '1'}}}`),
		want:  invalid("spec.domain.resources.limits[example.org/a b]"),
	},
	{
		why:   "the prefix of quotas",
		rule:  "resources/name",
		given: spec(`domain: {resources: {limits: {requests.example.org/a: '1'}}}`),
		want:  invalid("spec.domain.resources.limits[requests.example.org/a]"),
	},
	{
		why:   "a domain to which quotas cannot put their prefix",
		rule:  "resources/name",
		given: spec("domain: {resources: {limits: {" + longDomain + "/a: '1'}}}"),
		want:  invalid("spec.domain.resources.limits[" + longDomain + "/a]"),
	},
	{
		why:   "the name of a device plugin",
		rule:  "resources/name",
		given: spec(`domain: {resources: {limits: {example.org/a: '1'}}}`),
	},
	{
		why:   "storage",
		rule:  "resources/name",
		given: spec(`domain: {resources: {requests: {ephemeral-storage: 1Gi}}}`),
	},
	{
		why:   "a resource of Kubernetes",
		rule:  "resources/name",
		given: spec(`domain: {resources: {limits: {kubernetes.io/a: '1'}}}`),
	},
	{
		why:   "half a device",
		rule:  "resources/whole",
		given: spec(`domain: {resources: {limits: {example.org/a: 500m}}}`),
		want:  invalid("spec.domain.resources.limits[example.org/a]"),
	},
	{
		why:   "half a device, requested",
		rule:  "resources/whole",
		given: spec(`domain: {resources: {requests: {example.org/a: 500m}, limits: {example.org/a: '1'}}}`),
		want:  invalid("spec.domain.resources.requests[example.org/a]"),
	},
	{
		why:   "two devices",
		rule:  "resources/whole",
		given: spec(`domain: {resources: {limits: {example.org/a: '2'}}}`),
	},
	{
		why:   "a device without a limit",
		rule:  "resources/limit-equal",
		given: spec(`domain: {resources: {requests: {example.org/a: '1'}}}`),
		want:  invalid("spec.domain.resources.requests[example.org/a]"),
	},
	{
		why:   "huge pages without a limit",
		rule:  "resources/limit-equal",
		given: spec(`domain: {resources: {requests: {hugepages-2Mi: 2Mi}}}`),
		want:  invalid("spec.domain.resources.requests[hugepages-2Mi]"),
	},
	{
		why:   "storage without a limit",
		rule:  "resources/limit-equal",
		given: spec(`domain: {resources: {requests: {ephemeral-storage: 1Gi}}}`),
	},
	{
		why:   "fewer devices than the limit",
		rule:  "resources/limit-equal",
		given: spec(`domain: {resources: {requests: {example.org/a: '1'}, limits: {example.org/a: '2'}}}`),
		want:  invalid("spec.domain.resources.requests[example.org/a]"),
	},
	{
		why:   "as many devices as the limit",
		rule:  "resources/limit-equal",
		given: spec(`domain: {resources: {requests: {example.org/a: '2'}, limits: {example.org/a: '2'}}}`),
	},
}
