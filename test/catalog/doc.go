// Package catalog tries 'kubectl kiln catalog' with the tools of others: the distribution registry over TLS with passwords, oras' command,
// the code by which Flux reads artifacts, cosign's code, and Chromium. It is a module of its own, because none of their dependencies is
// a concern of Kiln's programs.
package catalog
