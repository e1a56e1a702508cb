// Package reentrant is a mutex of the whole cluster for recursive code.
package reentrant
