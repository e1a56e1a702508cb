package bench

// The peers, in the order of the tables.
const (
	ours     = "zklocks"            // package rwlock, or semaphore
	again    = "zklocks, reentrant" // package reentrant, whose nodes zk.Lock and Curator's mutex share
	zkLock   = "zk.Lock"
	curator  = "Curator"
	kazoo    = "kazoo"
	bare     = "bare requests"           // no library, only the necessary requests: see requests
	inMemory = "sync.RWMutex"            // without a server
	looking  = "sync.RWMutex, two looks" // with two checks of a session's deadline
)

// workload is a row: the same job for several peers.
type workload struct {
	name    string
	job     job
	peers   []string
	without string // why a peer that has such a lock is not measured
}

var workloads = []workload{
	{
		name: "exclusive, 1 session", job: job{Mode: exclusive, Sessions: 1, Workers: 1},
		peers: []string{ours, again, zkLock, curator, kazoo, bare},
	}, {
		name: "exclusive, 16 sessions", job: job{Mode: exclusive, Sessions: 16, Workers: 16},
		peers: []string{ours, again, zkLock, curator, kazoo, bare},
	}, {
		name: "exclusive, 100 sessions", job: job{Mode: exclusive, Sessions: 100, Workers: 100},
		peers: []string{ours, again, zkLock, curator, kazoo, bare},
	}, {
		name: "semaphore, 16 sessions, 4 permits", job: job{Mode: permits, Sessions: 16, Workers: 16, Permits: 4},
		peers: []string{ours, curator, kazoo, bare},
	}, {
		name: "semaphore, 64 sessions, 8 permits", job: job{Mode: permits, Sessions: 64, Workers: 64, Permits: 8},
		peers: []string{ours, curator, kazoo, bare},
	}, {
		name: "semaphore, 60 sessions, 20 permits, jobs of 0 to 100 ms", job: job{Mode: permits, Sessions: 60, Workers: 60, Permits: 20, Work: 50},
		peers: []string{ours, curator, kazoo},
	}, {
		name: "rw, 16 sessions, 90 % reads", job: job{Mode: shared, Sessions: 16, Workers: 16, Reads: 90},
		peers:   []string{ours, curator, bare},
		without: kazooReads,
	},
	{
		name: "rw, 16 sessions, all reads", job: job{Mode: shared, Sessions: 16, Workers: 16, Reads: 100},
		peers: []string{ours, curator, kazoo},
	},
	{
		name: "rw, 64 in one process, all reads", job: job{Mode: shared, Sessions: 1, Workers: 64, Reads: 100},
		peers: []string{ours, curator, kazoo, looking, inMemory},
	}, {
		name: "rw, 64 in one process, 95 % reads", job: job{Mode: shared, Sessions: 1, Workers: 64, Reads: 95},
		peers:   []string{ours, curator},
		without: kazooReads,
	}, {
		name: "exclusive, 64 in one process", job: job{Mode: exclusive, Sessions: 1, Workers: 64},
		peers: []string{ours, again, zkLock, curator, kazoo},
	}, {
		name: "exclusive, 64 in one process, handed on", job: job{Mode: exclusive, Sessions: 1, Workers: 64, Handoff: 64},
		peers: []string{ours, zkLock, curator, kazoo},
	}, {
		name: "semaphore, 64 in one process, 8 permits", job: job{Mode: permits, Sessions: 1, Workers: 64, Permits: 8},
		peers: []string{ours, curator, kazoo},
	},
	{
		name: "2 of 16 locks at once, 16 sessions", job: severalOf(16, 2),
		peers:   []string{ours, zkLock, curator, bare},
		without: sorted,
	}, {
		name: "4 of 16 locks at once, 16 sessions", job: severalOf(16, 4),
		peers:   []string{ours, zkLock, curator, bare},
		without: sorted,
	}, {
		name: "4 locks at once, 1 session", job: job{Mode: several, Sessions: 1, Workers: 1, Among: 4, AtOnce: 4},
		peers:   []string{ours, zkLock, curator, bare},
		without: sorted,
	},
	free,
}

// kazooReads is why kazoo's readers and writers are not measured together.
const kazooReads = "kazoo's reader waits for later writers, which wait for it"

// sorted is the note on several locks.
const sorted = "kazoo has nothing for several locks; zk.Lock and Curator's InterProcessMultiLock take them one by one, here in the order of their names, because in any other they deadlock"

// severalOf returns a job whose cycles acquire some of the locks.
func severalOf(among, atOnce int) job {
	return job{Mode: several, Sessions: 16, Workers: 16, Among: among, AtOnce: atOnce}
}

// free are locks without contention: the maximal throughput of the server.
var free = workload{
	name: "exclusive, 64 sessions, a lock each", job: job{Mode: exclusive, Sessions: 64, Workers: 64, Own: 1},
	peers: []string{ours, again, zkLock, curator, kazoo},
}

// lines are exclusive locks with different numbers of waiters.
var lines = []workload{
	{name: "1 waits", job: line(1), peers: []string{ours, again, zkLock, curator}},
	{name: "10 wait", job: line(10), peers: []string{ours, again, zkLock, curator}},
	{name: "100 wait", job: line(100), peers: []string{ours, again, zkLock, curator}},
	{name: "1,000 wait", job: line(1000), peers: []string{ours, again}},
}

// wide are semaphores with different numbers of permits, and ten times as many waiters.
var wide = []workload{
	{name: "1 permit, 10 wait", job: throng(1), peers: []string{ours, curator}},
	{name: "10 permits, 100 wait", job: throng(10), peers: []string{ours, curator}},
	{name: "100 permits, 1,000 wait", job: throng(100), peers: []string{ours}},
}

func throng(n int) job {
	return job{Mode: permits, Sessions: min(11*n, 101), Workers: 11 * n, Permits: n}
}

// line returns a job with so many waiters behind each holder. Each has its own session up to 101
// sessions, because a session of the Go client takes 3 MB.
func line(waiters int) job {
	return job{Mode: exclusive, Sessions: min(waiters+1, 101), Workers: waiters + 1}
}
