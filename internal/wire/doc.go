// Package wire connects to ZooKeeper with go-zookeeper's client and works around that client's
// defects without a fork of it; zklocks.Connect documents what it does. The client dials through
// this package, so every packet passes a packetConn, which inspects it, delays some, and sends
// requests of its own.
package wire
