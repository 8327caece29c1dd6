/* Members of one group, for the benchmarks: state machines over a connection each, one thread.
 *
 *   members ADDRESS PORT consumer|classic GROUP TOPIC MEMBERS PARTITIONS INTERVAL_MS TIMEOUT_S LEAVES
 *
 * All members join at once, over connections that are open already. Each does as clients do: it
 * applies what it is told at once, acknowledges that with its next heartbeat, sent at once, and
 * otherwise sends a heartbeat when the interval since the last is over: the one that the reply
 * tells, or INTERVAL_MS in the classic protocol. There the leader computes a range assignment.
 *
 * The group is stable once all members have the same epoch (generation), nothing is left to
 * acknowledge, every partition has exactly one owner, loads are even, and the coordinator, asked
 * after that, calls the group stable at this very epoch. Then, LEAVES times, after a pause, one
 * member leaves; timed are the moments at which its partitions are owned again, and all is stable.
 *
 * One line of JSON comes out; times in milliseconds. `overlaps`: how often a member took a
 * partition that another one still had: 0, or the coordinator is wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

enum {
    JOIN_GROUP = 11,
    HEARTBEAT = 12,
    LEAVE_GROUP = 13,
    SYNC_GROUP = 14,
    FIND_COORDINATOR = 10,
    DESCRIBE_GROUPS = 15,
    CONSUMER_HEARTBEAT = 68,
    CONSUMER_DESCRIBE = 69,
};
enum {
    LOADING = 14,
    NOT_AVAILABLE = 15,
    NOT_COORDINATOR = 16,
    ILLEGAL_GENERATION = 22,
    UNKNOWN_MEMBER = 25,
    REBALANCE = 27,
    ID_REQUIRED = 79,
    FENCED_EPOCH = 110,
};
enum { SESSION_MS = 45000, REBALANCE_MS = 60000, RETRY_MS = 100, ID_MAX = 128, EVENTS = 512 };

enum next { JOIN, SYNC, BEAT, ACKNOWLEDGE, LEAVE, GONE };

struct member {
    int fd, waits_to_write;
    struct bytes in, out;
    char id[ID_MAX];
    enum next next;     /* what is sent next, or is in flight */
    int in_flight, key; /* `key`: the API in flight */
    int32_t epoch, correlation;
    int32_t *owned;
    uint32_t owned_count;
    int settled; /* nothing to acknowledge */
    uint64_t due_ns, sent_ns;
    struct bytes members; /* of a leader: ids, each with its 0 */
    uint32_t member_count;
};

static const char *group, *topic;
static int classic, epoll_fd;
static uint32_t present, partitions, settled, once, even;
static uint64_t interval_ns, requests, errors, overlaps, now;
static uint16_t *owners;
static struct member *members, control;
static uint32_t member_count;
static struct bytes frame;
static uint8_t topic_id[16];
static int32_t top_epoch;
static uint32_t at_top;

