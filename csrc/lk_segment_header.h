/*
 * lk_segment_header.h: the header that all kinds of segments share: written, read, judged.
 */
#ifndef LK_SEGMENT_HEADER_H
#define LK_SEGMENT_HEADER_H

#include "lk_segment.h"

/* LK_KIND_UNKNOWN for a magic that is none of ours. */
uint32_t lk_header_kind(uint32_t magic);

/* With this process as the owner. */
void lk_header_write(struct lk_segment_header *header, const struct lk_segment_request *request);
void lk_header_write_owner(struct lk_segment_header *header);

/* Read a header through the file: a copy that no truncation can turn into a fault. */
int lk_header_read(int fd, void *out, size_t size, uint64_t *file_size);

/* Judge a private copy of a header against the file it came from. */
int lk_header_check(const struct lk_segment_header *header, uint32_t ready, uint64_t file_size);
bool lk_header_same_run(const struct lk_segment_header *header,
                        const struct lk_segment_request *request);

#endif
