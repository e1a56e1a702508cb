"""Measures kazoo's locks; what it is told and what it says is in job_test.go."""

import json
import logging
import platform
import random
import sys
import threading
import time

import kazoo
from kazoo.client import KazooClient

TOO_MANY = 10
PATIENCE = 20.0  # seconds; a lock that stands still must not keep the others from being measured


class Worker(threading.Thread):
    """One thread, with lock objects of its own: kazoo's are not meant to be shared."""

    def __init__(self, client, job, number):
        super().__init__(daemon=True)
        path = job["path"]
        if job["own"]:
            path = "%s/%d" % (path, number)
        if job["mode"] == "semaphore":
            self.write = client.Semaphore(path, max_leases=job["permits"])
        elif job["mode"] == "rw":
            self.write = client.WriteLock(path)
            self.read = client.ReadLock(path)
        else:
            self.write = client.Lock(path)
        self.reads = job["reads"]
        self.writes = job["writes"]
        self.work = job["work"] / 1000  # seconds, the mean
        self.random = random.Random(number)
        self.latencies = []
        self.cycles = 0
        self.errors = 0
        self.error = ""

    def choose(self):
        seldom = self.writes and self.random.randrange(1000) < self.writes
        if self.reads and self.random.randrange(100) < self.reads and not seldom:
            return self.read
        return self.write

    def once(self):
        lock = self.choose()
        lock.acquire(timeout=PATIENCE)
        lock.release()

    def run(self):
        held = 0.0
        while held < self.until and self.errors < TOO_MANY:
            lock = self.choose()
            began = time.monotonic()
            try:
                if not lock.acquire(timeout=PATIENCE):
                    raise RuntimeError("not acquired")
                held = time.monotonic()
                if self.work:
                    time.sleep(self.random.uniform(0, 2 * self.work))
                lock.release()
            except Exception as e:
                held = time.monotonic()
                self.errors += 1
                self.error = repr(e)
                continue
            self.cycles += 1
            if self.start_at <= held < self.until:
                self.latencies.append(held - began)


def quantile(values, q):
    """In microseconds, of sorted values."""
    if not values:
        return 0.0
    return values[min(int(q * len(values)), len(values) - 1)] * 1e6


def measure(job, workers):
    start_at = time.monotonic() + job["warm"] / 1000
    for w in workers:
        w.start_at = start_at
        w.until = start_at + job["measure"] / 1000
        w.start()
    for w in workers:
        w.join()
    values = sorted(v for w in workers for v in w.latencies)
    return {
        "operations": len(values),
        "cycles": sum(w.cycles for w in workers),
        "p50": quantile(values, 0.5),
        "p99": quantile(values, 0.99),
        "max": quantile(values, 1),
        "errors": sum(w.errors for w in workers),
        "error": next((w.error for w in workers if w.error), ""),
    }


def say(line):
    print(line, flush=True)


def expect(word):
    line = sys.stdin.readline().strip()
    if line != word:
        raise RuntimeError("told %r, want %r" % (line, word))


def work(job):
    clients = []
    try:
        for _ in range(job["sessions"]):
            client = KazooClient(hosts=job["servers"], timeout=job["timeout"] / 1000)
            clients.append(client)
            client.start()
        workers = [Worker(clients[i % len(clients)], job, i) for i in range(job["workers"])]
        # Directories are made, and whatever an object does only once is done.
        for w in workers[: len(clients)]:
            w.once()
        say("ready")
        expect("go")
        say("done " + json.dumps(measure(job, workers)))
        expect("end")
    finally:
        for client in clients:
            client.stop()
            client.close()


def main():
    logging.disable(logging.CRITICAL)
    say("hello kazoo %s, Python %s" % (kazoo.__version__, platform.python_version()))
    while True:
        line = sys.stdin.readline().strip()
        if line in ("", "bye"):
            say("left")
            return
        work(json.loads(line))
        say("closed")


main()
