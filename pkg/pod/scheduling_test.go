package pod

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestScheduling: what the VMI says of its pod is what the pod says.
func TestScheduling(t *testing.T) {
	for _, spec := range []string{
		"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {matchLabels: {a: b}}}]}}",
		"tolerations: [{key: a, operator: Exists}]",
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]",
		"priorityClassName: high",
		"schedulerName: other",
		"dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.1]}",
		"hostname: a, subdomain: b",
	} {
		raw, err := json.Marshal(made(t, input(t, spec)).Spec)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte("{"+spec+"}"), &want); err != nil {
			t.Fatal(err)
		}
		for name := range want {
			if diff := cmp.Diff(want[name], got[name]); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestNodes(t *testing.T) {
	for _, test := range []struct {
		why, spec string
		want      map[string]string
	}{
		{"of the architecture", "architecture: arm64", map[string]string{"kubernetes.io/arch": "arm64"}},
		{"and the labels that the VMI selects", "nodeSelector: {disk: ssd}", map[string]string{"kubernetes.io/arch": "amd64", "disk": "ssd"}},
		{"the VMI knows better", "nodeSelector: {kubernetes.io/arch: arm64}", map[string]string{"kubernetes.io/arch": "arm64"}},
		{"not where passt is missing", "nodeSelector: {kilnvm.io/passt: 'false'}, " + onPodNetwork(", masquerade: {}"),
			map[string]string{"kubernetes.io/arch": "amd64", "kilnvm.io/passt": "true"}},
	} {
		if diff := cmp.Diff(test.want, made(t, input(t, test.spec)).Spec.NodeSelector); diff != "" {
			t.Errorf("%s: %s", test.why, diff)
		}
	}
}

func TestGrace(t *testing.T) {
	for _, test := range []struct {
		why  string
		set  *int64
		want int64
	}{
		{"KubeVirt's default", nil, 45},
		{"the VMI's", new(int64(180)), 195},
		{"the launcher still reports", new(int64(0)), 15},
		{"no number of a mistake", new(int64(-5)), 15},
		{"no overflow", new(int64(math.MaxInt64)), math.MaxInt32},
	} {
		in := input(t, "")
		in.VMI.Spec.TerminationGracePeriodSeconds = test.set
		if got := *made(t, in).Spec.TerminationGracePeriodSeconds; got != test.want {
			t.Errorf("%s: got %d, want %d", test.why, got, test.want)
		}
	}
}

func TestHostname(t *testing.T) {
	for _, test := range []struct{ vmi, spec, want string }{
		{"web", "", "web"},
		{"web.one", "", "web"},
		{"web.one", "hostname: other", "other"},
		{strings.Repeat("a", 62) + "-b", "", strings.Repeat("a", 62)}, // a label does not end in a hyphen
	} {
		in := input(t, test.spec)
		in.VMI.Name = test.vmi
		if got := made(t, in).Spec.Hostname; got != test.want {
			t.Errorf("%s: got '%s', want '%s'", test.vmi, got, test.want)
		}
	}
}

// TestMetadata: labels and annotations of the VMI are the pod's, but those that would act on the pod beyond what the VMI may say.
func TestMetadata(t *testing.T) {
	in := input(t, "")
	in.VMI.Name = strings.Repeat("a", 70)
	in.VMI.Labels = map[string]string{"app": "shop", v1.AppLabel: "forged", v1.CreatedByLabel: "forged", v1alpha1.LabelUninstall: "keep"}
	in.VMI.Annotations = map[string]string{
		"kubernetes.io/ingress-bandwidth": "1M", v1alpha1.AnnotationPins: "{}", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		"container.apparmor.security.beta.kubernetes.io/compute": "unconfined", "cdi.k8s.io/a": "vendor.com/class=0", v1.IgnitionAnnotation: "{}",
		v1.DomainAnnotation: "forged", annotationDefaultNetwork: "forged",
	}
	made := made(t, in)
	labels := map[string]string{"app": "shop", v1.AppLabel: "virt-launcher", v1.CreatedByLabel: string(in.VMI.UID),
		v1.DeprecatedVirtualMachineNameLabel: strings.Repeat("a", 63),
		// sha1sum of the name
		v1.VirtualMachineInstanceIDLabel: strings.Repeat("a", 54) + "-ed6c69d9"}
	if diff := cmp.Diff(labels, made.Labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	annotations := map[string]string{"kubernetes.io/ingress-bandwidth": "1M", v1.DomainAnnotation: in.VMI.Name,
		"kubectl.kubernetes.io/default-container": "compute"}
	if diff := cmp.Diff(annotations, made.Annotations); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
}

func TestProbes(t *testing.T) {
	const timing = "initialDelaySeconds: 5, timeoutSeconds: 3, periodSeconds: 7, successThreshold: 2, failureThreshold: 4"
	for _, test := range []struct {
		why, spec string
		want      corev1.Probe
	}{
		{"by the network", onPodNetwork(", masquerade: {}") + ", readinessProbe: {httpGet: {port: 80, path: /a}, " + timing + "}",
			corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "/a"}}, InitialDelaySeconds: 15,
				TimeoutSeconds: 3, PeriodSeconds: 7, SuccessThreshold: 2, FailureThreshold: 4}},
		{"a command", "readinessProbe: {exec: {command: [cat, --timeout, /a b]}, " + timing + "}",
			corev1.Probe{ProbeHandler: command("/launcher", "probe", "exec", "--timeout", "3", "--", "cat", "--timeout", "/a b"), InitialDelaySeconds: 15,
				TimeoutSeconds: 4, PeriodSeconds: 7, SuccessThreshold: 2, FailureThreshold: 4}},
		{"a ping", "readinessProbe: {guestAgentPing: {}, " + timing + "}",
			corev1.Probe{ProbeHandler: command("/launcher", "probe", "ping", "--timeout", "3"), InitialDelaySeconds: 15, TimeoutSeconds: 4,
				PeriodSeconds: 7, SuccessThreshold: 2, FailureThreshold: 4}},
		{"no overflow", "readinessProbe: {guestAgentPing: {}, initialDelaySeconds: 2147483647, timeoutSeconds: 2147483647}",
			corev1.Probe{ProbeHandler: command("/launcher", "probe", "ping", "--timeout", "2147483647"), InitialDelaySeconds: math.MaxInt32,
				TimeoutSeconds: math.MaxInt32}},
	} {
		t.Run(test.why, func(t *testing.T) {
			if diff := cmp.Diff(&test.want, container(t, input(t, test.spec)).ReadinessProbe); diff != "" {
				t.Error(diff)
			}
			if live := container(t, input(t, strings.ReplaceAll(test.spec, "readinessProbe", "livenessProbe"))).LivenessProbe; !cmp.Equal(&test.want, live) {
				t.Errorf("liveness: %v", live)
			}
		})
	}
}

func command(words ...string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: words}}
}
