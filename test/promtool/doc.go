// Package promtool tries what manifests/alerts has with Prometheus' own code: its parser of rules and queries, its engine, and its
// reader of metrics. It is a module of its own, because none of their dependencies is a concern of Kiln's programs.
package promtool
