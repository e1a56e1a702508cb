package bench

// The peers, in the order of the tables.
const (
	ours  = "zklocks"            // package rwlock, or semaphore
	again = "zklocks, reentrant" // package reentrant, whose nodes zk.Lock and Curator's mutex share
	// The same with WithMaxIdle.
	kept      = "zklocks, kept"
	keptAgain = "zklocks, reentrant, kept"

	zkLock  = "zk.Lock"
	curator = "Curator"
	kazoo   = "kazoo"
)

var (
	everyone = []string{ours, again, zkLock, curator, kazoo}
	noKazoo  = []string{ours, again, zkLock, curator}
	sharing  = []string{ours, curator, kazoo}
	// A reader of kazoo waits for later writers, which wait for it.
	reading = []string{ours, curator}
	idling  = []string{kept, ours, curator}
	// kazoo has nothing for several locks. zk.Lock and Curator take them one
	// by one, here in the order of their names, because in any other order they deadlock.
	together = []string{ours, zkLock, curator}
)

// workload is a row: the same job for several peers. The others are compared with the first peer.
type workload struct {
	name  string
	job   job
	peers []string
}

var workloads = []workload{
	{"exclusive, 1 session", job{Mode: exclusive, Sessions: 1, Workers: 1}, everyone},
	{"exclusive, 16 sessions", job{Mode: exclusive, Sessions: 16, Workers: 16}, everyone},
	{"exclusive, 100 sessions", job{Mode: exclusive, Sessions: 100, Workers: 100}, everyone},
	{"semaphore, 16 sessions, 4 permits", job{Mode: permits, Sessions: 16, Workers: 16, Permits: 4}, sharing},
	{"semaphore, 64 sessions, 8 permits", job{Mode: permits, Sessions: 64, Workers: 64, Permits: 8}, sharing},
	{
		"semaphore, 60 sessions, 20 permits, jobs of 0 to 100 ms",
		job{Mode: permits, Sessions: 60, Workers: 60, Permits: 20, Work: 50}, sharing,
	},
	{"rw, 16 sessions, 90 % reads", job{Mode: shared, Sessions: 16, Workers: 16, Reads: 90}, reading},
	{"rw, 16 sessions, all reads", job{Mode: shared, Sessions: 16, Workers: 16, Reads: 100}, sharing},
	{"rw, 64 in one process, all reads", job{Mode: shared, Sessions: 1, Workers: 64, Reads: 100, Sample: 16}, sharing},
	{"rw, 64 in one process, 95 % reads", job{Mode: shared, Sessions: 1, Workers: 64, Reads: 95}, reading},
	{"exclusive, 64 in one process", job{Mode: exclusive, Sessions: 1, Workers: 64}, everyone},
	{
		"exclusive, 64 in one process, handed on",
		job{Mode: exclusive, Sessions: 1, Workers: 64, Handoff: 64}, []string{ours, zkLock, curator, kazoo},
	},
	{"semaphore, 64 in one process, 8 permits", job{Mode: permits, Sessions: 1, Workers: 64, Permits: 8}, sharing},
	{"2 of 16 locks at once, 16 sessions", job{Mode: several, Sessions: 16, Workers: 16, Among: 16, AtOnce: 2}, together},
	{"4 of 16 locks at once, 16 sessions", job{Mode: several, Sessions: 16, Workers: 16, Among: 16, AtOnce: 4}, together},
	{"4 locks at once, 1 session", job{Mode: several, Sessions: 1, Workers: 1, Among: 4, AtOnce: 4}, together},
	{"a new key each time, 1 session", job{Mode: fresh, Sessions: 1, Workers: 1}, together},
	{"a new key each time, 16 sessions", job{Mode: fresh, Sessions: 16, Workers: 16}, together},
	{"exclusive, 64 sessions, a lock each", job{Mode: exclusive, Sessions: 64, Workers: 64, Own: 1}, everyone}, // the maximal throughput of the server
}

// idles are workloads in which an idle lock may be kept, first those where that pays.
var idles = []workload{
	{"reads, 1 session", job{Mode: shared, Sessions: 1, Workers: 1, Reads: 100, Sample: 16}, idling},
	{"reads, 16 sessions", job{Mode: shared, Sessions: 16, Workers: 16, Reads: 100, Sample: 16}, idling},
	{"1 of 1,000 writes, 16 sessions", job{Mode: shared, Sessions: 16, Workers: 16, Reads: 100, Writes: 1}, idling},
	{"1 of 100 writes, 16 sessions", job{Mode: shared, Sessions: 16, Workers: 16, Reads: 99}, idling},
	{"1 of 10 writes, 16 sessions", job{Mode: shared, Sessions: 16, Workers: 16, Reads: 90}, idling},
	{"exclusive, 1 session, again and again", job{Mode: exclusive, Sessions: 1, Workers: 1, Sample: 16}, []string{kept, keptAgain, ours, zkLock, curator, kazoo}},
	{"16 sessions with 100 keys each", job{Mode: several, Sessions: 16, Workers: 16, Among: 100, AtOnce: 1, Own: 1}, idling},
	{"exclusive, 2 sessions in turn", job{Mode: exclusive, Sessions: 2, Workers: 1, InTurn: 1}, []string{kept, ours}},
	{"exclusive, 2 sessions contend", job{Mode: exclusive, Sessions: 2, Workers: 2}, idling},
	{"exclusive, 16 sessions contend", job{Mode: exclusive, Sessions: 16, Workers: 16}, idling},
	{"100 keys that 16 sessions use at random", job{Mode: several, Sessions: 16, Workers: 16, Among: 100, AtOnce: 1}, idling},
}

// queues are exclusive locks with waiters behind each holder. A session of go-zookeeper takes 3
// MB, so there are at most 101.
var queues = []workload{
	{"1 waits", job{Mode: exclusive, Sessions: 2, Workers: 2}, noKazoo},
	{"10 wait", job{Mode: exclusive, Sessions: 11, Workers: 11}, noKazoo},
	{"100 wait", job{Mode: exclusive, Sessions: 101, Workers: 101}, noKazoo},
	{"1,000 wait", job{Mode: exclusive, Sessions: 101, Workers: 1001}, []string{ours, again}},
}

// crowds are semaphores with ten waiters for each permit.
var crowds = []workload{
	{"1 permit, 10 wait", job{Mode: permits, Sessions: 11, Workers: 11, Permits: 1}, []string{ours, curator}},
	{"10 permits, 100 wait", job{Mode: permits, Sessions: 101, Workers: 110, Permits: 10}, []string{ours, curator}},
	{"100 permits, 1,000 wait", job{Mode: permits, Sessions: 101, Workers: 1100, Permits: 100}, []string{ours}},
}
