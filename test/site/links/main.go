// Program links lists the links of a folder of HTML pages that lead nowhere, and what the pages load from elsewhere. It fails if there are any.
package main

import (
	"fmt"
	"os"

	"github.com/kilnvm/kiln/test/site"
)

func main() {
	pages, dead, err := site.DeadLinks(os.Args[1])
	if err == nil && pages == 0 {
		err = fmt.Errorf("%s has no page", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "links:", err)
		os.Exit(1)
	}
	for _, link := range dead {
		fmt.Println(link)
	}
	fmt.Printf("%d pages, %d dead links\n", pages, len(dead))
	if len(dead) > 0 {
		os.Exit(1)
	}
}
