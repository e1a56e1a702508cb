package crew

import "fmt"

// Node is a node of a tree, with what a walk has recorded there.
type Node struct {
	Name  string
	Kids  []*Node
	Size  int    // after Add with the sizes of all children
	By    string // the goroutine that visited it
	Holds int    // that goroutine's holds on the lock
}

// Warehouse returns a tree to walk.
func Warehouse() *Node {
	node := func(name string, kids ...*Node) *Node { return &Node{Name: name, Kids: kids} }
	leaf := func(name string, size int) *Node { return &Node{Name: name, Size: size} }
	return node("warehouse",
		node("fruit",
			leaf("apples", 120),
			node("citrus", leaf("lemons", 60), leaf("limes", 30))),
		node("bread", leaf("rye", 45), leaf("wheat", 80)),
		node("tea", leaf("green", 25)))
}

// Add adds the sizes of the children.
func (n *Node) Add() {
	for _, kid := range n.Kids {
		n.Size += kid.Size
	}
}

// Count returns the number of nodes.
func (n *Node) Count() int {
	count := 1
	for _, kid := range n.Kids {
		count += kid.Count()
	}
	return count
}

// Print prints the tree; indent is "" at its root.
func (n *Node) Print(indent string) {
	fmt.Printf("        %-16s size %3d   goroutine %-6s hold %d\n", indent+n.Name, n.Size, n.By, n.Holds)
	for _, kid := range n.Kids {
		kid.Print(indent + "  ")
	}
}
