package cli

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// blockClaim is the claim of guarded.
const blockClaim = `---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: root, namespace: shop}
spec: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 1Gi}}}
`

// TestRenderPod: --stage pod prints the pod of the guest: with the claims of the files, assumed ones otherwise, and with what the flags of the controller
// declare.
func TestRenderPod(t *testing.T) {
	t.Parallel()
	const image = "example.org/launcher:1"
	_, withClaim := write(t, guarded+blockClaim)
	_, without := write(t, guarded)
	for name, c := range map[string]struct {
		args    []string
		devices int
		warned  []string
	}{
		"a block claim":   {[]string{"-f", withClaim, "--launcher-image", image}, 1, []string{"NetworkAttachmentDefinition 'shop/lan'"}},
		"no claim":        {[]string{"-f", without, "--launcher-image", image}, 0, []string{"PersistentVolumeClaim 'root' (volumeMode Filesystem)"}},
		"the runtime too": {[]string{"-f", withClaim, "--launcher-image", image, "--runtime", "pod"}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := call(t, "", append([]string{"render", "--stage", "pod"}, c.args...)...)
			var made corev1.Pod
			if err := yaml.UnmarshalStrict([]byte(got.out), &made); err != nil || got.err != nil {
				t.Fatalf("%v, %v\n%s%s", got.err, err, got.out, got.errOut)
			}
			container := made.Spec.Containers[0]
			if made.Kind != "Pod" || made.Namespace != "shop" || container.Image != image || len(container.VolumeDevices) != c.devices {
				t.Errorf("got %s", got.out)
			}
			for _, words := range c.warned {
				if !strings.Contains(got.errOut, words) {
					t.Errorf("no warning has '%s':\n%s", words, got.errOut)
				}
			}
		})
	}
}

// TestRenderPodRefuses: what no pod gives to the guest is refused with its field, and flags of other stages are refused.
func TestRenderPodRefuses(t *testing.T) {
	t.Parallel()
	_, host := write(t, strings.Replace(guarded, "persistentVolumeClaim: {claimName: root}", "hostDisk: {path: /a.img, type: Disk}", 1))
	_, good := write(t, guarded)
	for _, c := range []struct {
		args   []string
		status int
		words  string
	}{
		{[]string{"-f", host}, 1, "hostDisk"}, {[]string{"-f", good, "-o", "xml"}, 2, "a pod is no XML"}, {[]string{"-f", good, "--documents"}, 2, "--documents"},
		{[]string{"-f", good, "--host", host}, 2, "--host"}, {[]string{"-f", good, "--guest-network", "nat"}, 2, "'passt' or 'slirp'"},
		{[]string{"-f", good, "--runtime", "node"}, 2, "--runtime node"},
	} {
		got := call(t, "", append([]string{"render", "--stage", "pod"}, c.args...)...)
		text := got.out + got.errOut
		if got.err != nil {
			text += got.err.Error()
		}
		if cmdutil.ExitStatus(got.err) != c.status || !strings.Contains(text, c.words) || strings.Contains(got.out, "kind: Pod") {
			t.Errorf("%v: status %d, %s", c.args, cmdutil.ExitStatus(got.err), text)
		}
	}
}
