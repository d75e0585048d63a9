package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/utils"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// tokenForm matches a token: it represents the template of a place in an object until the object is marshalled.
var tokenForm = regexp.MustCompile(`kiln-place-\d+-`)

// tokenOf returns the token of a template.
func tokenOf(template int) string { return fmt.Sprintf("kiln-place-%d-", template) }

// chartText returns the template of one object: its YAML, with an expression at each of its places.
func chartText(o chartObject) (string, error) {
	var templates []string
	for _, p := range places {
		if !p.isOf(o.object) {
			continue
		}
		if err := putToken(o.object, utils.SmarterPathSplitter(p.path, "."), tokenOf(len(templates))); err != nil {
			return "", fmt.Errorf("place %s: %w", p.path, err)
		}
		templates = append(templates, p.template)
	}
	if o.object["kind"] == "NetworkPolicy" {
		if putAPIServers(o.object["spec"], tokenOf(len(templates))) == 0 {
			return "", fmt.Errorf("no peer has the addresses %s of API servers", apiServers)
		}
		templates = append(templates, `{{- include "kiln.api-servers" . | nindent @ }}`)
	}
	common, err := putCommonLabels(o.object, tokenOf(len(templates)))
	if roles := aggregatedTo(o.object); len(roles) > 0 {
		common, err = fmt.Sprintf(`{{- include "kiln.role-labels" (list . %s) | nindent @ }}`, strings.Join(roles, " ")),
			putToken(o.object, []string{"metadata", "labels"}, tokenOf(len(templates)))
	}
	if err != nil {
		return "", err
	}
	templates = append(templates, common)
	condition, own := conditionOf(o), variableNames(o.object)
	for i := range templates {
		templates[i] = strings.ReplaceAll(templates[i], ownVariables, own)
	}
	overrideNames(o.object)
	keepOnUninstall(o.object)
	document, err := yaml.Marshal(o.object)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(string(document), "{{", `{{ "{{" }}`)) {
		text.WriteString(putExpressions(fillLine(strings.TrimSuffix(line, "\n"), templates)))
		text.WriteString("\n")
	}
	if condition != "" {
		return "{{- if " + condition + " }}\n---\n" + text.String() + "{{- end }}\n", nil
	}
	return "---\n" + text.String(), nil
}

// putAPIServers sets each list of peers of a NetworkPolicy that has the addresses of API servers to a token, and returns how many there are.
func putAPIServers(node any, token string) (n int) {
	switch node := node.(type) {
	case map[string]any:
		for key, child := range node {
			if peers, is := child.([]any); is && slices.ContainsFunc(peers, isAPIServer) {
				node[key] = token
				n++
				continue
			}
			n += putAPIServers(child, token)
		}
	case []any:
		for _, item := range node {
			n += putAPIServers(item, token)
		}
	}
	return n
}

func isAPIServer(peer any) bool {
	fields, _ := peer.(map[string]any)
	cidr, _, _ := unstructured.NestedString(fields, "ipBlock", "cidr")
	return cidr == apiServers
}

// putCommonLabels puts a token for commonLabels into the metadata of an object, and returns the template there.
func putCommonLabels(object map[string]any, token string) (string, error) {
	if metadata, _ := object["metadata"].(map[string]any); metadata["labels"] == nil {
		return block("labels", ".Values.commonLabels"), putToken(object, []string{"metadata", "+"}, token)
	}
	return labelsTemplate(".Values.commonLabels"), putToken(object, []string{"metadata", "labels", "+"}, token)
}

// aggregatedTo returns the quoted labels by which a ClusterRole is added to Kubernetes' own roles, sorted. Such roles have no other labels.
func aggregatedTo(object map[string]any) (labels []string) {
	all, _, _ := unstructured.NestedStringMap(object, "metadata", "labels")
	for key := range all {
		if strings.HasPrefix(key, "rbac.authorization.k8s.io/aggregate-to-") {
			labels = append(labels, fmt.Sprintf("%q", key))
		}
	}
	slices.Sort(labels)
	return labels
}

// ownVariables is replaced in templates by the names of the variables that the chart sets in a container.
const ownVariables = "OWN_VARIABLES"

// variableNames returns the quoted names of the variables of an object's containers.
func variableNames(object map[string]any) string {
	var names []string
	containers, _, _ := unstructured.NestedSlice(object, "spec", "template", "spec", "containers")
	for _, container := range containers {
		all, _, _ := unstructured.NestedSlice(container.(map[string]any), "env")
		for _, variable := range all {
			if variable, is := variable.(map[string]any); is {
				names = append(names, fmt.Sprintf("%q", variable["name"]))
			}
		}
	}
	return strings.Join(names, " ")
}

