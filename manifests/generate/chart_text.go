package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// held matches what stands in an object for the template of a place until the object has become text.
var held = regexp.MustCompile(`kiln-place-\d+-`)

// chartText is the template of one object: its YAML, with an expression at each of its places.
func chartText(o chartObject) (string, error) {
	var templates []string
	for _, p := range places {
		if !p.isOf(o.object) {
			continue
		}
		if err := put(o.object, strings.Split(p.path, "/"), fmt.Sprintf("kiln-place-%d-", len(templates))); err != nil {
			return "", fmt.Errorf("place %s: %w", p.path, err)
		}
		templates = append(templates, p.template)
	}
	common, err := putCommonLabels(o.object, fmt.Sprintf("kiln-place-%d-", len(templates)))
	if err != nil {
		return "", err
	}
	templates = append(templates, common)
	condition, own := conditionOf(o), variableNames(o.object)
	for i := range templates {
		templates[i] = strings.ReplaceAll(templates[i], ownVariables, own)
	}
	overrideNames(o.object)
	stay(o.object)
	document, err := yaml.Marshal(o.object)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(string(document), "{{", `{{ "{{" }}`)) {
		text.WriteString(namespaces(filled(strings.TrimSuffix(line, "\n"), templates)))
		text.WriteString("\n")
	}
	if condition != "" {
		return "{{- if " + condition + " }}\n---\n" + text.String() + "{{- end }}\n", nil
	}
	return "---\n" + text.String(), nil
}

// putCommonLabels puts a token for commonLabels into the metadata of an object, and returns the template there.
func putCommonLabels(object map[string]any, token string) (string, error) {
	if metadata, _ := object["metadata"].(map[string]any); metadata["labels"] == nil {
		return block("labels", ".Values.commonLabels"), put(object, []string{"metadata", "+"}, token)
	}
	return labels(".Values.commonLabels"), put(object, []string{"metadata", "labels", "+"}, token)
}

// ownVariables stands in a template for the names of the variables that the chart sets in a container.
const ownVariables = "OWN_VARIABLES"

// variableNames lists the names of the variables of an object's container as a template has them.
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

// overrideNames puts the value nameOverride into the name of an object that nothing else names, and everywhere into the label by which pods are found.
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

// filled puts the template of a token into its line. A token that is a key without a value, or an item of a list, is a template of several lines
// in their place; '@' in it becomes the indentation of what is below.
func filled(line string, templates []string) string {
	found := held.FindString(line)
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

// namespaces puts expressions for the namespaces, and for failurePolicy, into a line. A name that is a whole value is quoted: '123' is a legal one.
func namespaces(line string) string {
	for name, expression := range map[string]string{
		systemName: `include "kiln.namespace" .`, launchersName: ".Values.launchers.namespace", kubevirtName: `include "kiln.kubevirt-namespace" .`,
		policyName: ".Values.failurePolicy", prefixName: `include "kiln.name" .`,
	} {
		if strings.HasSuffix(line, ": "+name) {
			line = strings.TrimSuffix(line, name) + "{{ " + expression + " | quote }}"
		}
		line = strings.ReplaceAll(line, name, "{{ "+expression+" }}")
	}
	return line
}

// put sets the element of an object that a path names to a token. The last step may be '+', a new key, or '-', a new item of a list; each other step
// must be there: a place that the manifests no longer have is an error. The step '*' is each item of a list, and '~1' in a step is a slash.
func put(node any, path []string, token string) error {
	step, last := strings.ReplaceAll(path[0], "~1", "/"), len(path) == 1
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
		return put(child, path[1:], token)
	case []any:
		for i, item := range node {
			if step != "*" && step != fmt.Sprint(i) {
				continue
			}
			if err := put(item, path[1:], token); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("'%s' is not within a map or a list", step)
}
