// Overlay writes the copy of the library whose goroutines yield, and prints the path of the overlay
// for go test. make sim calls it.
package main

import (
	"fmt"
	"os"

	"github.com/zklocks/zklocks/internal/test/patch"
	"github.com/zklocks/zklocks/internal/test/yields"
)

func main() {
	root, err := patch.Root()
	if err == nil {
		var overlay string
		if overlay, err = yields.Write(root, root+"/bin/_yields", nil); err == nil { // with an underscore, so that ./... does not match it
			fmt.Println(overlay)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "overlay:", err)
	os.Exit(1)
}