// keepOnUninstall adds the annotation with which Helm keeps an object after an uninstall.
func keepOnUninstall(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	if labels, _ := metadata["labels"].(map[string]any); labels[v1alpha1.LabelUninstall] != "keep" {
		return
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations["helm.sh/resource-policy"] = "keep"
	metadata["annotations"] = annotations
}

// overrideNames applies the value nameOverride to the label that selects pods, and to the names of objects to which no other object refers.
func overrideNames(object map[string]any) {
	if slices.Contains([]string{"Deployment", "DaemonSet", "PodDisruptionBudget"}, fmt.Sprint(object["kind"])) {
		overrideName(object["metadata"].(map[string]any), "name")
	}
	var walk func(node any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			overrideName(node, "app.kubernetes.io/name")
			for _, child := range node {
				walk(child)
			}
		case []any:
			for _, item := range node {
				walk(item)
			}
		}
	}
	walk(object)
}

func overrideName(node map[string]any, key string) {
	if name, is := node[key].(string); is && strings.HasPrefix(name, "kiln-") {
		node[key] = prefixName + strings.TrimPrefix(name, "kiln")
	}
}

// fillLine replaces the token in a line by its template. If the token is the whole key or item, the template may have several lines. '@' in the template
// becomes the indentation of the lines below.
func fillLine(line string, templates []string) string {
	found := tokenForm.FindString(line)
	if found == "" {
		return line
	}
	var number int
	if _, err := fmt.Sscanf(found, "kiln-place-%d-", &number); err != nil {
		panic(err) // the expression above matched
	}
	template := templates[number]
	indent := len(line) - len(strings.TrimLeft(line, " "))
	trimmed := line[indent:]
	if trimmed != "- "+found && trimmed != found+`: ""` {
		return strings.ReplaceAll(line, found, strings.ReplaceAll(template, "@", fmt.Sprint(indent+2)))
	}
	lines := strings.Split(strings.ReplaceAll(template, "@", fmt.Sprint(indent+2)), "\n")
	for i := range lines {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return strings.Join(lines, "\n")
}

// putExpressions replaces the names of namespaces and of other values in a line by expressions. It quotes a name that is the whole value, because '123' is a
// legal name.
func putExpressions(line string) string {
	for name, expression := range map[string]string{
		systemName: `include "kiln.namespace" .`, launchersName: ".Values.launchers.namespace", kubevirtName: `include "kiln.kubevirt-namespace" .`,
		policyName: ".Values.failurePolicy", prefixName: `include "kiln.name" .`, metricsName: ".Values.networkPolicy.metricsNamespace",
	} {
		if strings.HasSuffix(line, ": "+name) {
			line = strings.TrimSuffix(line, name) + "{{ " + expression + " | quote }}"
		}
		line = strings.ReplaceAll(line, name, "{{ "+expression+" }}")
	}
	return line
}

// putToken sets the element at a path to a token. The path has the format of kustomize's field paths. Its last step may be '+' for a new key, or '-' for a new
// item of a list. In a list, '*' is each item and [name=NAME] the item of that name; indexes are refused. putToken fails if a step does not exist, because
// then the manifests have changed.
func putToken(node any, path []string, token string) error {
	step, last := path[0], len(path) == 1
	switch node := node.(type) {
	case map[string]any:
		if last && step == "+" {
			node[token] = ""
			return nil
		}
		child, found := node[step]
		if !found {
			return fmt.Errorf("there is no '%s'", step)
		}
		if last {
			node[step] = token
			return nil
		}
		if list, ok := child.([]any); ok && path[1] == "-" {
			node[step] = append(list, token)
			return nil
		}
		return putToken(child, path[1:], token)
	case []any:
		if last {
			return fmt.Errorf("'%s' must be followed by a field of the item", step)
		}
		items, err := itemsOf(node, step)
		for _, item := range items {
			err = errors.Join(err, putToken(item, path[1:], token))
		}
		return err
	}
	return fmt.Errorf("'%s' is not within a map or a list", step)
}

// itemsOf returns the items of a list that a step of a path selects.
func itemsOf(list []any, step string) (items []any, err error) {
	if step == "*" {
		return list, nil
	}
	key, value, err := kyaml.SplitIndexNameValue(step)
	if err != nil {
		return nil, fmt.Errorf("'%s' must be '*' or '[name=NAME]' in a list", step)
	}
	for _, item := range list {
		if fields, is := item.(map[string]any); is && fields[key] == value {
			items = append(items, item)
		}
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("there is no item %s", step)
	}
	return items, nil
}
