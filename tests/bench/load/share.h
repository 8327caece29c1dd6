/* A consumer of a share group for generator.c, as bytes: its first request is a ShareFetch v2 of one
 * topic that opens a session; each further one accepts all records that the last reply acquired. An
 * error, or a record that is delivered a second time, ends the program. */
#ifndef SHARE_H
#define SHARE_H

#include "../storm/wire.h"

struct share_consumer {
    struct bytes next;               /* the next request, as it goes over the wire */
    struct bytes partitions;         /* those that it acknowledges, as in the request */
    size_t epoch_at, topics_at;      /* where the session epoch and the topics are in it */
    int32_t epoch;                   /* of the session, in that request */
    uint64_t acquired;               /* records that it acknowledges */
};

enum { UP_TO_TOPICS = 6 * 4 + 2, LEADER = 2 * 4 + 1, ACCEPT = 1 };

static inline void share_fail(const char *what, int32_t code) {
    fprintf(stderr, "generator: ShareFetch: error %d of %s\n", code, what);
    exit(1);
}

static inline void share_begin(struct share_consumer *s, const uint8_t *frame, size_t length) {
    put(&s->next, frame, length);
    struct reader r = {frame, frame + length};
    skip(&r, 4 + 2 + 2 + 4);
    get_string(&r, NULL, 0);  /* client id */
    get_varint(&r);           /* tags */
    get_compact(&r, NULL, 0); /* group */
    get_compact(&r, NULL, 0); /* member */
    s->epoch_at = (size_t)(r.at - frame);
    s->topics_at = s->epoch_at + UP_TO_TOPICS;
}

/* Reads the acquired ranges of a partition and writes what acknowledges them. */
static inline void share_acquired(struct share_consumer *s, struct reader *r) {
    for (uint32_t left = get_varint(r) - 1; left; left--) {
        const uint8_t *range = skip(r, 2 * 8);
        put(&s->partitions, range, 2 * 8);
        put_varint(&s->partitions, 2);
        put_int(&s->partitions, ACCEPT, 1);
        put_int(&s->partitions, 0, 1);
        struct reader ends = {range + 4, range + 16};
        uint32_t first = (uint32_t)get_int(&ends, 4);
        skip(&ends, 4);
        s->acquired += (uint32_t)get_int(&ends, 4) - first + 1;
        if (get_int(r, 2) != 1) wire_fail("a record was delivered twice");
        get_varint(r);
    }
}

/* Reads a partition; whether it has acquired records. */
static inline int share_partition(struct share_consumer *s, struct reader *r) {
    const uint8_t *index = skip(r, 4);
    int32_t code = get_int(r, 2);
    get_compact(r, NULL, 0);
    if (code) share_fail("a partition", code);
    code = get_int(r, 2);
    get_compact(r, NULL, 0);
    if (code) share_fail("an acknowledgement", code);
    skip(r, LEADER);
    uint32_t size = get_varint(r);
    skip(r, size ? size - 1 : 0);
    struct reader ahead = *r;
    uint32_t ranges = get_varint(&ahead);
    if (ranges > 1) {
        put(&s->partitions, index, 4);
        put_varint(&s->partitions, ranges);
        share_acquired(s, r);
        put_int(&s->partitions, 0, 1);
    } else {
        *r = ahead;
    }
    get_varint(r);
    return ranges > 1;
}

/* Reads a reply (from its tags on) and makes the next request: how many records the reply confirms. */
static inline uint64_t share_hears(struct share_consumer *s, const uint8_t *body, size_t length) {
    struct reader r = {body, body + length};
    uint64_t confirmed = s->acquired;
    const uint8_t *topic = NULL;
    uint32_t count = 0;
    s->acquired = s->partitions.length = 0;
    get_varint(&r);
    get_int(&r, 4); /* throttle */
    int32_t code = get_int(&r, 2);
    if (code) share_fail("the request", code);
    get_compact(&r, NULL, 0);
    get_int(&r, 4); /* lock timeout */
    uint32_t topics = get_varint(&r);
    if (topics > 2) wire_fail("records of two topics");
    if (topics == 2) {
        topic = skip(&r, 16);
        for (uint32_t left = get_varint(&r) - 1; left; left--)
            count += (uint32_t)share_partition(s, &r);
    }
    s->next.length = s->topics_at;
    if (count) {
        put_varint(&s->next, 2);
        put(&s->next, topic, 16);
        put_varint(&s->next, count + 1);
        put(&s->next, s->partitions.data, s->partitions.length);
        put_int(&s->next, 0, 1);
    } else {
        put_varint(&s->next, 1);
    }
    put_varint(&s->next, 1); /* forgotten */
    put_int(&s->next, 0, 1);
    frame_end(&s->next);
    size_t end = s->next.length;
    s->next.length = s->epoch_at;
    put_int(&s->next, ++s->epoch, 4);
    s->next.length = end;
    return confirmed;
}

#endif
