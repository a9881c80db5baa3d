import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.rmi.RemoteException;
import java.rmi.server.UnicastRemoteObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.Callable;

/** The processes of a run. Each is told what to do by words on stdin and ends when stdin does. */
final class Worker {
    private static final int WARM_UP = 0, MEASURE = 1, OVER = 2;
    private static volatile int phase = WARM_UP;
    private static Echo kept; // an exported object without references is collected

    private static final class EchoService implements Echo {
        public byte[] echo(byte[] body) {
            return body;
        }

        public int sink(byte[] body) {
            return body.length;
        }
    }

    /** Says READY and its stub, so that no registry is needed; on loopback, on a port that the system picks. */
    static void serve() throws Exception {
        System.setProperty("java.rmi.server.hostname", "127.0.0.1");
        kept = new EchoService();
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        Object stub = UnicastRemoteObject.exportObject(kept, 0, null, port -> new ServerSocket(port, 1024, loopback));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        new ObjectOutputStream(bytes).writeObject(stub);
        System.out.println("READY " + Base64.getEncoder().encodeToString(bytes.toByteArray()));
        obey();
    }

    /** client rpc STUB CALLERS BYTES | client stream STUB MESSAGES BYTES */
    static void client(String[] words) throws Exception {
        byte[] stub = Base64.getDecoder().decode(words[2]);
        Echo server = (Echo) new ObjectInputStream(new ByteArrayInputStream(stub)).readObject();
        Thread ear = new Thread(Worker::obey);
        ear.setDaemon(true);
        ear.start();
        if (words[1].equals("rpc"))
            System.out.println(rpc(server, Integer.parseInt(words[3]), Integer.parseInt(words[4])));
        else
            System.out.println(stream(server, Long.parseLong(words[3]), Integer.parseInt(words[4])));
        ear.join(); // stay, so that our memory can be read
    }

    /** `errors histogram` of a thread per caller, each waiting for its answers. */
    private static String rpc(Echo server, int callers, int bytes) throws Exception {
        List<Thread> threads = new ArrayList<>();
        Histogram all = new Histogram();
        long[] errors = {0};
        for (int i = 0; i < callers; i++)
            threads.add(new Thread(() -> {
                Histogram own = new Histogram();
                long failed = call(server, new byte[bytes], own);
                synchronized (all) {
                    all.add(own);
                    errors[0] += failed;
                }
            }));
        threads.forEach(Thread::start);
        System.out.println("READY");
        for (Thread thread : threads)
            thread.join();
        return errors[0] + " " + all.toWords();
    }

    private static long call(Echo server, byte[] body, Histogram own) {
        long failed = 0;
        while (phase != OVER) {
            long from = System.nanoTime();
            try {
                if (server.echo(body).length != body.length)
                    failed++;
            } catch (RemoteException e) {
                failed++;
                continue;
            }
            if (phase == MEASURE)
                own.record(System.nanoTime() - from);
        }
        return failed;
    }

    /** `received nanoseconds` of calls one behind the other: the only way that RMI has. */
    private static String stream(Echo server, long messages, int bytes) throws Exception {
        byte[] body = new byte[bytes];
        Callable<Boolean> send = () -> server.sink(body) == bytes;
        for (long i = 0; i < Math.max(5, messages / 10); i++)
            send.call();
        System.out.println("READY");
        while (phase != MEASURE)
            Thread.sleep(1);
        long from = System.nanoTime(), received = 0;
        for (long i = 0; i < messages; i++)
            if (send.call())
                received++;
        return received + " " + (System.nanoTime() - from);
    }

    /** Follows the words on stdin; ends the process with them. */
    private static void obey() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String word; (word = in.readLine()) != null;)
                phase = word.equals("measure") ? MEASURE : OVER;
        } catch (Exception e) {
            System.err.println("jrmp: " + e);
        }
        Runtime.getRuntime().halt(0);
    }
}
