/* The load generator of the benchmarks: prepared requests over many connections, one thread, epoll.
 *
 *   generator ADDRESS PORT repeat WINDOW  SECONDS WARMUP plain|tls  <plan >usual-replies
 *   generator ADDRESS PORT once   WINDOW  TIMEOUT HOLD   plain|tls  <plan >replies
 *   generator ADDRESS PORT share  RECORDS SECONDS WARMUP plain|tls  <plan
 *
 * The plan: for every connection the number of its requests (int32) and the requests, each with its
 * length in front, as they go over the wire (big endian). `repeat`: a connection sends its only
 * request again and again, WINDOW at a time. `once`: it sends each once, in order, and all connections
 * stay open for HOLD more seconds. `share`: its only request is a ShareFetch that opens a session; each
 * further one acknowledges what the last one acquired (see share.h). Replies count that confirm
 * acknowledgements. It ends early when RECORDS have been acknowledged. `tls`: over TLS, and no certificate is checked. Only the correlation id (bytes 8 to 12) is written here. Out come replies without their length and
 * correlation id, each behind its length (int32): in `repeat` the newest one of every connection from
 * before the timed part, in `once` all, by connection. How many replies in the timed part differed
 * from that one is counted, so that an error in the middle cannot pass for speed.
 * Standard error gets a line "counting" and a line "counted" around the timed part, or around HOLD, so
 * that others can look at the peer then, and at last the figures as one line of JSON; times in microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "share.h"

enum { HEAD = 8, WINDOW_MAX = 64, EVENTS = 512, BUCKETS = 2048, STEP = 32, READ_MAX = 1 << 16 };

/* Between new connections: a peer with a short queue of those that it has not accepted yet would
 * drop some, and the kernel tries again after a second only. */
enum { PACE_US = 200 };

struct request {
    uint8_t *bytes;
    uint32_t length;
};

struct connection {
    int fd;
    SSL *tls; /* NULL: plain text */
    uint32_t requests, sent, answered, next_correlation;
    struct request *plan;
    uint64_t started[WINDOW_MAX];
    uint8_t *buffer, *usual;
    uint32_t filled, capacity, usual_length;
    uint8_t *pending; /* what the socket did not take */
    uint32_t pending_length, pending_capacity;
    int waits_to_write;
    struct request *replies;
    struct share_consumer share;
};

static int repeat, share, window, epoll_fd;
static SSL_CTX *tls_context; /* NULL: plain text */
static uint64_t counted, changed, acknowledged, acknowledged_most, answered_total, buckets[BUCKETS];
static int counting, stopping;
static struct connection *connections;
static uint32_t connection_count, busy;

static void die(const char *what) {
    fprintf(stderr, "generator: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void die_of_tls(const char *what) {
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    fprintf(stderr, "generator: TLS %s: %s\n", what, reason ? reason : strerror(errno));
    exit(1);
}

static void *take(void *memory, size_t size) {
    void *found = realloc(memory, size ? size : 1);
    if (!found) die("memory");
    return found;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t int32_at(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static void put_int32(uint8_t *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

/* Buckets of a logarithmic histogram: STEP to every doubling. */
static int bucket_of(uint64_t us) {
    if (us < STEP) return (int)us;
    int power = 63 - __builtin_clzll(us);
    int found = (power - 5) * STEP + (int)(us >> (power - 5));
    return found < BUCKETS ? found : BUCKETS - 1;
}

static uint64_t floor_of(int bucket) {
    if (bucket < STEP) return (uint64_t)bucket;
    int power = bucket / STEP + 4;
    return (uint64_t)(bucket % STEP + STEP) << (power - 5);
}

static uint64_t percentile(double part) {
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++) all += buckets[i];
    for (int i = 0; i < BUCKETS; i++) {
        seen += buckets[i];
        if (seen && seen >= (uint64_t)(part * (double)all)) return floor_of(i);
    }
    return 0;
}

static void read_all(void *into, size_t length) {
    if (fread(into, 1, length, stdin) != length) {
        fprintf(stderr, "generator: the plan ends too early\n");
        exit(1);
    }
}

static void read_plan(void) {
    uint8_t head[4];
    uint32_t capacity = 0;
    while (fread(head, 1, 4, stdin) == 4) {
        if (connection_count == capacity) {
            capacity = capacity ? capacity * 2 : 64;
            connections = take(connections, capacity * sizeof *connections);
        }
        struct connection *c = &connections[connection_count++];
        memset(c, 0, sizeof *c);
        c->requests = int32_at(head);
        c->plan = take(NULL, c->requests * sizeof *c->plan);
        c->replies = take(NULL, c->requests * sizeof *c->replies);
        for (uint32_t i = 0; i < c->requests; i++) {
            read_all(head, 4);
            c->plan[i].length = int32_at(head) + 4;
            c->plan[i].bytes = take(NULL, c->plan[i].length);
            memcpy(c->plan[i].bytes, head, 4);
            read_all(c->plan[i].bytes + 4, c->plan[i].length - 4);
        }
    }
}

static void watch(struct connection *c, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (c->waits_to_write ? EPOLLOUT : 0),
                                .data.ptr = c};
    if (epoll_ctl(epoll_fd, operation, c->fd, &event)) die("epoll_ctl");
}

static void open_connection(struct connection *c, const struct sockaddr_in *address) {
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)address, sizeof *address))
        die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (tls_context) {
        c->tls = SSL_new(tls_context);
        if (!c->tls || SSL_set_fd(c->tls, c->fd) != 1 || SSL_connect(c->tls) != 1)
            die_of_tls("handshake");
    }
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    watch(c, EPOLL_CTL_ADD);
}

