import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.internals.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Says what Kafka's authorizer answers. Lines of standard input, with tabs between the fields:
 * "set EVERYONE" begins a set of ACLs, "acl TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION"
 * adds one, "ask PRINCIPAL HOST OPERATION TYPE NAME" and "any PRINCIPAL HOST OPERATION TYPE" are
 * questions. One line for each question is printed: 1 allowed, 0 denied.
 */
public final class AuthorizerAnswers {
    private record Client(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new StringBuilder();
        StandardAuthorizer authorizer = null;
        String line;
        while ((line = lines.readLine()) != null) {
            String[] said = line.split("\t", -1);
            switch (said[0]) {
                case "set" -> authorizer = authorizer(said[1]);
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                        type(said[1]), said[2], PatternType.fromCode(Byte.parseByte(said[3])),
                        said[4], said[5], operation(said[6]),
                        AclPermissionType.fromCode(Byte.parseByte(said[7]))));
                case "ask" -> {
                    var pattern = new ResourcePattern(type(said[4]), said[5], PatternType.LITERAL);
                    var action = new Action(operation(said[3]), pattern, 1, true, true);
                    var result = authorizer.authorize(client(said), List.of(action)).get(0);
                    answers.append(result == AuthorizationResult.ALLOWED ? "1\n" : "0\n");
                }
                case "any" -> {
                    var result = authorizer.authorizeByResourceType(
                            client(said), operation(said[3]), type(said[4]));
                    answers.append(result == AuthorizationResult.ALLOWED ? "1\n" : "0\n");
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.out.print(answers);
    }

    private static StandardAuthorizer authorizer(String everyone) {
        var made = new StandardAuthorizer();
        made.configure(Map.of("node.id", "1", "super.users", "User:root",
                "allow.everyone.if.no.acl.found", everyone));
        made.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new HashMap<>()));
        made.completeInitialLoad();
        return made;
    }

    private static Client client(String[] said) throws Exception {
        return new Client(
                SecurityUtils.parseKafkaPrincipal(said[1]), InetAddress.getByName(said[2]));
    }

    private static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    private static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }
}
