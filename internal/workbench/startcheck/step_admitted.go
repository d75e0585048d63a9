package startcheck

import (
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
)

// Own words for what steps find. The reasons of Kubernetes, KubeVirt and Kiln begin with a capital letter.
const reasonRefused = "refused"

// findAdmission finds whether admission would refuse the VM. In a cluster of KubeVirt, Kiln's controller writes that into an annotation. A stored VM without
// the annotation was admitted, or is judged in a namespace that Kiln leaves alone.
func findAdmission(o Objects) finding {
	if o.VM.Object == nil {
		return finding{state: Unknown, detail: o.VM.Denied}
	}
	f := finding{state: Done, object: object{"VirtualMachine", o.Name}}
	text := o.VM.Object.Annotations[v1alpha1.AnnotationRefused]
	if text == "" {
		return f
	}
	failure := o.failureOfVM()
	if o.VMI.Object == nil && (failure == nil || strings.Contains(failure.Message, "denied the request")) {
		f.state, f.reason, f.message = Failed, reasonRefused, text
		return f
	}
	f.notes = []string{"Kiln would refuse this VM (annotation " + v1alpha1.AnnotationRefused + "): " + oneLine(text)}
	return f
}
