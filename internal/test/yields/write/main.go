// Write makes a copy of the library in which goroutines yield, for the compiler's -overlay.
//
//	go run ./internal/test/yields/write DIR
package main

import (
	"fmt"
	"os"

	"github.com/zklocks/zklocks/internal/test/yields"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: write DIR, from the root of the module")
		os.Exit(2)
	}
	root, err := os.Getwd()
	if err == nil {
		_, err = yields.Write(root, os.Args[1], nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
