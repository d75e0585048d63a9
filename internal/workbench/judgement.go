package workbench

import "k8s.io/apimachinery/pkg/util/validation/field"

// Judgement is the verdict on an object as a JSON document.
type Judgement struct {
	Object string `json:"object"`
	// File is the file of the object, or the directory of its kustomization; empty for an object of a cluster.
	File string `json:"file,omitempty"`
	// Host is the file of the host that cannot run the object; empty if every host rejects it.
	Host     string   `json:"host,omitempty"`
	Allowed  bool     `json:"allowed"`
	Causes   []Cause  `json:"causes"`
	Warnings []string `json:"warnings"`
	// Inferred are the instancetype and the preference that volumes of a VM recommend.
	Inferred []Inferred `json:"inferred,omitempty"`
}

// Inferred is an instancetype or preference that a volume recommends.
type Inferred struct {
	// Field names the volume.
	Field string `json:"field"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	// Read are the objects that were read, as KIND 'NAMESPACE/NAME'. The last one has the labels that recommend.
	Read []string `json:"read"`
}

// Cause is one reason of a rejection, with the type, field and message of Kubernetes' status causes.
type Cause struct {
	Type    string `json:"type"`
	Field   string `json:"field"`
	Message string `json:"message"`
	// File and Line are the position of the field, or of its nearest parent if the field is missing.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Judgement returns the verdict as a document. Causes and Warnings are never nil.
func (r Reviewed) Judgement() Judgement {
	j := Judgement{Object: r.Name(), File: r.File(), Allowed: r.Verdict.Allowed(), Causes: []Cause{}, Warnings: append([]string{}, r.Verdict.Warnings...)}
	for _, e := range r.Verdict.Errors {
		c := Cause{Type: string(e.Type), Field: e.Field, Message: e.ErrorBody()}
		if at, found := r.Find(e.Field); found {
			c.File, c.Line = at.File, at.Number
		}
		j.Causes = append(j.Causes, c)
	}
	for _, inferred := range r.Inferred {
		one := Inferred{Field: inferred.Path.String(), Kind: inferred.Kind, Name: inferred.Name}
		for _, source := range inferred.Read {
			one.Read = append(one.Read, source.String())
		}
		j.Inferred = append(j.Inferred, one)
	}
	return j
}

// Remedy returns what the user can do if a VM refers to an object that does not exist.
func (r Reviewed) Remedy() string {
	if r.File() != "" {
		return "add the missing object's file with --catalog"
	}
	return "create what it refers to"
}

// Incomplete returns a VM that is Unknown as a rejected one, with a cause for each object that does not exist. The webhook admits such a VM, because the
// objects may be created later; but the guest that it would boot is not known.
func (r Reviewed) Incomplete() Reviewed {
	var causes field.ErrorList
	for _, missing := range r.missing {
		causes = append(causes, notFound(missing, r.Remedy()))
	}
	if len(causes) == 0 {
		causes = append(causes, unresolvedMatchers())
	}
	r.Verdict.Errors = append(r.Verdict.Errors, causes...)
	return r
}
