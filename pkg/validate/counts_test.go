package validate_test

import (
	"strings"
)

var countsCases = []testCase{
	{
		why:   "66 lists inside of each other",
		rule:  "request/depth",
		given: raw(strings.Repeat("[", 66) + strings.Repeat("]", 66)),
		want:  forbidden(strings.Repeat("[0]", 65)),
	},
	{
		why:   "65 lists inside of each other",
		rule:  "request/depth",
		given: raw(strings.Repeat("[", 65) + strings.Repeat("]", 65)),
	},
	{
		why:   "a list of 513",
		rule:  "request/elements",
		given: raw(`{"spec":{"volumes":[` + elements(513) + `]}}`),
		want:  tooMany("spec.volumes"),
	},
	{
		why:   "a list of 512",
		rule:  "request/elements",
		given: raw(`{"spec":{"volumes":[` + elements(512) + `]}}`),
	},
	{
		why:   "65 templates of data volumes, in any case",
		rule:  "request/elements",
		given: raw(`{"Spec":{"datavolumetemplates":[` + elements(65) + `]}}`),
		want:  tooMany("Spec.datavolumetemplates"),
	},
	{
		why:   "64 templates of data volumes",
		rule:  "request/elements",
		given: raw(`{"spec":{"dataVolumeTemplates":[` + elements(64) + `]}}`),
	},
	{
		why:   "a list of that name elsewhere",
		rule:  "request/elements",
		given: raw(`{"spec":{"template":{"dataVolumeTemplates":[` + elements(65) + `]}}}`),
	},
	{
		why:   "another list at the same depth",
		rule:  "request/elements",
		given: raw(`{"spec":{"volumes":[` + elements(65) + `]}}`),
	},
	{
		why:   "1025 devices of a record, in any case",
		rule:  "request/elements",
		given: raw(`{"Spec":{"hardware":{"Devices":{` + entries(1025) + `}}}}`),
		want:  tooMany("Spec.hardware.Devices"),
	},
	{
		why:   "1024 devices of a record: controllers and ports are among them",
		rule:  "request/elements",
		given: raw(`{"spec":{"hardware":{"devices":{` + entries(1024) + `}}}}`),
	},
	{
		why:   "another map at the same depth",
		rule:  "request/elements",
		given: raw(`{"spec":{"hardware":{"others":{` + entries(513) + `}}}}`),
		want:  tooMany("spec.hardware.others"),
	},
	{
		why:   "a key with a dot, whose path looks like the path of a record",
		rule:  "request/elements",
		given: raw(`{"spec.hardware":{"devices":{` + entries(513) + `}}}`),
		want:  tooMany("spec.hardware.devices"),
	},
	{
		why:   "the object itself, with no path to name",
		rule:  "request/elements",
		given: raw(`[` + elements(513) + `]`),
		want:  tooMany(""),
	},
	{
		why:   "what is known of a field manager is never decoded",
		rule:  "request/elements",
		given: raw(`{"metadata":{"managedFields":[{"fieldsV1":{"f:spec":[` + elements(513) + `]}}]}}`),
	},
	{
		why:   "an old object may have more",
		rule:  "request/elements",
		given: storedRaw(`{"spec":{"dataVolumeTemplates":[` + elements(513) + `]}}`),
	},
	{
		why:   "16385 parts in lists that are not too long",
		rule:  "request/parts",
		given: raw(parts(16385)),
		want:  tooMany(""),
	},
	{
		why:   "16384 parts in lists that are not too long",
		rule:  "request/parts",
		given: raw(parts(16384)),
	},
	{
		why:    "the first of two mistakes is the answer",
		rule:   "request/parts",
		given:  raw(`{"a":[` + elements(513) + `],"b":[` + elements(600) + `]}`),
		others: []string{"request/elements"},
	},
	{
		why:   "brackets and quotes within texts, after white space",
		rule:  "request/elements",
		given: raw("{ \"a\" :\n[ \"]\", \"\\\"]\", \"\\\\\", {}, \"{[\", " + elements(507) + "] }"),
	},
	{
		why:   "a list too long after texts with brackets and quotes, at a name with an escape",
		rule:  "request/elements",
		given: raw("{\"a\":\"]}\\\\\",\"\\u0062\\\"]\":[\"\\\"\"," + elements(512) + "]}"),
		want:  tooMany("b\"]"),
	},
	{
		why:   "a list too long after a name and a text that are not UTF-8, which encoding/json takes",
		rule:  "request/elements",
		given: raw("{\"\xff\":\"\xc3\",\"b\":[" + elements(513) + "]}"),
		want:  tooMany("b"),
	},
	{
		why:   "a list too long after a name that is there twice, which encoding/json takes",
		rule:  "request/elements",
		given: raw(`{"a":1,"a":2,"b":[` + elements(513) + `]}`),
		want:  tooMany("b"),
	},
	{
		why:   "a list too long inside of the last that is counted",
		rule:  "request/elements",
		given: raw(`{"a":[` + elements(511) + `,[` + elements(513) + `]]}`),
		want:  tooMany("a[511]"),
	},
}
