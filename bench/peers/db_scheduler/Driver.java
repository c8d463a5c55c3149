// db-scheduler: see bench/peers/driven.py for the commands.

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.task.ExecutionContext;
import com.github.kagkarlsson.scheduler.task.SchedulableInstance;
import com.github.kagkarlsson.scheduler.task.TaskDescriptor;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.RecurringTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.github.kagkarlsson.scheduler.task.schedule.Schedules;
import com.zaxxer.hikari.HikariDataSource;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.channels.FileChannel;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Driver {
    static final int BULK = 1000;
    static final int THREADS = 50;
    static final TaskDescriptor<String> NOOP = TaskDescriptor.of("noop", String.class);
    static final String TABLE = """
        CREATE TABLE IF NOT EXISTS scheduled_tasks (
            task_name text NOT NULL, task_instance text NOT NULL, task_data bytea,
            execution_time timestamptz NOT NULL, picked boolean NOT NULL, picked_by text,
            last_success timestamptz, last_failure timestamptz, consecutive_failures int,
            last_heartbeat timestamptz, version bigint NOT NULL, priority smallint,
            PRIMARY KEY (task_name, task_instance));
        CREATE INDEX IF NOT EXISTS execution_time_idx ON scheduled_tasks (execution_time);
        CREATE INDEX IF NOT EXISTS last_heartbeat_idx ON scheduled_tasks (last_heartbeat)""";

    final String options;
    final HikariDataSource database;
    final ConcurrentLinkedQueue<double[]> noted = new ConcurrentLinkedQueue<>();
    final OneTimeTask<String> noop = Tasks.oneTime(NOOP).execute((instance, context) -> note(context));

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver(arguments[1]);
        switch (arguments[0]) {
            case "create" -> driver.create();
            case "enqueue" -> driver.enqueue();
            default -> driver.work(arguments[0].equals("recur") ? (int) driver.number("count") : 0);
        }
    }

    Driver(String options) throws Exception {
        this.options = options;
        database = new HikariDataSource();
        database.setJdbcUrl(jdbcUrl(text("store")));
        database.setMaximumPoolSize(THREADS + 5);
        database.setMinimumIdle(5);
        try (var connection = database.getConnection(); var statement = connection.createStatement()) {
            statement.execute(TABLE);
        }
    }

    void create() throws Exception {
        SchedulerClient client = SchedulerClient.Builder.create(database, noop).build();
        AtomicInteger left = new AtomicInteger((int) number("count"));
        List<Thread> clients = new ArrayList<>();
        long began = System.nanoTime();
        for (int i = 0; i < number("clients"); i++) {
            Thread thread = new Thread(() -> {
                while (left.decrementAndGet() >= 0) client.schedule(someJob());
            });
            thread.start();
            clients.add(thread);
        }
        for (Thread thread : clients) thread.join();
        report(began);
    }

    void enqueue() {
        SchedulerClient client = SchedulerClient.Builder.create(database, noop).build();
        long began = System.nanoTime();
        for (int left = (int) number("count"); left > 0; left -= BULK) {
            List<SchedulableInstance<?>> jobs = new ArrayList<>();
            for (int i = 0; i < Math.min(BULK, left); i++) jobs.add(someJob());
            client.scheduleBatch(jobs);
        }
        report(began);
    }

    void work(int count) throws Exception {
        List<RecurringTask<Void>> recurring = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            recurring.add(Tasks.recurring("every-minute-" + i, Schedules.cron("0 * * * * *"))
                .execute((instance, context) -> note(context)));
        }
        Scheduler scheduler = Scheduler.create(database, noop)
            .startTasks(recurring)
            .threads(THREADS)
            .pollUsingLockAndFetch(1.0, 4.0)
            .pollingInterval(Duration.ofMillis(100))
            .build();
        record();
        System.out.println("ready");
        System.in.read();
        scheduler.start();
        if (count > 0) System.out.println("set up");
    }

    SchedulableInstance<String> someJob() {
        double due = number("due") + ThreadLocalRandom.current().nextDouble() * number("spread");
        Instant instant = Instant.EPOCH.plus((long) (due * 1000), ChronoUnit.MICROS);
        return NOOP.instance(UUID.randomUUID().toString()).data("x".repeat(190)).scheduledTo(instant);
    }

    void note(ExecutionContext context) {
        noted.add(new double[] {millis(context.getExecution().getExecutionTime()), millis(Instant.now())});
    }

    /** A thread writes what was noted every few milliseconds. */
    void record() throws IOException {
        FileChannel file = new FileOutputStream(text("starts"), true).getChannel();
        Thread writer = new Thread(() -> {
            try {
                while (true) {
                    Thread.sleep(5);
                    ByteBuffer buffer = ByteBuffer.allocate(1 << 20).order(ByteOrder.LITTLE_ENDIAN);
                    for (double[] start; buffer.remaining() >= 16 && (start = noted.poll()) != null; ) {
                        buffer.putDouble(start[0]).putDouble(start[1]);
                    }
                    file.write(buffer.flip());
                }
            } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
        writer.start();
    }

    static double millis(Instant instant) {
        return instant.getEpochSecond() * 1000.0 + instant.getNano() / 1e6;
    }

    static void report(long began) {
        System.out.println("{\"seconds\": " + (System.nanoTime() - began) / 1e9 + "}");
        System.exit(0);
    }

    static String jdbcUrl(String store) {
        URI uri = URI.create(store.replace("@/", "@localhost/"));
        String directory = URLDecoder.decode(uri.getRawQuery().replace("host=", ""), StandardCharsets.UTF_8);
        return "jdbc:postgresql://localhost" + uri.getPath() + "?user=" + uri.getUserInfo()
            + "&reWriteBatchedInserts=true&socketFactory=org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg&socketFactoryArg="
            + directory + "/.s.PGSQL.5432";
    }

    /** The options are one flat JSON object. */
    String text(String name) {
        return find(name, "\"([^\"]*)\"");
    }

    double number(String name) {
        return Double.parseDouble(find(name, "([-+.0-9eE]+)"));
    }

    String find(String name, String value) {
        Matcher matcher = Pattern.compile("\"" + name + "\": *" + value).matcher(options);
        if (!matcher.find()) throw new IllegalArgumentException(name + " is missing in " + options);
        return matcher.group(1);
    }
}
