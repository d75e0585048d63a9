package domainimport

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/imported"
)

// Step is what somebody must do before the VM can start.
type Step struct {
	Text string `json:"text"`
	// Command does it; empty if there is no one command.
	Command string `json:"command,omitempty"`
}

// String returns the step in one line.
func (s Step) String() string { return joinWords(": ", s.Text, s.Command) }

// stepsOf says what must be done before a made VM can start, in this order: create the objects, fill the claims, make networks, start the VM. secrets are the
// steps of secretSteps.
func stepsOf(i *Import, sources []imported.Source, secrets []Step, o Options) []Step {
	var steps []Step
	if !o.Apply {
		steps = []Step{{Text: "create the objects as an administrator, because only administrators, backup accounts and restores may create a GuestHardware"}}
	}
	made := map[string]bool{}
	for _, claim := range i.Claims {
		made[claim.Name] = true
	}
	steps = append(steps, secrets...)
	for _, source := range sources {
		kind, _, _ := strings.Cut(source.Device, ".")
		switch {
		case source.Claim == "" && kind == "interface" && strings.HasPrefix(source.To, "NetworkAttachmentDefinition"):
			steps = append(steps, Step{Text: fmt.Sprintf("%s must exist in the namespace of the VM: it takes the place of '%s'", source.To, source.From)})
		case source.Claim == "":
		case kind == "filesystem":
			steps = append(steps, Step{Text: fmt.Sprintf("make claim '%s' and copy the files of %s into it", source.Claim, quoteWord(source.From))})
		default:
			steps = append(steps, fillStep(source, made[source.Claim], o))
		}
	}
	return append(steps, Step{"start the VM", "virtctl start " + i.VM.GetName() + namespaceFlag(o)})
}

// fillStep says how the claim of a disk is filled. virtctl reads only files and devices: an image on the network must be copied first.
func fillStep(source imported.Source, made bool, o Options) Step {
	text, size := "fill the claim", " --no-create"
	if !made {
		text, size = "make and fill the claim", " --size=SIZE"
	}
	from := quoteWord(source.From)
	if source.From == "" {
		return Step{Text: fmt.Sprintf("make claim '%s': the drive has no image", source.Claim)}
	}
	if !strings.HasPrefix(source.From, "/") {
		text += fmt.Sprintf(" with a copy of %s in a file, which 'qemu-img convert' makes", from)
		from = "FILE"
	}
	return Step{text, "virtctl image-upload pvc " + source.Claim + namespaceFlag(o) + size + " --image-path=" + from}
}

// namespaceFlag returns the flag of a command for the namespace of the VM; empty if the user named none.
func namespaceFlag(o Options) string {
	if o.Namespace == "" {
		return ""
	}
	return " -n " + o.Namespace
}

// secretSteps names the secrets of libvirt without which nobody can read a disk of the domain. libvirt never writes their values into the XML.
func secretSteps(root *imported.Element) (steps []Step) {
	for _, device := range deviceElements(root) {
		if device.Name != "disk" {
			continue
		}
		name := device.Child("target").Attribute("dev")
		visitSecrets(device, "", func(purpose, secret string) {
			text := "the host reads disk '%s' with libvirt's secret '%s': copy the image on the host, because the VM reads a claim without this secret"
			if purpose == "encryption" {
				text = "the image of disk '%s' is encrypted with libvirt's secret '%s': decrypt the image with 'qemu-img convert' on the host before the claim is filled"
			}
			steps = append(steps, Step{Text: fmt.Sprintf(text, name, secret)})
		})
	}
	return steps
}

// deviceElements returns the devices of a domain, which may have none.
func deviceElements(root *imported.Element) []*imported.Element {
	if devices := root.Child("devices"); devices != nil {
		return devices.Children
	}
	return nil
}

// visitSecrets calls visit for each secret below an element, with the name of the element that has the secret. A secret is named by UUID or by usage. It leaves
// out the images below an image, which have the same secrets.
func visitSecrets(element *imported.Element, parent string, visit func(purpose, secret string)) {
	if element.Name == "secret" {
		visit(parent, joinWords(" ", element.Attribute("uuid"), element.Attribute("usage")))
		return
	}
	for _, child := range element.Children {
		if child.Name != "backingStore" && child.Name != "mirror" {
			visitSecrets(child, element.Name, visit)
		}
	}
}

// quoteWord quotes a text for a shell. Tenants may have chosen the paths of images.
func quoteWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
