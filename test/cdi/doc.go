// Package cdi has Containerized Data Importer (CDI) for test/pods: its controller, its API server with the webhooks, and a program that prints the objects that
// CDI's operator makes for them. Tests build the programs from here:
//
//	go -C test/cdi build -o DIR ./objects ./shell tool
//
// It is a module of its own, because the dependencies of CDI are no concern of Kiln's programs.
package cdi