static void die(const char *what) {
    fprintf(stderr, "members: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t ms(uint64_t count) { return count * 1000000u; }

/* What the group looks like from its members. */

static int is_even(const struct member *m) {
    return m->owned_count == partitions / present ||
           (m->owned_count == partitions / present + 1 && partitions % present);
}

static void drop(struct member *m) {
    for (uint32_t i = 0; i < m->owned_count; i++) {
        once -= owners[m->owned[i]] == 1;
        owners[m->owned[i]]--;
        once += owners[m->owned[i]] == 1;
    }
    even -= is_even(m);
    m->owned_count = 0;
    even += is_even(m);
}

/* Takes over a list of partitions; whether it differs from what it has. */
static int apply(struct member *m, const uint8_t *list, uint32_t count) {
    struct reader r = {list, list + 4 * count};
    int32_t *given = malloc(sizeof *given * (count + 1));
    int changed = count != m->owned_count;
    if (!given) die("memory");
    for (uint32_t i = 0; i < count; i++) {
        given[i] = get_int(&r, 4);
        if (given[i] < 0 || (uint32_t)given[i] >= partitions) wire_fail("an unknown partition");
        if (!changed) changed = given[i] != m->owned[i];
    }
    if (!changed) {
        free(given);
        return 0;
    }
    drop(m);
    free(m->owned);
    even -= is_even(m);
    m->owned = given;
    m->owned_count = count;
    even += is_even(m);
    for (uint32_t i = 0; i < count; i++) {
        once -= owners[given[i]] == 1;
        owners[given[i]]++;
        once += owners[given[i]] == 1;
        overlaps += owners[given[i]] > 1;
    }
    return 1;
}

static void set_epoch(struct member *m, int32_t epoch) {
    at_top -= m->epoch == top_epoch;
    m->epoch = epoch;
    if (epoch > top_epoch) {
        top_epoch = epoch;
        at_top = 0;
    }
    at_top += epoch == top_epoch;
}

static void set_settled(struct member *m, int is_settled) {
    settled += (uint32_t)(is_settled - m->settled);
    m->settled = is_settled;
}

/* Sending. */

static void watch(struct member *m, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (m->waits_to_write ? EPOLLOUT : 0),
                                .data.ptr = m};
    if (epoll_ctl(epoll_fd, operation, m->fd, &event)) die("epoll_ctl");
}

static void flush(struct member *m) {
    size_t done = 0;
    while (done < m->out.length) {
        ssize_t wrote = send(m->fd, m->out.data + done, m->out.length - done, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EAGAIN) break;
        if (wrote < 0) die("send");
        done += (size_t)wrote;
    }
    memmove(m->out.data, m->out.data + done, m->out.length - done);
    m->out.length -= done;
    if (m->waits_to_write != (m->out.length > 0)) {
        m->waits_to_write = m->out.length > 0;
        watch(m, EPOLL_CTL_MOD);
    }
}

static void begin(struct member *m, int key, int version, int flexible) {
    m->key = key;
    frame_begin(&frame, key, version, ++m->correlation, flexible);
}

static void leave_out(struct member *m) {
    frame_end(&frame);
    put(&m->out, frame.data, frame.length);
    m->in_flight = 1;
    m->sent_ns = now;
    requests++;
    flush(m);
}

/* ConsumerGroupHeartbeat v1. A join tells names and an empty expression, as librdkafka does. */
static void send_consumer(struct member *m) {
    int joins = m->next == JOIN;
    begin(m, CONSUMER_HEARTBEAT, 1, 1);
    put_compact(&frame, group);
    put_compact(&frame, m->id);
    put_int(&frame, m->next == LEAVE ? -1 : m->epoch, 4);
    put_varint(&frame, 0); /* instance */
    put_varint(&frame, 0); /* rack */
    put_int(&frame, joins ? REBALANCE_MS : -1, 4);
    put_varint(&frame, joins ? 2 : 0);
    if (joins) put_compact(&frame, topic);
    put_varint(&frame, joins ? 1 : 0); /* expression */
    put_varint(&frame, 0);             /* assignor */
    if (m->next != ACKNOWLEDGE) {
        put_varint(&frame, joins ? 1 : 0);
    } else {
        put_varint(&frame, m->owned_count ? 2 : 1);
        if (m->owned_count) {
            put(&frame, topic_id, sizeof topic_id);
            put_varint(&frame, m->owned_count + 1);
            for (uint32_t i = 0; i < m->owned_count; i++) put_int(&frame, m->owned[i], 4);
            put_int(&frame, 0, 1);
        }
    }
    put_int(&frame, 0, 1);
    leave_out(m);
}

static void put_member(struct member *m) {
    put_string(&frame, group);
    put_int(&frame, m->epoch, 4);
    put_string(&frame, m->id);
    put_int(&frame, -1, 2); /* instance */
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The range assignment of all members, as bytes of SyncGroup. */
static void put_ranges(struct member *m) {
    char **ids = malloc(sizeof *ids * (m->member_count + 1)), *at = (char *)m->members.data;
    if (!ids) die("memory");
    for (uint32_t i = 0; i < m->member_count; i++, at += strlen(at) + 1) ids[i] = at;
    qsort(ids, m->member_count, sizeof *ids, by_text);
    put_int(&frame, m->member_count, 4);
    uint32_t next = 0;
    for (uint32_t i = 0; i < m->member_count; i++) {
        uint32_t count = partitions / m->member_count + (i < partitions % m->member_count);
        put_string(&frame, ids[i]);
        put_int(&frame, (int64_t)(2 + 4 + 2 + strlen(topic) + 4 + 4 * count + 4), 4);
        put_int(&frame, 0, 2);
        put_int(&frame, 1, 4);
        put_string(&frame, topic);
        put_int(&frame, count, 4);
        for (uint32_t j = 0; j < count; j++) put_int(&frame, next++, 4);
        put_int(&frame, -1, 4);
    }
    free(ids);
}

static void send_classic(struct member *m) {
    switch (m->next) {
    case JOIN:
        begin(m, JOIN_GROUP, 5, 0);
        put_string(&frame, group);
        put_int(&frame, SESSION_MS, 4);
        put_int(&frame, REBALANCE_MS, 4);
        put_string(&frame, m->id);
        put_int(&frame, -1, 2);
        put_string(&frame, "consumer");
        put_int(&frame, 1, 4);
        put_string(&frame, "range");
        put_int(&frame, (int64_t)(2 + 4 + 2 + strlen(topic) + 4), 4);
        put_int(&frame, 0, 2);
        put_int(&frame, 1, 4);
        put_string(&frame, topic);
        put_int(&frame, -1, 4);
        break;
    case SYNC:
        begin(m, SYNC_GROUP, 3, 0);
        put_member(m);
        put_ranges(m);
        break;
    case LEAVE:
        begin(m, LEAVE_GROUP, 1, 0);
        put_string(&frame, group);
        put_string(&frame, m->id);
        break;
    default:
        begin(m, HEARTBEAT, 3, 0);
        put_member(m);
    }
    leave_out(m);
}

static void send_next(struct member *m) {
    m->due_ns = UINT64_MAX;
    if (m->next == GONE || m->in_flight) return;
    if (classic)
        send_classic(m);
    else
        send_consumer(m);
}

/* Replies. */

static void rest(struct member *m, uint64_t after_ns) {
    m->next = BEAT;
    m->due_ns = m->sent_ns + after_ns;
}

static void join_anew(struct member *m) {
    drop(m);
    set_settled(m, 0);
    m->next = JOIN;
    send_next(m);
}

/* Whether the reply is an error, of which all is done then. */
static int failed(struct member *m, int32_t code) {
    if (!code) return 0;
    errors += code != REBALANCE && code != ID_REQUIRED;
    if (m->next == LEAVE) wire_fail("a member cannot leave");
    switch (code) {
    case LOADING:
    case NOT_AVAILABLE:
    case NOT_COORDINATOR:
        m->due_ns = now + ms(RETRY_MS);
        return 1;
    case FENCED_EPOCH:
    case UNKNOWN_MEMBER:
    case ILLEGAL_GENERATION:
        if (classic && code == UNKNOWN_MEMBER) m->id[0] = 0;
        set_epoch(m, classic ? -1 : 0);
        join_anew(m);
        return 1;
    case REBALANCE:
    case ID_REQUIRED:
        join_anew(m);
        return 1;
    default:
        fprintf(stderr, "members: error %d to API %d\n", code, m->key);
        exit(1);
    }
}

static void consumer_reply(struct member *m, struct reader *r) {
    get_varint(r); /* tags of the header */
    get_int(r, 4);
    int32_t code = get_int(r, 2);
    char message[512];
    get_compact(r, message, sizeof message);
    if (failed(m, code)) return;
    get_compact(r, NULL, 0);
    int32_t epoch = get_int(r, 4), told_ms = get_int(r, 4);
    if (m->next == LEAVE) {
        m->next = GONE;
        return;
    }
    set_epoch(m, epoch);
    int changed = 0;
    if (get_int(r, 1) == 1) {
        uint32_t topics = get_varint(r), count = 0;
        const uint8_t *list = NULL;
        if (topics > 2) wire_fail("partitions of two topics");
        if (topics == 2) {
            memcpy(topic_id, skip(r, sizeof topic_id), sizeof topic_id);
            count = get_varint(r) - 1;
            list = skip(r, 4 * (size_t)count);
        }
        changed = apply(m, list, count);
    }
    set_settled(m, !changed);
    if (changed) {
        m->next = ACKNOWLEDGE;
        send_next(m);
    } else {
        rest(m, ms((uint64_t)told_ms));
    }
}

static void joined(struct member *m, struct reader *r) {
    int32_t code = get_int(r, 2), generation = get_int(r, 4);
    char leader[ID_MAX], given[ID_MAX];
    get_string(r, NULL, 0);
    get_string(r, leader, sizeof leader);
    get_string(r, given, sizeof given);
    if (code == ID_REQUIRED || !code) strcpy(m->id, given);
    if (failed(m, code)) return;
    set_epoch(m, generation);
    m->members.length = 0;
    m->member_count = (uint32_t)get_int(r, 4);
    for (uint32_t i = 0; i < m->member_count; i++) {
        char id[ID_MAX];
        get_string(r, id, sizeof id);
        get_string(r, NULL, 0);
        skip(r, (size_t)get_int(r, 4));
        put(&m->members, id, strlen(id) + 1);
    }
    m->next = SYNC;
    send_next(m);
}

static void synced(struct member *m, struct reader *r) {
    int32_t code = get_int(r, 2);
    if (failed(m, code)) return;
    uint32_t count = 0;
    const uint8_t *list = NULL;
    if (get_int(r, 4) > 0) {
        get_int(r, 2);
        if (get_int(r, 4) == 1) {
            get_string(r, NULL, 0);
            count = (uint32_t)get_int(r, 4);
            list = skip(r, 4 * (size_t)count);
        }
    }
    apply(m, list, count);
    set_settled(m, 1);
    rest(m, interval_ns);
}

static void classic_reply(struct member *m, struct reader *r) {
    get_int(r, 4);
    if (m->key == JOIN_GROUP) {
        joined(m, r);
    } else if (m->key == SYNC_GROUP) {
        synced(m, r);
    } else if (!failed(m, get_int(r, 2))) {
        if (m->next == LEAVE)
            m->next = GONE;
        else
            rest(m, interval_ns);
    }
}

/* The control connection: where the coordinator is, and what it says of the group. */

static int asked, answered, control_open;
static int32_t found_code, said_epoch;
static char said_state[64];

static void control_reply(struct reader *r) {
    answered = 1;
    if (control.key == FIND_COORDINATOR) {
        get_int(r, 4);
        found_code = get_int(r, 2);
        return;
    }
    if (control.key == CONSUMER_DESCRIBE) {
        get_varint(r);
        get_int(r, 4);
        get_varint(r);
        if (get_int(r, 2)) return;
        get_compact(r, NULL, 0);
        get_compact(r, NULL, 0);
        get_compact(r, said_state, sizeof said_state);
        said_epoch = get_int(r, 4);
        return;
    }
    get_int(r, 4); /* throttle */
    get_int(r, 4);
    if (get_int(r, 2)) return;
    get_string(r, NULL, 0);
    get_string(r, said_state, sizeof said_state);
    said_epoch = top_epoch;
}

static void ask(int key) {
    if (!control_open) return;
    begin(&control, key, key == CONSUMER_DESCRIBE ? 0 : 1, key == CONSUMER_DESCRIBE);
    if (key == CONSUMER_DESCRIBE) {
        put_varint(&frame, 2);
        put_compact(&frame, group);
        put_int(&frame, 0, 2); /* operations, tags */
    } else if (key == DESCRIBE_GROUPS) {
        put_int(&frame, 1, 4);
        put_string(&frame, group);
    } else {
        put_string(&frame, group);
        put_int(&frame, 0, 1);
    }
    said_state[0] = 0;
    asked = 1;
    answered = 0;
    leave_out(&control);
    requests--;
}

/* Input. */

static void receive(struct member *m) {
    enum { AT_ONCE = 1 << 16 };
    size_t before = m->in.length;
    uint8_t *at = grow(&m->in, AT_ONCE);
    ssize_t got = recv(m->fd, at, AT_ONCE, 0);
    m->in.length = before + (size_t)(got > 0 ? got : 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0 && m == &control) {
        /* A peer that does not know the question; then its word cannot be had. */
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, m->fd, NULL);
        control_open = 0;
        answered = 1;
        return;
    }
    if (got <= 0) {
        if (got == 0) errno = ECONNRESET;
        die("recv");
    }
    while (m->in.length >= 4) {
        struct reader r = {m->in.data, m->in.data + m->in.length};
        size_t length = (size_t)get_int(&r, 4);
        if (m->in.length - 4 < length) break;
        r.end = r.at + length;
        if (get_int(&r, 4) != m->correlation) wire_fail("a reply out of order");
        m->in_flight = 0;
        if (m == &control)
            control_reply(&r);
        else if (classic)
            classic_reply(m, &r);
        else
            consumer_reply(m, &r);
        memmove(m->in.data, m->in.data + 4 + length, m->in.length - 4 - length);
        m->in.length -= 4 + length;
    }
    /* Thousands of idle buffers would be the machine's memory, not the peer's. */
    if (!m->in.length) {
        free(m->in.data);
        m->in = (struct bytes){0};
    }
}

static void turn(void) {
    static uint64_t looked_ns;
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(epoll_fd, events, EVENTS, 1);
    now = clock_ns();
    for (int i = 0; i < ready; i++) {
        struct member *m = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) flush(m);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(m);
    }
    if (now - looked_ns < ms(1)) return;
    looked_ns = now;
    for (uint32_t i = 0; i < member_count; i++)
        if (members[i].due_ns <= now) send_next(&members[i]);
}

