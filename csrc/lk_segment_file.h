/*
 * lk_segment_file.h: the file behind a segment's name.
 *
 * What all steps of a segment's life need of the file system; lk_segment.c has the steps.
 */
#ifndef LK_SEGMENT_FILE_H
#define LK_SEGMENT_FILE_H

#include "lk_segment.h"

#define LK_FILE_DIRECTORY "/dev/shm/"
#define LK_FILE_PATH_SIZE (sizeof LK_FILE_DIRECTORY + LK_NAME_SIZE)

/* The status that stands for an error of the calls below. */
int lk_file_status(int error);

/* A file descriptor, or -1 and errno. */
int lk_file_open(const char *name, int flags);
void lk_file_unlink(const char *name);
void lk_file_path(const char *name, char path[LK_FILE_PATH_SIZE]);

int lk_file_identify(int fd, const char *name, struct lk_segment_id *id, uint64_t *size);

/* Whether the name still leads to this very file. */
bool lk_file_is_named(const struct lk_segment_id *id);

/* Lock a file, or give up after about this many milliseconds: nobody may hold it for long. */
bool lk_file_lock(int fd, int patience_ms);
void lk_file_unlock_and_close(int fd);

#endif