static ssize_t waits(struct connection *c, int done) {
    int error = SSL_get_error(c->tls, done);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) die_of_tls("connection");
    errno = EAGAIN;
    return -1;
}

/* As `send` and `recv` on a socket that does not block: -1 with EAGAIN if it has to wait. */
static ssize_t send_some(struct connection *c, const uint8_t *bytes, uint32_t length) {
    if (!c->tls) return send(c->fd, bytes, length, MSG_NOSIGNAL);
    int done = SSL_write(c->tls, bytes, (int)length);
    return done > 0 ? done : waits(c, done);
}

static ssize_t receive_some(struct connection *c, uint8_t *into, uint32_t room) {
    if (!c->tls) return recv(c->fd, into, room, 0);
    int done = SSL_read(c->tls, into, (int)room);
    return done > 0 ? done : waits(c, done);
}

/* Takes as much of the pending bytes as the socket likes. */
static void flush(struct connection *c) {
    uint32_t done = 0;
    while (done < c->pending_length) {
        ssize_t wrote = send_some(c, c->pending + done, c->pending_length - done);
        if (wrote < 0 && errno == EAGAIN) break;
        if (wrote < 0) die("send");
        done += (uint32_t)wrote;
    }
    memmove(c->pending, c->pending + done, c->pending_length - done);
    c->pending_length -= done;
    if (c->waits_to_write != (c->pending_length > 0)) {
        c->waits_to_write = c->pending_length > 0;
        watch(c, EPOLL_CTL_MOD);
    }
}

static int may_send(const struct connection *c) {
    if (c->sent - c->answered >= (uint32_t)window) return 0;
    return repeat ? !stopping : c->sent < c->requests;
}

/* Fills the window; several requests leave in one call. */
static void send_more(struct connection *c) {
    uint64_t now = now_ns();
    while (may_send(c)) {
        struct request *r = &c->plan[repeat ? 0 : c->sent];
        if (share) *r = (struct request){c->share.next.data, (uint32_t)c->share.next.length};
        if (c->pending_length + r->length > c->pending_capacity) {
            c->pending_capacity = (c->pending_length + r->length) * 2;
            c->pending = take(c->pending, c->pending_capacity);
        }
        put_int32(r->bytes + 8, c->sent);
        memcpy(c->pending + c->pending_length, r->bytes, r->length);
        c->pending_length += r->length;
        c->started[c->sent % WINDOW_MAX] = now;
        c->sent++;
    }
    if (c->pending_length && !c->waits_to_write) flush(c);
}

static void note_reply(struct connection *c, uint8_t *body, uint32_t length, uint64_t now) {
    answered_total++;
    if (share) {
        uint64_t confirmed = share_hears(&c->share, body, length);
        if (counting) acknowledged += confirmed;
        if (!confirmed) return;
    } else if (!repeat) {
        struct request *kept = &c->replies[c->answered];
        kept->length = length;
        kept->bytes = take(NULL, length);
        memcpy(kept->bytes, body, length);
    } else if (!c->usual || c->usual_length != length || memcmp(c->usual, body, length)) {
        if (c->usual && counting) changed++;
        if (!c->usual || !counting) {
            c->usual = take(c->usual, length);
            memcpy(c->usual, body, length);
            c->usual_length = length;
        }
    }
    if (counting || !repeat) {
        buckets[bucket_of((now - c->started[c->answered % WINDOW_MAX]) / 1000)]++;
        counted++;
    }
}

