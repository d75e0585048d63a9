package cluster

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
)

// Access returns the kubeconfig of a service account of Kiln's namespace. Requests of these accounts are in the audit log.
func (c *Cluster) Access(account string) (string, error) { return c.access(account) }

// AuditAnnotations returns the annotations of all audit events about an object of a namespace. A later event overwrites the annotations of an earlier one.
func (c *Cluster) AuditAnnotations(namespace, name string) (map[string]string, error) {
	file, err := os.Open(c.audit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := map[string]string{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20) // an event with annotations at their bounds
	for lines.Scan() {
		var event struct {
			ObjectRef   *struct{ Namespace, Name string }
			Annotations map[string]string
		}
		if !strings.Contains(lines.Text(), name) || json.Unmarshal(lines.Bytes(), &event) != nil || event.ObjectRef == nil {
			continue // the last line may be in the course of being written
		}
		if event.ObjectRef.Namespace == namespace && event.ObjectRef.Name == name {
			maps.Copy(all, event.Annotations)
		}
	}
	return all, lines.Err()
}

// About returns what Kiln's accounts have asked the API server for about objects of one name in a namespace, and events about them, in the order of the
// answers: such as 'kiln-controller patch virtualmachines/status'. Requests that failed are among them, with their code.
func (c *Cluster) About(namespace, name string) (all []string, err error) {
	file, err := os.Open(c.audit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var event struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Namespace, Name, Resource, Subresource string }
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue // the last line may be in the course of being written
		}
		of := event.ObjectRef
		if of.Namespace != namespace || of.Name != name && !(of.Resource == "events" && strings.HasPrefix(of.Name, name+".")) {
			continue
		}
		_, account, _ := strings.Cut(event.User.Username, "system:serviceaccount:"+c.Namespace+":")
		request := cmp.Or(account, event.User.Username) + " " + event.Verb + " " + of.Resource
		if of.Subresource != "" {
			request += "/" + of.Subresource
		}
		if event.ResponseStatus.Code >= 300 {
			request += fmt.Sprintf(" (%d)", event.ResponseStatus.Code)
		}
		all = append(all, request)
	}
	return all, lines.Err()
}
