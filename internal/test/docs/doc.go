// Package docs has only tests, which keep the documents true: their code is the code of examples,
// which run; their links have targets; the tests and files that they name exist.
//
// The tutorial and the how-tos are executed as a reader would. The word behind the fence of a block
// says what the test does with it:
//
//	go    compiles it. A first line such as "// worker/main.go" says where a reader saves it
//	sh    types it into a shell; "sh 2" is a second terminal
//	text  compares it with what the terminal of the last sh block prints; "text 2": terminal 2
//
// Other blocks (console, yaml, ini) are only shown: they need the network, systemd or Kubernetes. A
// block in an HTML comment is typed and compared, too, and no reader sees it.
package docs
