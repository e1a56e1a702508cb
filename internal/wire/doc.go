// Package wire makes connections to ZooKeeper by go-zookeeper's client whose weak spots are cured,
// without a fork of it: zklocks.Connect documents what it does. The client dials through this
// package, so each packet passes a wire, which looks at it, keeps some back, and sends others of
// its own.
package wire
