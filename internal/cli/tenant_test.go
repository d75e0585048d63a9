package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// administered are what an administrator may read, and a tenant may not.
var administered = []string{"kubevirts", "hostprofiles", "frontendprofiles", "guestpolicies", "deployments"}

// TestATenantIsNotWarnedAtEveryCall: commands about what is in the cluster answer a tenant as far as he may read, and repeat no warning about the rest.
func TestATenantIsNotWarnedAtEveryCall(t *testing.T) {
	t.Parallel()
	of := boots(t, nil)
	for _, args := range [][]string{{"render", "vm/web"}, {"states", "vm/web"}, {"revisions"}, {"catalog", "usage"}} {
		flags := (&apiServer{forbidden: administered}).serve(t, of.vm, of.vmi, of.hardware)
		got := call(t, "", append(args, flags...)...)
		if got.err != nil || got.out+got.errOut == "" || strings.Contains(got.errOut, "Warning") {
			t.Errorf("%q: %v %s\n%s", args, got.err, got.errOut, got.out)
		}
	}
	flags := (&apiServer{forbidden: administered}).serve(t, of.vm, of.vmi, of.hardware)
	if got := call(t, "", append([]string{"validate", "vm/web"}, flags...)...); !strings.Contains(got.errOut, "configuration cannot be read") {
		t.Errorf("a verdict says what it was found without: %v %s", got.err, got.errOut)
	}
}

// TestUsageOfWhatIsInUse: what no VM uses is shown on request.
func TestUsageOfWhatIsInUse(t *testing.T) {
	t.Parallel()
	using := strings.Replace(vm, "medium", "small", 1)
	flags := new(apiServer).serve(t, using, strings.Replace(size, "name: medium", "name: small", 1), strings.Replace(size, "name: medium", "name: large", 1))
	for _, c := range []struct {
		args          []string
		large, counts bool
	}{{nil, false, true}, {[]string{"--all"}, true, false}, {[]string{"large"}, true, false}, {[]string{"-o", "json"}, false, false}} {
		got := call(t, "", append(append([]string{"catalog", "usage"}, c.args...), flags...)...)
		if got.err != nil || strings.Contains(got.out, "/large") != c.large && strings.Contains(got.out, `"large"`) != c.large ||
			strings.Contains(got.errOut, "1 object that no VM uses: --all shows them") != c.counts {
			t.Errorf("%q: %v %s\n%s", c.args, got.err, got.errOut, got.out)
		}
		if c.args != nil && c.args[0] == "-o" && !json.Valid([]byte(got.out)) {
			t.Error(got.out)
		}
	}
}
