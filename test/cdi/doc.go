// Package cdi has Containerized Data Importer (CDI) for test/pods: its controller, its API server with the webhooks, and a program that prints the objects that
// CDI's operator makes for them. Tests build the programs from here:
//
//	go -C test/cdi build -tags cdi -o DIR ./objects ./shell tool
//
// The tag keeps linters and 'go vet' from the program that is linked with packages of CDI: they would compile these packages once more.
//
// It is a module of its own, because the dependencies of CDI are no concern of Kiln's programs.
package cdi
