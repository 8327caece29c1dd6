package groupd.clients;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Calls mains of the official command-line tools, one after another in this process: a JVM start each would
 * cost more than the calls. One JSON request a line, {@code {"main": CLASS, "args": [...], "stdin": TEXT}}, is
 * answered with {@code {"exit": CODE, "out": TEXT, "err": TEXT}}.
 */
final class ToolsCommand {
    /** Leaves a main where it would have ended the process. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;

        Ended() {
            super("the tool ended", null, false, false);
        }
    }

    private Integer exitCode;

    static void run() throws Exception {
        ToolsCommand command = new ToolsCommand();
        Exit.setExitProcedure((code, message) -> command.end(code));
        Exit.setHaltProcedure((code, message) -> command.end(code));
        Exit.setShutdownHookAdder((name, hook) -> {});
        InputStream stdin = System.in;
        try (BufferedReader in = new BufferedReader(new InputStreamReader(stdin, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                Events.emit(command.answer(Events.JSON.readTree(line)));
            }
        }
    }

    /** The first code counts: some tools catch whatever leaves their body and exit again. */
    private void end(int code) {
        if (exitCode == null) {
            exitCode = code;
        }
        throw new Ended();
    }

    private Map<String, Object> answer(JsonNode request) throws ReflectiveOperationException {
        List<String> args = new ArrayList<>();
        request.get("args").forEach(arg -> args.add(arg.asText()));
        Method main = Class.forName(request.get("main").asText()).getMethod("main", String[].class);
        PrintStream stdout = System.out;
        PrintStream stderr = System.err;
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        exitCode = null;
        System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        try {
            main.invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Ended)) {
                failure.getCause().printStackTrace();
                exitCode = exitCode == null ? Integer.valueOf(1) : exitCode;
            }
        } finally {
            System.setOut(stdout);
            System.setErr(stderr);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("exit", exitCode == null ? 0 : exitCode);
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
        return answer;
    }
}
