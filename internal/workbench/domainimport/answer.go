package domainimport

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Answer is an import as one document.
type Answer struct {
	Report Report `json:"report"`
	// Objects are the claims to fill, the VM and its GuestHardware, in the order in which they are created.
	Objects []map[string]any `json:"objects"`
}

// Answer returns the import as one document.
func (i *Import) Answer() (Answer, error) {
	objects, err := i.Objects()
	answer := Answer{Report: i.Report}
	for _, object := range objects {
		answer.Objects = append(answer.Objects, object.Object)
	}
	return answer, err
}

// Objects returns the claims, the GuestHardware and the VM, in the order in which they are created: the VM would record other hardware if it started first.
func (i *Import) Objects() (objects []*unstructured.Unstructured, err error) {
	var typed []client.Object
	for _, claim := range i.Claims {
		typed = append(typed, claim)
	}
	if i.Hardware != nil {
		typed = append(typed, i.Hardware)
	}
	for _, object := range typed {
		one, err := manifest.OfTyped(object)
		if err != nil {
			return nil, err
		}
		objects = append(objects, one)
	}
	if i.VM != nil {
		objects = append(objects, i.VM)
	}
	return objects, nil
}

// stepsOf says how the claims are filled, and which networks must be there, in the order of the domain.
func stepsOf(i *Import, sources []imported.Source) (steps []string) {
	made := map[string]bool{}
	for _, claim := range i.Claims {
		made[claim.Name] = true
	}
	for _, source := range sources {
		kind, _, _ := strings.Cut(source.Device, ".")
		switch {
		case source.Claim == "" && kind == "interface" && strings.HasPrefix(source.To, "NetworkAttachmentDefinition"):
			steps = append(steps, fmt.Sprintf("%s must exist in the namespace of the VM: it takes the place of '%s'", source.To, source.From))
		case source.Claim == "":
		case kind == "filesystem":
			steps = append(steps, fmt.Sprintf("make claim '%s' and copy the files of %s into it", source.Claim, quoteWord(source.From)))
		case made[source.Claim]:
			steps = append(steps, "fill the claim: virtctl image-upload pvc "+source.Claim+" --no-create --image-path="+quoteWord(source.From))
		default:
			steps = append(steps, "make and fill the claim: virtctl image-upload pvc "+source.Claim+" --size=SIZE --image-path="+quoteWord(source.From))
		}
	}
	return steps
}

// quoteWord quotes a text for a shell. Tenants may have chosen the paths of images.
func quoteWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