static void receive(struct connection *c) {
    if (c->capacity - c->filled < READ_MAX) {
        c->capacity = c->filled + READ_MAX;
        c->buffer = take(c->buffer, c->capacity);
    }
    ssize_t got = receive_some(c, c->buffer + c->filled, c->capacity - c->filled);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        if (got == 0) errno = ECONNRESET;
        die("recv");
    }
    c->filled += (uint32_t)got;
    uint64_t now = now_ns();
    uint32_t at = 0;
    while (c->filled - at >= HEAD && c->filled - at - 4 >= int32_at(c->buffer + at)) {
        uint32_t length = int32_at(c->buffer + at);
        if (int32_at(c->buffer + at + 4) != c->answered) {
            fprintf(stderr, "generator: a reply out of order\n");
            exit(1);
        }
        note_reply(c, c->buffer + at + HEAD, length - 4, now);
        c->answered++;
        at += length + 4;
    }
    memmove(c->buffer, c->buffer + at, c->filled - at);
    c->filled -= at;
    /* Thousands of idle buffers of 64 KiB each would be the machine's memory, not the peer's. */
    if (!c->filled) {
        free(c->buffer);
        c->buffer = NULL;
        c->capacity = 0;
    }
    send_more(c);
    if (c->sent == c->answered && !may_send(c)) busy--;
}

static void turn(int timeout_ms) {
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(epoll_fd, events, EVENTS, timeout_ms);
    for (int i = 0; i < ready; i++) {
        struct connection *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) flush(c);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
            /* What TLS has decrypted already, epoll does not know of. */
            do receive(c);
            while (c->tls && SSL_pending(c->tls));
        }
    }
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void write_reply(const uint8_t *bytes, uint32_t length) {
    uint8_t head[4];
    put_int32(head, length);
    fwrite(head, 1, 4, stdout);
    fwrite(bytes, 1, length, stdout);
}

static void write_replies(void) {
    for (uint32_t i = 0; i < connection_count; i++) {
        struct connection *c = &connections[i];
        if (repeat && !share) write_reply(c->usual, c->usual_length);
        for (uint32_t j = 0; !repeat && j < c->answered; j++)
            write_reply(c->replies[j].bytes, c->replies[j].length);
    }
    fflush(stdout);
}

static void run_until(uint64_t end_ns) {
    while (busy && now_ns() < end_ns && !(counting && share && acknowledged >= acknowledged_most))
        turn(10);
}

int main(int count, char **arguments) {
    if (count != 8) {
        fprintf(stderr, "generator ADDRESS PORT repeat|once|share WINDOW|RECORDS SECONDS WARMUP|HOLD "
                        "plain|tls\n");
        return 2;
    }
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(arguments[2]))};
    if (inet_pton(AF_INET, arguments[1], &address.sin_addr) != 1) die("address");
    share = !strcmp(arguments[3], "share");
    repeat = share || !strcmp(arguments[3], "repeat");
    window = share ? 1 : atoi(arguments[4]);
    acknowledged_most = share ? strtoull(arguments[4], NULL, 10) : 0;
    if (window < 1 || window > WINDOW_MAX) die("window");
    double seconds = atof(arguments[5]), warmup = atof(arguments[6]), hold = repeat ? 0 : warmup;
    if (!strcmp(arguments[7], "tls")) {
        tls_context = SSL_CTX_new(TLS_client_method());
        if (!tls_context) die_of_tls("context");
        SSL_CTX_set_mode(tls_context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
                                          SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    epoll_fd = epoll_create1(0);
    read_plan();
    for (uint32_t i = 0; i < connection_count; i++) {
        open_connection(&connections[i], &address);
        usleep(PACE_US);
    }
    busy = connection_count;
    uint64_t began = now_ns();
    double cpu = cpu_seconds();
    for (uint32_t i = 0; i < connection_count; i++) {
        struct connection *c = &connections[i];
        if (share) share_begin(&c->share, c->plan[0].bytes, c->plan[0].length);
        send_more(c);
        if (!c->requests) busy--;
    }
    if (repeat) {
        run_until(began + (uint64_t)(warmup * 1e9));
        counting = 1;
        fprintf(stderr, "counting\n");
        began = now_ns();
        cpu = cpu_seconds();
    }
    run_until(began + (uint64_t)(seconds * 1e9));
    double took = (double)(now_ns() - began) / 1e9;
    cpu = cpu_seconds() - cpu;
    int holds = hold > 0 && !busy;
    if (holds) {
        fprintf(stderr, "counting\n");
        usleep((useconds_t)(hold * 1e6));
    }
    if (repeat || holds) fprintf(stderr, "counted\n");
    counting = 0;
    stopping = 1;
    uint64_t replies = counted;
    if (repeat) run_until(now_ns() + 10000000000u);
    write_replies();
    fprintf(stderr, "{\"replies\": %" PRIu64 ", \"answered\": %" PRIu64 ", ", replies,
            answered_total);
    fprintf(stderr, "\"seconds\": %.6f, \"cpu_seconds\": %.6f, ", took, cpu);
    fprintf(stderr, "\"p50_us\": %" PRIu64 ", \"p99_us\": %" PRIu64 ", ", percentile(0.5),
            percentile(0.99));
    fprintf(stderr, "\"acknowledged\": %" PRIu64 ", ", acknowledged);
    fprintf(stderr, "\"changed\": %" PRIu64 ", \"unanswered\": %u}\n", changed, busy);
    return 0;
}
