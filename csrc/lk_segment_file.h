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

/* A file descriptor, or -1 and errno. Follows no symbolic link and waits for nobody. */
int lk_file_open(const char *name, int flags);
void lk_file_unlink(const char *name);
void lk_file_path(const char *name, char path[LK_FILE_PATH_SIZE]);

/*
 * Which file this is, and how long. LK_E_UNTRUSTED unless it is a regular file that belongs to this
 * process's user and that nobody else may write to. allow_uid (NULL: none) names one more user
 * whose file is accepted; the file's group may write to it then.
 */
int lk_file_identify(int fd, const char *name, const uint32_t *allow_uid, struct lk_segment_id *id,
                     uint64_t *size);

/* Whether the name still leads to this very file. */
bool lk_file_is_named(const struct lk_segment_id *id);

/* Whether what carries the name, whatever it is, belongs to this process's user. */
bool lk_file_is_ours(const char *name);

#endif
