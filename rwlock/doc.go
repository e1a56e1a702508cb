// Package rwlock is a shared/exclusive lock of the whole cluster on Apache
// ZooKeeper, for what many processes read and now and then one rewrites.
package rwlock