/* The run. */

static void open_connection(struct member *m, const struct sockaddr_in *address) {
    int on = 1;
    m->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (m->fd < 0 || connect(m->fd, (const struct sockaddr *)address, sizeof *address))
        die("connect");
    setsockopt(m->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(m->fd, F_SETFL, O_NONBLOCK);
    watch(m, EPOLL_CTL_ADD);
}

static void report_and_exit(const char *why) {
    fprintf(stderr,
            "members: %s: %u members, %u at the highest epoch %d, %u settled, %u of %u partitions "
            "owned once, %u members with an even load; the coordinator says \"%s\" at epoch %d\n",
            why, present, at_top, top_epoch, settled, once, partitions, even, said_state,
            said_epoch);
    exit(1);
}

static void pass(uint64_t until_ns) {
    while (now < until_ns) turn();
}

static void find_coordinator(uint64_t end_ns) {
    do {
        ask(FIND_COORDINATOR);
        while (!answered && now < end_ns) turn();
        if (!control_open) wire_fail("closes the connection on FindCoordinator");
        if (found_code) pass(now + ms(RETRY_MS));
        if (now >= end_ns) report_and_exit("no coordinator");
    } while (found_code);
}

/* When the group became stable after this; in `owned_ns` when every partition had its owner. */
static uint64_t until_stable(uint64_t end_ns, uint64_t *owned_ns) {
    uint64_t since_ns = 0;
    *owned_ns = asked = 0;
    for (;;) {
        turn();
        if (now >= end_ns) report_and_exit("not stable in time");
        if (once != partitions)
            *owned_ns = 0;
        else if (!*owned_ns)
            *owned_ns = now;
        if (at_top != present || settled != present || once != partitions || even != present) {
            since_ns = asked = 0;
        } else if (!since_ns) {
            since_ns = now;
        }
        if (since_ns && !asked && !control.in_flight) ask(classic ? DESCRIBE_GROUPS : CONSUMER_DESCRIBE);
        if (since_ns && !control_open) return since_ns;
        if (since_ns && asked && answered) {
            if (!strcasecmp(said_state, "stable") && said_epoch == top_epoch) return since_ns;
            if (!said_state[0]) return since_ns;
            since_ns = asked = 0;
        }
    }
}

static void count_anew(void) {
    even = 0;
    for (uint32_t i = 0; i < member_count; i++)
        even += members[i].next < LEAVE && is_even(&members[i]);
}

static void leave_group(struct member *m) {
    drop(m);
    set_settled(m, 0);
    set_epoch(m, -1);
    present--;
    m->next = LEAVE;
    count_anew();
    send_next(m);
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double to_ms(uint64_t ns) { return (double)ns / 1e6; }

static void leaves(uint32_t count, uint64_t timeout_ns) {
    for (uint32_t i = 0; i < count; i++) {
        /* They moved together; members that have lived for a while beat at times of their own. */
        pass(now + interval_ns);
        for (uint32_t j = 0; j < member_count; j++)
            if (members[j].due_ns != UINT64_MAX)
                members[j].due_ns = now + (uint64_t)rand() % interval_ns;
        pass(now + interval_ns * 2);
        uint64_t owned_ns, began = clock_ns(), end_ns = began + timeout_ns;
        struct member *m = &members[(i * 7919 + 17) % member_count];
        while (m->next == GONE || m->in_flight) {
            turn();
            m = &members[(uint32_t)rand() % member_count];
        }
        began = clock_ns();
        uint64_t sent = requests;
        leave_group(m);
        uint64_t stable_ns = until_stable(end_ns, &owned_ns);
        printf("%s{\"owned_ms\": %.3f, \"stable_ms\": %.3f, \"requests\": %llu}", i ? ", " : "",
               to_ms(owned_ns - began), to_ms(stable_ns - began),
               (unsigned long long)(requests - sent));
    }
}

int main(int count, char **arguments) {
    if (count != 11) {
        fprintf(stderr, "members ADDRESS PORT consumer|classic GROUP TOPIC MEMBERS PARTITIONS "
                        "INTERVAL_MS TIMEOUT_S LEAVES\n");
        return 2;
    }
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(arguments[2]))};
    if (inet_pton(AF_INET, arguments[1], &address.sin_addr) != 1) die("address");
    classic = !strcmp(arguments[3], "classic");
    group = arguments[4];
    topic = arguments[5];
    present = member_count = (uint32_t)atoi(arguments[6]);
    partitions = (uint32_t)atoi(arguments[7]);
    interval_ns = ms((uint64_t)atoi(arguments[8]));
    uint64_t timeout_ns = ms(1000) * (uint64_t)atoi(arguments[9]);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    members = calloc(member_count, sizeof *members);
    owners = calloc(partitions, sizeof *owners);
    if (!members || !owners || !member_count || !interval_ns) wire_fail("nothing to do");
    for (uint32_t i = 0; i < member_count; i++) members[i].due_ns = UINT64_MAX;
    epoll_fd = epoll_create1(0);
    now = clock_ns();
    open_connection(&control, &address);
    control_open = 1;
    find_coordinator(now + timeout_ns);
    for (uint32_t i = 0; i < member_count; i++) {
        struct member *m = &members[i];
        open_connection(m, &address);
        m->epoch = classic ? -1 : 0;
        if (!classic) snprintf(m->id, sizeof m->id, "%08x-%06u", (i + 1) * 2654435761u, i);
    }
    count_anew();
    top_epoch = classic ? -1 : 0;
    at_top = member_count;
    double cpu = cpu_seconds();
    uint64_t owned_ns, began = now = clock_ns();
    for (uint32_t i = 0; i < member_count; i++) send_next(&members[i]);
    uint64_t stable_ns = until_stable(began + timeout_ns, &owned_ns);
    printf("{\"stable_ms\": %.3f, \"requests\": %llu, \"cpu_ms\": %.3f, \"epoch\": %d, \"state\": \"%s\", "
           "\"leaves\": [",
           to_ms(stable_ns - began), (unsigned long long)requests, (cpu_seconds() - cpu) * 1e3,
           top_epoch, control_open ? said_state : "");
    leaves((uint32_t)atoi(arguments[10]), timeout_ns);
    printf("], \"overlaps\": %llu, \"errors\": %llu}\n", (unsigned long long)overlaps,
           (unsigned long long)errors);
    return 0;
}
