// Package test has helpers for all tests of this module: waiting for a condition, unique paths,
// checks for what remains in a directory or on a server.
//
// The packages below it are also for tests only: venue (where a test runs), realzk (real servers),
// contract, history, explore, differ and others.
package test
