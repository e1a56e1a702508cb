// Package test is what the tests of this module share, wherever they play: waiting for a condition,
// paths of their own, what is left in a directory or on a server.
//
// The packages below it are for tests, too: venue (where a test plays), realzk (real servers),
// contract, history, explore, differ.
package test
