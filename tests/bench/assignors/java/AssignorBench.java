import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import com.sun.management.OperatingSystemMXBean;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * Times Kafka's assignors. A line in: assignor, subscription, kind, racks (on/off), members, ratio,
 * topics, warm-up rounds, measured rounds, milliseconds of a round. A line out, of each measured
 * round: the average milliseconds of an `assign`, and what the process took of a processor
 * meanwhile (its collector and compiler too). Ends with its input.
 */
public final class AssignorBench {
    private static final int BUCKETS = 5;
    private static final int RACKS = 3;
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final List<String> names = new ArrayList<>();
    private final TopicIds.CachedTopicResolver resolver;
    private final SubscribedTopicDescriber describer;
    private final boolean racks;

    private AssignorBench(int topics, int partitionsPerTopic, boolean racks) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int topic = 0; topic < topics; topic++) {
            Uuid id = new Uuid(0x4242L, topic + 1L);
            names.add("topic-" + topic);
            delta.replay(new TopicRecord().setTopicId(id).setName("topic-" + topic));
            for (int partition = 0; partition < partitionsPerTopic; partition++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition)
                    .setReplicas(List.of(partition % 4, (partition + 1) % 4)));
            }
        }
        CoordinatorMetadataImage image =
            new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
        this.resolver = new TopicIds.CachedTopicResolver(image);
        this.describer = new SubscribedTopicDescriberImpl(image);
        this.racks = racks;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(line.trim().split(" ")));
        }
    }

    private static String answer(String[] words) {
        PartitionAssignor assignor =
            words[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type = SubscriptionType.valueOf(words[1].toUpperCase());
        int members = Integer.parseInt(words[4]);
        int topics = Integer.parseInt(words[6]);
        int perTopic = members * Integer.parseInt(words[5]) / topics;
        AssignorBench bench = new AssignorBench(topics, perTopic, words[3].equals("on"));
        GroupSpecImpl spec = words[2].equals("incremental")
            ? bench.withNewMember(assignor, type, members)
            : bench.fresh(type, members);
        bench.rounds(assignor, spec, Integer.parseInt(words[7]), Long.parseLong(words[9]));
        StringBuilder line = new StringBuilder();
        for (double[] round : bench.rounds(
            assignor, spec, Integer.parseInt(words[8]), Long.parseLong(words[9]))) {
            line.append(line.length() == 0 ? "" : " ").append(round[0]).append(' ').append(round[1]);
        }
        return line.toString();
    }

    private GroupSpecImpl fresh(SubscriptionType type, int members) {
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        int bucketMembers = (members + BUCKETS - 1) / BUCKETS;
        int bucketTopics = (names.size() + BUCKETS - 1) / BUCKETS;
        Set<String> all = new HashSet<>(names);
        for (int member = 0; member < members; member++) {
            Set<String> subscribed = all;
            if (type == SubscriptionType.HETEROGENEOUS) {
                int first = member / bucketMembers * bucketTopics;
                int end = Math.min(first + bucketTopics, names.size());
                subscribed = new HashSet<>(names.subList(first, end));
            }
            specs.put("member" + member, spec(
                member, new TopicIds(subscribed, resolver), Assignment.EMPTY));
        }
        return new GroupSpecImpl(specs, type, Map.of());
    }

    private MemberSubscriptionAndAssignmentImpl spec(
        int member, Set<Uuid> subscribed, Assignment prior) {
        Optional<String> rack = racks ? Optional.of("rack" + member % RACKS) : Optional.empty();
        return new MemberSubscriptionAndAssignmentImpl(rack, Optional.empty(), subscribed, prior);
    }

    private GroupSpecImpl withNewMember(
        PartitionAssignor assignor, SubscriptionType type, int members) {
        GroupSpecImpl before = fresh(type, members - 1);
        GroupAssignment given = assignor.assign(before, describer);
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        Map<Uuid, Map<Integer, String>> holders = new HashMap<>();
        for (int member = 0; member < members - 1; member++) {
            String id = "member" + member;
            Map<Uuid, Set<Integer>> prior = given.members().get(id).partitions();
            prior.forEach((topic, numbers) -> {
                Map<Integer, String> held = holders.computeIfAbsent(topic, key -> new HashMap<>());
                numbers.forEach(number -> held.put(number, id));
            });
            Set<Uuid> subscribed = before.memberSubscription(id).subscribedTopicIds();
            specs.put(id, spec(member, subscribed, new Assignment(Map.copyOf(prior))));
        }
        Set<Uuid> last =
            before.memberSubscription("member" + (members - 2)).subscribedTopicIds();
        specs.put("newMember", spec(members - 1, last, Assignment.EMPTY));
        return new GroupSpecImpl(specs, type, holders);
    }

    private double[][] rounds(
        PartitionAssignor assignor, GroupSpecImpl spec, int count, long roundMs) {
        double[][] averages = new double[count][];
        for (int round = 0; round < count; round++) {
            long cpu = PROCESS.getProcessCpuTime();
            long started = System.nanoTime();
            long elapsed = 0;
            int calls = 0;
            while (calls == 0 || elapsed < roundMs * 1_000_000) {
                resolver.clear();
                if (assignor.assign(spec, describer).members().isEmpty()) {
                    throw new IllegalStateException("nothing assigned");
                }
                calls++;
                elapsed = System.nanoTime() - started;
            }
            cpu = PROCESS.getProcessCpuTime() - cpu;
            averages[round] = new double[] {elapsed / 1e6 / calls, cpu / 1e6 / calls};
        }
        return averages;
    }
}
