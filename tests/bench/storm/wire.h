/* Bytes of the protocol: frames out, replies in. Big endian; a compact length is one more than the
 * length, 0 stands for null. Reading beyond the end ends the program. */
#ifndef WIRE_H
#define WIRE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    uint8_t *data;
    size_t length, capacity;
};

static inline void wire_fail(const char *what) {
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    exit(1);
}

static inline uint8_t *grow(struct bytes *b, size_t more) {
    if (b->length + more > b->capacity) {
        b->capacity = (b->length + more) * 2;
        b->data = realloc(b->data, b->capacity);
        if (!b->data) wire_fail("no memory");
    }
    uint8_t *at = b->data + b->length;
    b->length += more;
    return at;
}

static inline void put(struct bytes *b, const void *data, size_t length) {
    memcpy(grow(b, length), data, length);
}

static inline void put_int(struct bytes *b, int64_t value, int size) {
    uint8_t *at = grow(b, (size_t)size);
    for (int i = 0; i < size; i++) at[i] = (uint8_t)((uint64_t)value >> (8 * (size - 1 - i)));
}

static inline void put_varint(struct bytes *b, uint32_t value) {
    for (; value > 127; value >>= 7) put_int(b, (value & 127) | 128, 1);
    put_int(b, value, 1);
}

static inline void put_string(struct bytes *b, const char *text) {
    put_int(b, (int64_t)strlen(text), 2);
    put(b, text, strlen(text));
}

static inline void put_compact(struct bytes *b, const char *text) {
    put_varint(b, (uint32_t)strlen(text) + 1);
    put(b, text, strlen(text));
}

/* The head of a request, its length still to come (`frame_end`). */
static inline void frame_begin(struct bytes *b, int key, int version, int correlation, int flexible) {
    b->length = 0;
    put_int(b, 0, 4);
    put_int(b, key, 2);
    put_int(b, version, 2);
    put_int(b, correlation, 4);
    put_string(b, "groupd-bench");
    if (flexible) put_int(b, 0, 1);
}

static inline void frame_end(struct bytes *b) {
    size_t length = b->length;
    b->length = 0;
    put_int(b, (int64_t)length - 4, 4);
    b->length = length;
}

struct reader {
    const uint8_t *at, *end;
};

static inline const uint8_t *skip(struct reader *r, size_t length) {
    if ((size_t)(r->end - r->at) < length) wire_fail("a reply is too short");
    const uint8_t *at = r->at;
    r->at += length;
    return at;
}

static inline int32_t get_int(struct reader *r, int size) {
    const uint8_t *at = skip(r, (size_t)size);
    uint32_t value = size < 4 && (at[0] & 128) ? UINT32_MAX : 0;
    for (int i = 0; i < size; i++) value = value << 8 | at[i];
    return (int32_t)value;
}

static inline uint32_t get_varint(struct reader *r) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = *skip(r, 1);
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
    wire_fail("a number is too long");
    return 0;
}

/* Texts are cut to what fits. */
static inline void copy_text(struct reader *r, int32_t length, char *into, size_t size) {
    if (length < 0) length = 0;
    const uint8_t *at = skip(r, (size_t)length);
    if (!size) return;
    size_t kept = (size_t)length < size ? (size_t)length : size - 1;
    memcpy(into, at, kept);
    into[kept] = 0;
}

static inline void get_string(struct reader *r, char *into, size_t size) {
    copy_text(r, get_int(r, 2), into, size);
}

static inline void get_compact(struct reader *r, char *into, size_t size) {
    copy_text(r, (int32_t)get_varint(r) - 1, into, size);
}

#endif
