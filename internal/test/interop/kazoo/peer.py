"""Takes kazoo's locks as it is told; the words are those of peer_test.go."""

import json
import logging
import os
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

# A reader of kazoo 2.8 waits for writers behind it, too, which wait for it: it
# has to give up and try again.
READER_PATIENCE = 0.05  # seconds

PERMITS = 1


class Election:
    """One term of kazoo's Election at a time, in the form of a lock."""

    def __init__(self, client, path, who):
        self.election = client.Election(path, who)
        self.leads, self.resigns = threading.Event(), threading.Event()
        self.term = threading.Thread(target=self.election.run, args=(self.lead,))

    def lead(self):
        self.leads.set()
        self.resigns.wait()

    def acquire(self, timeout=None):
        self.term.start()
        self.leads.wait()
        return True

    def release(self):
        self.resigns.set()
        self.term.join()


class Worker:
    """A session and a thread."""

    def __init__(self, who, servers):
        self.who = who
        self.client = KazooClient(hosts=servers, timeout=15)
        self.client.start()
        self.thread = ThreadPoolExecutor(1)
        self.lock = None
        self.taken = None

    def make(self, kind, path):
        """KIND, or KIND:PATTERN:PATTERN for extra_lock_patterns."""
        kind, *patterns = kind.split(":")
        if kind == "leader":
            return Election(self.client, path, self.who)
        if kind == "permit":
            return self.client.Semaphore(path, max_leases=PERMITS)
        lock = {"mutex": self.client.Lock, "write": self.client.WriteLock, "read": self.client.ReadLock}[kind]
        return lock(path, extra_lock_patterns=patterns)

    def take(self, kind, path):
        self.lock = self.make(kind, path)
        self.taken = self.thread.submit(self.lock.acquire)

    def holds(self):
        return self.taken.done() and self.taken.result()

    def give(self):
        self.lock.release()

    def count(self, counter):
        return int(self.client.get(counter)[0])

    def acquire(self, lock, patience):
        while True:
            try:
                if lock.acquire(timeout=patience):
                    return
            except LockTimeout:
                pass

    def fight(self, path, counter, kinds, first, cycles):
        holds = []
        for i in range(cycles):
            kind = kinds[(first + i) % len(kinds)]
            shared = kind.startswith("read")
            lock = self.make(kind, path)
            called = time.monotonic_ns()
            self.acquire(lock, READER_PATIENCE if shared else None)
            acquired = time.monotonic_ns()
            value = self.count(counter)
            if shared:
                now = self.count(counter)
                if now != value:
                    raise RuntimeError("%s reads %d and then %d" % (self.who, value, now))
            else:
                self.client.set(counter, b"%d" % (value + 1))
            holds.append({
                # In the form of internal/test/history, whose clock is the monotonic one.
                "path": path, "kind": "shared" if shared else "exclusive", "who": self.who,
                "called": called, "acquired": acquired, "ended": time.monotonic_ns(),
            })
            lock.release()
        return holds


class Peer:
    def __init__(self, servers):
        self.servers = servers
        self.workers = {}
        self.fighters = []

    def worker(self, who):
        if who not in self.workers:
            self.workers[who] = Worker(who, self.servers)
        return self.workers[who]

    def take(self, who, kind, path):
        self.worker(who).take(kind, path)

    def holds(self, who):
        return "holds yes" if self.worker(who).holds() else "holds no"

    def awaits(self, who):
        self.worker(who).taken.result()

    def give(self, who):
        self.worker(who).give()

    def leader(self, who, path, _kind):
        return "leader " + self.worker(who).client.Election(path).contenders()[0]

    def open(self, sessions):
        self.fighters = [self.worker("kazoo-%d" % i) for i in range(int(sessions))]

    def fight(self, path, counter, kinds, cycles):
        fights = [
            w.thread.submit(w.fight, path, counter, kinds.split(","), i, int(cycles))
            for i, w in enumerate(self.fighters)
        ]
        return "fought " + json.dumps([hold for f in fights for hold in f.result()])

    def part(self):
        for w in self.workers.values():
            w.client.stop()
            w.client.close()
            w.thread.shutdown()
        self.workers = {}


def main():
    logging.disable(logging.CRITICAL)
    peer = Peer(sys.argv[1])
    verbs = {
        "take": peer.take, "holds": peer.holds, "await": peer.awaits, "give": peer.give,
        "leader": peer.leader, "open": peer.open, "fight": peer.fight, "part": peer.part,
    }
    try:
        for line in sys.stdin:
            verb, *words = line.split()
            print(verbs[verb](*words) or "ok", flush=True)
    except Exception:
        traceback.print_exc()
        os._exit(1)  # whatever the threads still wait for


main()
