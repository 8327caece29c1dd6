/* What the machine allows: a server that answers every frame with the same prepared reply and the
 * request's correlation id, without looking at anything else. One thread, epoll; one read and one
 * write for whatever a connection has sent by then.
 *
 *   server  <reply
 *
 * The reply comes on standard input behind its length (int32, big endian), without length and
 * correlation id, as the load generator gives it out. The address that it listens on goes to
 * standard output; it ends with its standard input.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 512, READ_MAX = 1 << 16, BACKLOG = 4096, HEAD = 8, CORRELATION = 8 };

struct connection {
    int fd, waits_to_write;
    uint8_t *rest; /* the beginning of a frame */
    uint32_t rest_length;
    uint8_t *pending; /* what the socket did not take */
    size_t pending_length;
};

static uint8_t *reply, input[2 * READ_MAX], *output;
static uint32_t reply_length;
static int epoll_fd;

static void die(const char *what) {
    fprintf(stderr, "server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *take(void *memory, size_t size) {
    void *found = realloc(memory, size ? size : 1);
    if (!found) die("memory");
    return found;
}

static uint32_t int32_at(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static void read_reply(void) {
    uint8_t head[4];
    if (read(0, head, 4) != 4) die("reply");
    reply_length = int32_at(head) + HEAD;
    reply = take(NULL, reply_length);
    uint32_t length = htonl(reply_length - 4);
    memcpy(reply, &length, 4);
    for (uint32_t at = HEAD; at < reply_length;) {
        ssize_t got = read(0, reply + at, reply_length - at);
        if (got <= 0) die("reply");
        at += (uint32_t)got;
    }
    /* A frame is no shorter than its head, so this many fit into one read. */
    output = take(NULL, (size_t)reply_length * (sizeof input / (CORRELATION + 4)));
}

static void watch(struct connection *c, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (c->waits_to_write ? EPOLLOUT : 0),
                                .data.ptr = c};
    if (epoll_ctl(epoll_fd, operation, c->fd, &event)) die("epoll_ctl");
}

static void drop(struct connection *c) {
    close(c->fd);
    free(c->rest);
    free(c->pending);
    free(c);
}

static void keep_pending(struct connection *c, const uint8_t *from, size_t length) {
    c->pending = take(c->pending, c->pending_length + length);
    memcpy(c->pending + c->pending_length, from, length);
    c->pending_length += length;
    if (!c->waits_to_write) {
        c->waits_to_write = 1;
        watch(c, EPOLL_CTL_MOD);
    }
}

/* Returns how much the socket took; -1 = the connection is gone. */
static ssize_t put(struct connection *c, const uint8_t *from, size_t length) {
    ssize_t wrote = send(c->fd, from, length, MSG_NOSIGNAL);
    return wrote < 0 && errno == EAGAIN ? 0 : wrote;
}

static int flush(struct connection *c) {
    ssize_t wrote = put(c, c->pending, c->pending_length);
    if (wrote < 0) return 0;
    c->pending_length -= (size_t)wrote;
    memmove(c->pending, c->pending + wrote, c->pending_length);
    if (!c->pending_length) {
        c->waits_to_write = 0;
        watch(c, EPOLL_CTL_MOD);
    }
    return 1;
}

static int answer(struct connection *c) {
    memcpy(input, c->rest, c->rest_length);
    ssize_t got = recv(c->fd, input + c->rest_length, READ_MAX, 0);
    if (got < 0 && errno == EAGAIN) return 1;
    if (got <= 0) return 0;
    size_t filled = c->rest_length + (size_t)got, at = 0, made = 0;
    while (filled - at >= 4 && filled - at - 4 >= int32_at(input + at)) {
        memcpy(output + made, reply, reply_length);
        memcpy(output + made + 4, input + at + CORRELATION, 4);
        made += reply_length;
        at += int32_at(input + at) + 4;
    }
    if (filled - at > READ_MAX) return 0;
    c->rest_length = (uint32_t)(filled - at);
    if (c->rest_length) {
        c->rest = take(c->rest, c->rest_length);
        memcpy(c->rest, input + at, c->rest_length);
    }
    ssize_t wrote = made && !c->pending_length ? put(c, output, made) : 0;
    if (wrote < 0) return 0;
    if ((size_t)wrote < made) keep_pending(c, output + wrote, made - (size_t)wrote);
    return 1;
}

static int listen_on_a_free_port(void) {
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* those that it accepts inherit it */
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, BACKLOG) ||
        getsockname(fd, (struct sockaddr *)&address, &length))
        die("listen");
    printf("127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_all(int listening) {
    int fd;
    while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct connection *c = take(NULL, sizeof *c);
        memset(c, 0, sizeof *c);
        c->fd = fd;
        watch(c, EPOLL_CTL_ADD);
    }
    if (errno != EAGAIN) die("accept");
}

int main(void) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    read_reply();
    epoll_fd = epoll_create1(0);
    struct connection end = {.fd = 0}, listener = {.fd = listen_on_a_free_port()};
    watch(&end, EPOLL_CTL_ADD);
    watch(&listener, EPOLL_CTL_ADD);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            int alive = 1;
            if (c == &end) return 0;
            if (c == &listener) {
                accept_all(listener.fd);
                continue;
            }
            if (events[i].events & EPOLLOUT) alive = flush(c);
            if (alive && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) alive = answer(c);
            if (!alive) drop(c);
        }
    }
}
