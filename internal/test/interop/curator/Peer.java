import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Takes Apache Curator's locks as it is told; the words are those of peer_test.go. */
public final class Peer {
    private static final int PERMITS = 1;
    private static final String REVOCABLE = "revocable-";

    private final String servers;
    private final Map<String, Worker> workers = new HashMap<>();
    private final List<Worker> fighters = new ArrayList<>();

    private Peer(String servers) {
        this.servers = servers;
    }

    public static void main(String[] args) {
        try {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            Peer peer = new Peer(args[0]);
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                System.out.println(peer.obey(line.split(" ")));
                System.out.flush();
            }
            System.exit(0);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "take":
                worker(words[1]).take(words[2], words[3]);
                return "ok";
            case "holds":
                return worker(words[1]).holds() ? "holds yes" : "holds no";
            case "await":
                worker(words[1]).await();
                return "ok";
            case "give":
                worker(words[1]).give();
                return "ok";
            case "downgrade":
                worker(words[1]).downgrade();
                return "ok";
            case "leader":
                return "leader " + (words[3].equals("latch")
                        ? new LeaderLatch(worker(words[1]).client, words[2]).getLeader().getId()
                        : new Election(worker(words[1]).client, words[2], words[1]).leader());
            case "ask":
                Revoker.attemptRevoke(worker(words[1]).client, words[2]);
                return "ok";
            case "asked":
                worker(words[1]).asked.await();
                return "ok";
            case "open":
                fighters.clear();
                for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                    fighters.add(worker("curator-" + i));
                }
                return "ok";
            case "fight":
                return "fought " + fight(words);
            case "part":
                for (Worker w : workers.values()) {
                    w.client.close();
                    w.thread.shutdown();
                }
                workers.clear();
                return "ok";
            default:
                throw new IllegalArgumentException(String.join(" ", words));
        }
    }

    private Worker worker(String who) throws Exception {
        Worker w = workers.get(who);
        if (w == null) {
            w = new Worker(who, servers);
            workers.put(who, w);
        }
        return w;
    }

    /** fight PATH COUNTER KINDS CYCLES */
    private String fight(String[] words) throws Exception {
        List<Future<List<String>>> fights = new ArrayList<>();
        for (Worker w : fighters) {
            int first = fights.size();
            fights.add(w.thread.submit(
                    () -> w.fight(words[1], words[2], words[3].split(","), first, Integer.parseInt(words[4]))));
        }
        List<String> holds = new ArrayList<>();
        for (Future<List<String>> f : fights) {
            holds.addAll(f.get());
        }
        return "[" + String.join(",", holds) + "]";
    }

    /** A session and a thread, to which Curator's locks belong. */
    private static final class Worker {
        private final String who;
        private final CuratorFramework client;
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private InterProcessReadWriteLock both;
        private InterProcessLock lock;
        private Future<?> taken;
        private CountDownLatch asked;

        Worker(String who, String servers) throws Exception {
            this.who = who;
            client = CuratorFrameworkFactory.newClient(servers, 15_000, 10_000, new ExponentialBackoffRetry(100, 10));
            client.start();
            client.blockUntilConnected();
        }

        void take(String kind, String path) {
            asked = new CountDownLatch(1);
            taken = thread.submit(() -> {
                acquire(kind, path);
                return null;
            });
        }

        boolean holds() throws Exception {
            if (!taken.isDone()) {
                return false;
            }
            taken.get();
            return true;
        }

        void await() throws Exception {
            taken.get();
        }

        void give() throws Exception {
            thread.submit(() -> {
                lock.release();
                return null;
            }).get();
        }

        void downgrade() throws Exception {
            thread.submit(() -> {
                toRead();
                return null;
            }).get();
        }

        private void acquire(String kind, String path) throws Exception {
            boolean listens = kind.startsWith(REVOCABLE);
            switch (listens ? kind.substring(REVOCABLE.length()) : kind) {
                case "mutex":
                    lock = new InterProcessMutex(client, path);
                    break;
                case "leader":
                    lock = new Election(client, path, who);
                    break;
                case "latch":
                    lock = latch(new LeaderLatch(client, path, who));
                    break;
                case "permit":
                    lock = permit(new InterProcessSemaphoreV2(client, path, PERMITS));
                    break;
                default:
                    both = new InterProcessReadWriteLock(client, path);
                    lock = kind.equals("read") ? both.readLock() : both.writeLock();
            }
            if (listens) {
                ((InterProcessMutex) lock).makeRevocable(forLock -> asked.countDown());
            }
            lock.acquire();
        }

        private void toRead() throws Exception {
            both.readLock().acquire();
            lock.release();
            lock = both.readLock();
        }

        List<String> fight(String path, String counter, String[] kinds, int first, int cycles) throws Exception {
            List<String> holds = new ArrayList<>();
            for (int i = 0; i < cycles; i++) {
                String kind = kinds[(first + i) % kinds.length];
                long called = System.nanoTime();
                acquire(kind.equals("downgrade") ? "write" : kind, path);
                long acquired = System.nanoTime();
                boolean shared = kind.equals("read") || kind.equals("downgrade");
                int value = count(counter);
                if (!kind.equals("read")) {
                    client.setData().forPath(counter, String.valueOf(++value).getBytes(StandardCharsets.US_ASCII));
                    if (kind.equals("downgrade")) {
                        holds.add(hold(path, "exclusive", called, acquired));
                        called = System.nanoTime();
                        toRead();
                        acquired = System.nanoTime();
                    }
                }
                if (shared) {
                    int now = count(counter);
                    if (now != value) {
                        throw new IllegalStateException(who + " reads " + value + " and then " + now);
                    }
                }
                holds.add(hold(path, shared ? "shared" : "exclusive", called, acquired));
                lock.release();
            }
            return holds;
        }

        private int count(String counter) throws Exception {
            return Integer.parseInt(new String(client.getData().forPath(counter), StandardCharsets.US_ASCII));
        }

        /** In the form of internal/test/history, whose clock is that of nanoTime. */
        private String hold(String path, String kind, long called, long acquired) {
            return String.format("{\"path\":\"%s\",\"kind\":\"%s\",\"who\":\"%s\",\"called\":%d,\"acquired\":%d,\"ended\":%d}",
                    path, kind, who, called, acquired, System.nanoTime());
        }
    }

    private static InterProcessLock permit(InterProcessSemaphoreV2 semaphore) {
        return new InterProcessLock() {
            private Lease lease;

            @Override
            public void acquire() throws Exception {
                lease = semaphore.acquire();
            }

            @Override
            public boolean acquire(long time, TimeUnit unit) throws Exception {
                lease = semaphore.acquire(time, unit);
                return lease != null;
            }

            @Override
            public void release() {
                semaphore.returnLease(lease);
            }

            @Override
            public boolean isAcquiredInThisProcess() {
                return lease != null;
            }
        };
    }

    private static InterProcessLock latch(LeaderLatch latch) {
        return new InterProcessLock() {
            @Override
            public void acquire() throws Exception {
                latch.start();
                latch.await();
            }

            @Override
            public boolean acquire(long time, TimeUnit unit) throws Exception {
                latch.start();
                return latch.await(time, unit);
            }

            @Override
            public void release() throws Exception {
                latch.close();
            }

            @Override
            public boolean isAcquiredInThisProcess() {
                return latch.hasLeadership();
            }
        };
    }

    /** One term of a LeaderSelector at a time. */
    private static final class Election extends LeaderSelectorListenerAdapter implements InterProcessLock {
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private final CountDownLatch leads = new CountDownLatch(1);
        private final CountDownLatch resigns = new CountDownLatch(1);
        private final LeaderSelector selector;

        Election(CuratorFramework client, String path, String id) {
            selector = new LeaderSelector(client, path, thread, this);
            selector.setId(id);
        }

        String leader() throws Exception {
            thread.shutdown();
            return selector.getLeader().getId();
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            leads.countDown();
            resigns.await();
        }

        @Override
        public void acquire() throws Exception {
            selector.start();
            leads.await();
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            selector.start();
            return leads.await(time, unit);
        }

        @Override
        public void release() throws Exception {
            resigns.countDown();
            thread.shutdown();
            if (!thread.awaitTermination(30, TimeUnit.SECONDS)) { // its mutex is released when the thread ends
                throw new IllegalStateException("the selector goes on");
            }
            selector.close();
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return selector.hasLeadership();
        }
    }
}
