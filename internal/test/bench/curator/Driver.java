import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Measures Apache Curator's locks; what it is told and what it says is in job_test.go. */
public final class Driver {
    /** What one worker repeats. */
    interface Cycle {
        void acquire(boolean read) throws Exception;

        void release() throws Exception;
    }

    private static final int TOO_MANY = 10;

    private final String order;

    private Driver(String order) {
        this.order = order;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        say("hello " + jar() + ", Java " + System.getProperty("java.version"));
        for (String line = in.readLine(); line != null && !line.equals("bye"); line = in.readLine()) {
            new Driver(line).work(in);
            say("closed");
        }
        say("left");
        System.exit(0);
    }

    /** The name of the file that the locks come from ends with its version. */
    private static String jar() throws Exception {
        URI from = InterProcessMutex.class.getProtectionDomain().getCodeSource().getLocation().toURI();
        return Paths.get(from).toRealPath().getFileName().toString().replace(".jar", "");
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private String text(String key) {
        Matcher m = Pattern.compile("\"" + key + "\":\"?([^,\"}]*)").matcher(order);
        if (!m.find()) {
            throw new IllegalArgumentException("no " + key + " in " + order);
        }
        return m.group(1);
    }

    private int number(String key) {
        return Integer.parseInt(text(key));
    }

    private void work(BufferedReader in) throws Exception {
        int sessions = number("sessions");
        List<CuratorFramework> clients = new ArrayList<>();
        List<Object> locks = new ArrayList<>();
        try {
            for (int i = 0; i < sessions; i++) {
                CuratorFramework client = CuratorFrameworkFactory.newClient(
                        text("servers"), number("timeout"), 10_000, new ExponentialBackoffRetry(100, 10));
                clients.add(client);
                client.start();
                client.blockUntilConnected();
                String path = text("path");
                locks.add(lock(client, number("own") > 0 ? path + "/" + i : path));
            }
            List<Worker> workers = new ArrayList<>();
            for (int i = 0; i < number("workers"); i++) {
                workers.add(new Worker(cycle(locks.get(i % sessions)), i, number("reads"), number("writes"), number("work")));
            }
            // Directories are made, and whatever an object does only once is done.
            for (int i = 0; i < sessions; i++) {
                workers.get(i).once();
            }
            say("ready");
            expect(in, "go");
            say("done " + measure(workers));
            expect(in, "end");
        } finally {
            for (CuratorFramework client : clients) {
                client.close();
            }
        }
    }

    private static void expect(BufferedReader in, String word) throws Exception {
        String line = in.readLine();
        if (!word.equals(line)) {
            throw new IllegalStateException("told " + line + ", want " + word);
        }
    }

    /** One object for all threads of a session, as Curator's documentation has it. */
    private Object lock(CuratorFramework client, String path) {
        switch (text("mode")) {
            case "exclusive":
                return new InterProcessMutex(client, path);
            case "semaphore":
                return new InterProcessSemaphoreV2(client, path, number("permits"));
            case "rw":
                return new InterProcessReadWriteLock(client, path);
            case "fresh":
                return new Fresh(client, path);
            case "several":
                return new Several(client, path, number("among"), number("atonce"));
            default:
                throw new IllegalArgumentException(order);
        }
    }

    /** Each cycle uses a lock that was never used before. */
    private static final class Fresh {
        private static final AtomicLong PATHS = new AtomicLong();
        private final CuratorFramework client;
        private final String path;

        Fresh(CuratorFramework client, String path) {
            this.client = client;
            this.path = path;
        }

        InterProcessMutex next() {
            return new InterProcessMutex(client, path + "/" + PATHS.incrementAndGet());
        }
    }

    /** Locks of which each cycle takes some, by chance, in the order of their names. */
    private static final class Several {
        private final List<InterProcessLock> all = new ArrayList<>();
        private final int atOnce;

        Several(CuratorFramework client, String path, int among, int atOnce) {
            this.atOnce = atOnce;
            for (int i = 0; i < among; i++) {
                all.add(new InterProcessMutex(client, path + "/" + i));
            }
        }

        InterProcessLock some() {
            List<Integer> drawn = new ArrayList<>();
            for (int i = 0; i < all.size(); i++) {
                drawn.add(i);
            }
            Collections.shuffle(drawn, ThreadLocalRandom.current());
            List<InterProcessLock> some = new ArrayList<>();
            for (int i : new TreeSet<>(drawn.subList(0, atOnce))) {
                some.add(all.get(i));
            }
            return new InterProcessMultiLock(some);
        }
    }

    private static Cycle cycle(Object lock) {
        if (lock instanceof Several || lock instanceof Fresh) {
            return new Cycle() {
                private InterProcessLock held;

                @Override
                public void acquire(boolean read) throws Exception {
                    held = lock instanceof Fresh ? ((Fresh) lock).next() : ((Several) lock).some();
                    held.acquire();
                }

                @Override
                public void release() throws Exception {
                    held.release();
                }
            };
        }
        if (lock instanceof InterProcessSemaphoreV2) {
            InterProcessSemaphoreV2 semaphore = (InterProcessSemaphoreV2) lock;
            return new Cycle() {
                private Lease lease;

                @Override
                public void acquire(boolean read) throws Exception {
                    lease = semaphore.acquire();
                }

                @Override
                public void release() {
                    semaphore.returnLease(lease);
                }
            };
        }
        return new Cycle() {
            private InterProcessMutex held;

            @Override
            public void acquire(boolean read) throws Exception {
                if (lock instanceof InterProcessMutex) {
                    held = (InterProcessMutex) lock;
                } else {
                    InterProcessReadWriteLock rw = (InterProcessReadWriteLock) lock;
                    held = read ? rw.readLock() : rw.writeLock();
                }
                held.acquire();
            }

            @Override
            public void release() throws Exception {
                held.release();
            }
        };
    }

    private String measure(List<Worker> workers) throws Exception {
        long from = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(number("warm"));
        long until = from + TimeUnit.MILLISECONDS.toNanos(number("measure"));
        for (Worker w : workers) {
            w.from = from;
            w.until = until;
            w.start();
        }
        long cycles = 0;
        long errors = 0;
        String error = "";
        int operations = 0;
        for (Worker w : workers) {
            w.join();
            cycles += w.cycles;
            errors += w.errors;
            operations += w.operations;
            if (w.error != null) {
                error = w.error.replaceAll("[^ -~]|[\"\\\\]", " ");
            }
        }
        long[] all = new long[operations];
        int at = 0;
        for (Worker w : workers) {
            System.arraycopy(w.latencies, 0, all, at, w.operations);
            at += w.operations;
        }
        Arrays.sort(all);
        return String.format(Locale.ROOT,
                "{\"operations\":%d,\"cycles\":%d,\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f,\"errors\":%d,\"error\":\"%s\"}",
                operations, cycles, quantile(all, 0.5), quantile(all, 0.99), quantile(all, 1), errors, error);
    }

    /** In microseconds. */
    private static double quantile(long[] sorted, double q) {
        if (sorted.length == 0) {
            return 0;
        }
        return sorted[Math.min((int) (q * sorted.length), sorted.length - 1)] / 1000.0;
    }

    private static final class Worker extends Thread {
        private final Cycle cycle;
        private final SplittableRandom random;
        private final int reads;
        private final int writes;
        private final int work;
        private long from;
        private long until;
        private long[] latencies = new long[1024];
        private int operations;
        private long cycles;
        private long errors;
        private String error;

        Worker(Cycle cycle, int number, int reads, int writes, int work) {
            this.cycle = cycle;
            this.random = new SplittableRandom(number);
            this.reads = reads;
            this.writes = writes;
            this.work = work;
        }

        /** Not from run, for a mutex belongs to the thread that acquired it. */
        void once() throws Exception {
            cycle.acquire(true);
            cycle.release();
        }

        @Override
        public void run() {
            long held;
            do {
                boolean read = reads > 0 && random.nextInt(100) < reads && random.nextInt(1000) >= writes;
                long began = System.nanoTime();
                held = began;
                try {
                    cycle.acquire(read);
                    held = System.nanoTime();
                    if (work > 0) {
                        TimeUnit.MICROSECONDS.sleep(random.nextInt(2000 * work));
                    }
                    cycle.release();
                } catch (Exception e) {
                    error = e.toString();
                    held = System.nanoTime();
                    if (++errors == TOO_MANY) {
                        return;
                    }
                    continue;
                }
                cycles++;
                if (held - from >= 0 && held - until < 0) {
                    if (operations == latencies.length) {
                        latencies = Arrays.copyOf(latencies, 2 * operations);
                    }
                    latencies[operations++] = held - began;
                }
            } while (held - until < 0);
        }
    }
}
