package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Right is the least that a role grants: one verb on one resource. As a request it is what somebody did.
type Right struct {
	// Account is a service account of Kiln's namespace.
	Account string
	// Verb, Group and Resource are in the words of roles; a subresource is 'virtualmachines/status'.
	Verb, Group, Resource string
	// Namespace and Name restrict a right; empty means all of them.
	Namespace, Name string
}

// allows reports whether a request needs this right.
func (r Right) allows(request Right) bool {
	return r.Account == request.Account && r.Verb == request.Verb && r.Group == request.Group && r.Resource == request.Resource &&
		(r.Namespace == "" || r.Namespace == request.Namespace) && (r.Name == "" || r.Name == request.Name)
}

// String is such as "kiln-controller: patch kubevirt.io virtualmachines".
func (r Right) String() string {
	text := r.Account + ": " + strings.Join(strings.Fields(r.Verb+" "+r.Group+" "+r.Resource+" "+r.Name), " ")
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// ListsBeside reports whether this is a right to list, and the right to watch the same is among others. Informers list only if the API server does not stream
// lists (feature WatchList). The API servers of the tests stream them.
func (r Right) ListsBeside(others []Right) bool {
	watch := r
	watch.Verb = "watch"
	return r.Verb == "list" && slices.Contains(others, watch)
}

// Unused are the rights that no request needed.
// The end-to-end tests fail for each that their table 'unseen' does not explain.
func Unused(rights, requests []Right) []Right {
	return slices.DeleteFunc(slices.Clone(rights), func(right Right) bool { return slices.ContainsFunc(requests, right.allows) })
}

// Requests are what Kiln's accounts have asked the API server for, each once, and were allowed. Requests in an account's name by somebody else
// do not count.
func (c *Cluster) Requests() ([]Right, error) {
	file, err := os.Open(c.audit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	seen := map[Right]bool{}
	var all []Right
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // the last line may be in the course of being written
		} else if err != nil {
			return nil, err
		}
		request, err := c.recorded(line)
		if err != nil {
			return nil, err
		}
		if request != nil && !seen[*request] {
			seen[*request] = true
			all = append(all, *request)
		}
	}
}

// recorded reads an event of the audit log. It is nil for what asked for no resource, or was not allowed.
func (c *Cluster) recorded(line []byte) (*Right, error) {
	// Fields of audit.k8s.io Event. 'user' is who authenticated; who is impersonated is in another field, impersonatedUser.
	var event struct {
		Verb        string
		User        struct{ Username string }
		ObjectRef   *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		Annotations map[string]string
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return nil, err
	}
	account, ours := strings.CutPrefix(event.User.Username, "system:serviceaccount:"+c.Namespace+":")
	at := event.ObjectRef
	if !ours || at == nil || event.Annotations["authorization.k8s.io/decision"] != "allow" {
		return nil, nil
	}
	resource := at.Resource
	if at.Subresource != "" {
		resource += "/" + at.Subresource
	}
	return &Right{account, event.Verb, at.APIGroup, resource, at.Namespace, at.Name}, nil
}

// Rights are those that the manifests give to Kiln's accounts.
func (c *Cluster) Rights() ([]Right, error) { return RightsOf(c.manifests, c.Namespace) }

// RightsOf returns the rights that manifests give to the service accounts of a namespace.
// Trap: a RoleBinding counts only with a Role of its namespace. One that refers to a ClusterRole gives no rights here, because none of the
// manifests does that.
func RightsOf(manifests []*unstructured.Unstructured, namespace string) (all []Right, err error) {
	rules := map[string][]rbacv1.PolicyRule{}
	for _, object := range manifests {
		if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, err
		}
		rules[object.GetKind()+" "+object.GetNamespace()+" "+object.GetName()] = role.Rules
	}
	for _, object := range manifests {
		if kind := object.GetKind(); kind != "ClusterRoleBinding" && kind != "RoleBinding" {
			continue
		}
		var binding rbacv1.RoleBinding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
			return nil, err
		}
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == namespace {
				all = append(all, granted(subject.Name, object, rules[binding.RoleRef.Kind+" "+object.GetNamespace()+" "+binding.RoleRef.Name])...)
			}
		}
	}
	return all, nil
}

// granted are the rights that a binding gives to an account by rules.
// Rules for URLs (nonResourceURLs) have neither API groups nor resources, and give none.
func granted(account string, binding *unstructured.Unstructured, rules []rbacv1.PolicyRule) (all []Right) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						all = append(all, Right{account, verb, group, resource, binding.GetNamespace(), name})
					}
				}
			}
		}
	}
	return all
}
