package groupd.clients;

import java.util.HashMap;
import java.util.Map;

/** Entry point: a command of the switch below, then {@code --name value} pairs. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 1; i + 1 < args.length; i += 2) {
            options.put(args[i].replaceFirst("^--", ""), args[i + 1]);
        }
        switch (args.length == 0 ? "" : args[0]) {
            case "consume" -> ConsumeCommand.run(options);
            case "produce" -> ProduceCommand.run(options);
            case "process" -> ProcessCommand.run(options);
            case "share" -> ShareCommand.run(options);
            case "admin" -> AdminCommand.run(options);
            case "tools" -> ToolsCommand.run();
            default -> {
                System.err.println("usage: tools | consume | produce | process | share | admin --bootstrap HOST:PORT ...");
                System.exit(2);
            }
        }
    }
}
