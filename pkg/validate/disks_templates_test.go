package validate_test

const (
	// usesBoth is a VM with a volume of CDI and one that is a claim.
	usesBoth = `
spec:
  template:
    spec:
      volumes: [{name: a, dataVolume: {name: a}}, {name: b, persistentVolumeClaim: {claimName: claim}}]
`
	elsewhere = `
spec:
  dataVolumeTemplates: [{metadata: {name: a, namespace: other}, spec: {source: {blank: {}}, storage: {}}}]
  template:
    spec:
      volumes: [{name: a, dataVolume: {name: a}}]
`
)

// templates is a VM that uses a volume that is made with it of this spec. Its name is a, unless metadata says otherwise.
func templates(spec, metadata string) given {
	if metadata == "" {
		metadata = "metadata: {name: a}"
	}
	return vm(usesBoth, "spec: {dataVolumeTemplates: [{"+metadata+", spec: {"+spec+"}}]}")
}

var disksTemplatesCases = []testCase{
	{
		why:   "no name",
		rule:  "disks/template-name",
		given: templates("source: {blank: {}}, storage: {}", "metadata: {name: ''}"),
		want:  required("spec.dataVolumeTemplates[0].metadata.name"),
	},
	{
		why:   "a name",
		rule:  "disks/template-name",
		given: templates("source: {blank: {}}, storage: {}", ""),
	},
	{
		why:   "a volume that nothing uses",
		rule:  "disks/template-unused",
		given: templates("source: {blank: {}}, storage: {}", "metadata: {name: b}"),
		want:  invalid("spec.dataVolumeTemplates[0].metadata.name"),
	},
	{
		why:   "a volume used as one of CDI",
		rule:  "disks/template-unused",
		given: templates("source: {blank: {}}, storage: {}", ""),
	},
	{
		why:   "a volume used as a claim",
		rule:  "disks/template-unused",
		given: templates("source: {blank: {}}, storage: {}", "metadata: {name: claim}"),
	},
	{
		why:   "a VM without a template",
		rule:  "disks/template-unused",
		given: vm("spec: {template: null, dataVolumeTemplates: [{metadata: {name: a}, spec: {source: {blank: {}}, storage: {}}}]}"),
		want:  invalid("spec.dataVolumeTemplates[0].metadata.name"),
	},
	{
		why:   "another namespace",
		rule:  "disks/template-namespace",
		given: templates("source: {blank: {}}, storage: {}", "metadata: {name: a, namespace: other}"),
		want:  invalid("spec.dataVolumeTemplates[0].metadata.namespace"),
	},
	{
		why:   "the VM's namespace",
		rule:  "disks/template-namespace",
		given: templates("source: {blank: {}}, storage: {}", "metadata: {name: a, namespace: default}"),
	},
	{
		why:   "another namespace that was there before",
		rule:  "disks/template-namespace",
		given: vmChange(elsewhere, "metadata: {labels: {a: b}}"),
	},
	{
		why:   "another namespace that comes with an update",
		rule:  "disks/template-namespace",
		given: vmChange(usesBoth, elsewhere),
		want:  invalid("spec.dataVolumeTemplates[0].metadata.namespace"),
	},
	{
		why:   "no size",
		rule:  "disks/template-size",
		given: templates("source: {blank: {}}", ""),
		want:  required("spec.dataVolumeTemplates[0].spec.storage"),
	},
	{
		why:   "the size of a claim",
		rule:  "disks/template-size",
		given: templates("source: {blank: {}}, pvc: {}", ""),
	},
	{
		why:   "the size of storage",
		rule:  "disks/template-size",
		given: templates("source: {blank: {}}, storage: {}", ""),
	},
	{
		why:   "two sizes",
		rule:  "disks/template-sizes",
		given: templates("source: {blank: {}}, storage: {}, pvc: {}", ""),
		want:  forbidden("spec.dataVolumeTemplates[0].spec.pvc"),
	},
	{
		why:   "one size",
		rule:  "disks/template-sizes",
		given: templates("source: {blank: {}}, pvc: {}", ""),
	},
	{
		why:   "a source, and a claim that names what fills it",
		rule:  "disks/template-populated",
		given: templates("source: {blank: {}}, pvc: {dataSource: {kind: K, name: n}}", ""),
		want:  forbidden("spec.dataVolumeTemplates[0].spec.source"),
	},
	{
		why:   "a reference, and storage that names what fills it",
		rule:  "disks/template-populated",
		given: templates("sourceRef: {kind: DataSource, name: n}, storage: {dataSourceRef: {kind: K, name: n}}", ""),
		want:  forbidden("spec.dataVolumeTemplates[0].spec.sourceRef"),
	},
	{
		why:   "a source and a reference, and storage that names what fills it",
		rule:  "disks/template-populated",
		given: templates("source: {blank: {}}, sourceRef: {kind: DataSource, name: n}, storage: {dataSource: {kind: K, name: n}}", ""),
		want:  forbidden("spec.dataVolumeTemplates[0].spec.source"),
	},
	{
		why:   "a claim that names what fills it",
		rule:  "disks/template-populated",
		given: templates("pvc: {dataSource: {kind: K, name: n}}", ""),
	},
	{
		why:   "a claim that refers to what fills it",
		rule:  "disks/template-populated",
		given: templates("pvc: {dataSourceRef: {kind: K, name: n}}", ""),
	},
	{
		why:   "storage that names what fills it",
		rule:  "disks/template-populated",
		given: templates("storage: {dataSource: {kind: K, name: n}}", ""),
	},
	{
		why:   "storage that refers to what fills it",
		rule:  "disks/template-populated",
		given: templates("storage: {dataSourceRef: {kind: K, name: n}}", ""),
	},
	{
		why:   "nothing to start with",
		rule:  "disks/template-source",
		given: templates("storage: {}", ""),
		want:  required("spec.dataVolumeTemplates[0].spec.source"),
	},
	{
		why:   "nothing to start with, and no size",
		rule:  "disks/template-source",
		given: templates("priorityClassName: p", ""),
		want:  required("spec.dataVolumeTemplates[0].spec.source"),
	},
	{
		why:   "a source",
		rule:  "disks/template-source",
		given: templates("source: {blank: {}}, storage: {}", ""),
	},
	{
		why:   "a reference",
		rule:  "disks/template-source",
		given: templates("sourceRef: {kind: DataSource, name: n}, storage: {}", ""),
	},
	{
		why:   "no kind of source",
		rule:  "disks/template-source-empty",
		given: templates("source: {}, storage: {}", ""),
		want:  required("spec.dataVolumeTemplates[0].spec.source"),
	},
	{
		why:   "a kind of source",
		rule:  "disks/template-source-empty",
		given: templates("source: {blank: {}}, storage: {}", ""),
	},
	{
		why:   "two kinds of sources",
		rule:  "disks/template-sources",
		given: templates("source: {blank: {}, http: {url: u}}, storage: {}", ""),
		want:  forbidden("spec.dataVolumeTemplates[0].spec.source.blank"),
	},
	{
		why:   "another kind of source",
		rule:  "disks/template-sources",
		given: templates("source: {http: {url: u}}, storage: {}", ""),
	},
}
