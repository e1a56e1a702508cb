// Package semaphore limits how many may work at once over the whole cluster.
package semaphore
