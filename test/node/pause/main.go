// Command pause is the process that keeps a pod's namespaces while its containers come and go. It does nothing else: no image of a registry is needed.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
}
