import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Java RMI (JRMP) in the shapes of `weir bench`: a server JVM, client JVMs, and this one, which measures them. */
public final class Jrmp {
    private static final long WARM_UP_MS = 2000; // until the calls are compiled

    /** One JVM of the run. It ends when its stdin is closed, so also when we die. */
    private static final class Child {
        final Process process;
        final BufferedReader output;
        final PrintWriter input;

        Child(String... words) throws Exception {
            List<String> line = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-Xmx1g", "-cp",
                System.getProperty("java.class.path"), "Jrmp"));
            line.addAll(List.of(words));
            process = new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            output = new BufferedReader(new InputStreamReader(process.getInputStream()));
            input = new PrintWriter(process.getOutputStream(), true);
        }

        String line() throws Exception {
            String line = output.readLine();
            if (line == null)
                throw new Exception("a JVM of the run ended with status " + process.waitFor());
            return line;
        }

        double cpuSeconds() {
            return process.info().totalCpuDuration().orElse(Duration.ZERO).toNanos() / 1e9;
        }

        double residentMb() throws Exception {
            for (String line : Files.readAllLines(Path.of("/proc/" + process.pid() + "/status")))
                if (line.startsWith("VmRSS:"))
                    return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024 / 1e6;
            return 0;
        }

        void end() throws Exception {
            input.close();
            process.waitFor();
        }
    }

    private static final Map<String, String> options = new LinkedHashMap<>();

    private static void parse(String[] words) throws Exception {
        for (int i = 1; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            String name = equals < 0 ? words[i] : words[i].substring(0, equals);
            if (!options.containsKey(name))
                throw new IllegalArgumentException(name + ": unknown option");
            if (equals < 0 && i + 1 == words.length)
                throw new IllegalArgumentException(name + ": needs a value");
            options.put(name, equals < 0 ? words[++i] : words[i].substring(equals + 1));
        }
        if (options.get("--transport").equals("unix")) {
            System.out.println("skipped: jrmp: it has no Unix sockets");
            System.exit(3);
        }
        if (Double.parseDouble(options.getOrDefault("--rate", "0")) > 0) {
            System.out.println("skipped: jrmp: it is measured in a closed loop only");
            System.exit(3);
        }
    }

    private static long bytes(String text) {
        int shift = text.endsWith("k") ? 10 : text.endsWith("m") ? 20 : text.endsWith("g") ? 30 : 0;
        return Long.parseLong(shift == 0 ? text : text.substring(0, text.length() - 1)) << shift;
    }

    private static double cpu(List<Child> children) {
        return children.stream().mapToDouble(Child::cpuSeconds).sum();
    }

    /** RMI has no asynchronous calls: a caller is a thread, whatever the style. */
    private static void rpc(Child server, String stub) throws Exception {
        long size = bytes(options.get("--bytes")), millis = (long) (Double.parseDouble(options.get("--seconds")) * 1e3);
        List<Child> all = new ArrayList<>(List.of(server)), clients = new ArrayList<>();
        for (int i = Integer.parseInt(options.get("--processes")); i > 0; i--)
            clients.add(new Child("client", "rpc", stub, options.get("--callers"), Long.toString(size)));
        all.addAll(clients);
        for (Child client : clients)
            client.line(); // READY
        Thread.sleep(WARM_UP_MS);
        double cpu = cpu(all);
        long from = System.nanoTime();
        for (Child client : clients)
            client.input.println("measure");
        Thread.sleep(millis);
        for (Child client : clients)
            client.input.println("over");
        double length = (System.nanoTime() - from) / 1e9, clientMb = 0, serverMb = server.residentMb();
        cpu = cpu(all) - cpu;
        Histogram latency = new Histogram();
        long errors = 0;
        for (Child client : clients) {
            String[] result = client.line().split(" ", 2);
            errors += Long.parseLong(result[0]);
            latency.addWords(result[1]);
            clientMb = Math.max(clientMb, client.residentMb());
            client.end();
        }
        long calls = latency.count();
        System.out.printf(Locale.ROOT, "peer=jrmp mode=rpc tps=%.0f p50_us=%.1f p99_us=%.1f p999_us=%.1f max_us=%.1f"
            + " errors=%d cpu_us_per_call=%.2f client_rss_mb=%.1f server_rss_mb=%.1f%n", calls / length,
            latency.quantileUs(0.5), latency.quantileUs(0.99), latency.quantileUs(0.999), latency.maxUs(), errors,
            cpu * 1e6 / Math.max(1, calls), clientMb, serverMb);
    }

    private static void stream(Child server, String stub) throws Exception {
        long size = bytes(options.get("--bytes")), messages = Long.parseLong(options.get("--messages"));
        Child client = new Child("client", "stream", stub, Long.toString(messages), Long.toString(size));
        client.line(); // READY
        List<Child> all = List.of(server, client);
        double cpu = cpu(all);
        client.input.println("measure");
        String[] result = client.line().split(" ");
        cpu = cpu(all) - cpu;
        long received = Long.parseLong(result[0]);
        double length = Long.parseLong(result[1]) / 1e9, volume = (double) received * size;
        System.out.printf(Locale.ROOT, "peer=jrmp mode=stream sent=%d received=%d lost=%d msgs_per_s=%.0f mb_per_s=%.1f"
            + " cpu_us_per_msg=%.3f cpu_s_per_gb=%.3f sender_rss_mb=%.1f receiver_rss_mb=%.1f%n", messages, received,
            messages - received, received / length, volume / 1e6 / length, cpu * 1e6 / received, cpu * 1e9 / volume,
            client.residentMb(), server.residentMb());
        client.end();
    }

    private static void measure(String mode, String[] words) throws Exception {
        boolean rpc = mode.equals("rpc");
        options.putAll(Map.of("--transport", "tcp", "--bytes", rpc ? "512" : "1024"));
        options.putAll(rpc ? Map.of("--processes", "1", "--callers", "1", "--seconds", "3", "--style", "threads", "--rate", "0")
                           : Map.of("--messages", "100000"));
        parse(words);
        Child server = new Child("server");
        String stub = server.line().substring("READY ".length());
        if (rpc)
            rpc(server, stub);
        else
            stream(server, stub);
        server.end();
        System.exit(0);
    }

    public static void main(String[] words) {
        String mode = words.length > 0 ? words[0] : "no mode";
        try {
            if (mode.equals("server"))
                Worker.serve();
            else if (mode.equals("client"))
                Worker.client(words);
            else if (mode.equals("rpc") || mode.equals("stream"))
                measure(mode, words);
            else
                throw new IllegalArgumentException(mode + ": the modes are rpc and stream");
        } catch (IllegalArgumentException e) {
            System.err.println("peers/run jrmp: " + e.getMessage());
            System.exit(2);
        } catch (Exception e) {
            System.err.println("peers/run jrmp: " + e);
            System.exit(1);
        }
    }
}
