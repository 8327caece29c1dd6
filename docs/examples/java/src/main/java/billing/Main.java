package billing;

import java.time.Duration;

/** {@code java billing.Main SERVERS}, until SIGTERM or Ctrl-C. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws InterruptedException {
        Processor processor = new Processor(
                arguments[0],
                order -> System.out.println("charged " + order.cents() + " cents for " + order.id()),
                Duration.ofSeconds(1));
        Thread thread = new Thread(processor, "billing");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            processor.stop();
            try {
                thread.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        thread.start();
        thread.join();
    }
}
