import java.io.BufferedReader;
import java.io.InputStreamReader;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** A candidate of Apache Curator's LeaderLatch: servers, path, session timeout in milliseconds. */
public final class Latch {
    public static void main(String[] args) throws Exception {
        int timeout = Integer.parseInt(args[2]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], timeout, timeout, new ExponentialBackoffRetry(50, 10));
        client.start();
        LeaderLatch latch = new LeaderLatch(client, args[1]);
        latch.start();
        latch.await();
        System.out.println("leads");
        System.out.flush();
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        latch.close();
        client.close();
        System.exit(0);
    }
}
