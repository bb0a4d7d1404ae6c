/*
 * Delays and failures of system calls, for a program that is started with this library in LD_PRELOAD.
 * SLIPWAY_FAULT_RULES names a file of rules, which is read at each call, so that a test begins and ends faults
 * while the program runs:
 *
 *     OPERATION PATTERN DELAY ERRNO
 *
 * OPERATION is write, fsync, fdatasync or ftruncate, or sync for both syncs; PATTERN is compared with the path
 * of the file (fnmatch: * matches slashes too); DELAY is in milliseconds; ERRNO is the number of an error, or 0
 * for the call itself after the delay.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The error with which a call fails; 0 when it is made. */
static int fault(const char *operation, int fd) {
  const char *rules = getenv("SLIPWAY_FAULT_RULES");
  FILE *file = rules == NULL ? NULL : fopen(rules, "re");
  if (file == NULL) return 0;
  char link[32], path[4096] = "", named[16], pattern[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof path - 1) < 0) path[0] = 0;
  long delay = 0, wait = 0;
  int code = 0, error = 0;
  while (fscanf(file, "%15s %511s %ld %d", named, pattern, &delay, &code) == 4) {
    int is_sync = strcmp(named, "sync") == 0 && strstr(operation, "sync") != NULL;
    if ((!is_sync && strcmp(named, operation) != 0) || fnmatch(pattern, path, 0) != 0) continue;
    wait = delay;
    error = code;
  }
  fclose(file);
  struct timespec pause = {wait / 1000, wait % 1000 * 1000000};
  if (wait > 0) nanosleep(&pause, NULL);
  return error;
}

#define CALL(operation, name, type, parameters, values)                                                                  \
  type name parameters {                                                                                                \
    static type(*next) parameters;                                                                                      \
    if (next == NULL) next = dlsym(RTLD_NEXT, #name);                                                                   \
    int error = fault(operation, fd);                                                                                   \
    if (error == 0) return next values;                                                                                 \
    errno = error;                                                                                                      \
    return -1;                                                                                                          \
  }

CALL("fsync", fsync, int, (int fd), (fd))
CALL("fdatasync", fdatasync, int, (int fd), (fd))
CALL("ftruncate", ftruncate, int, (int fd, off_t size), (fd, size))
CALL("ftruncate", ftruncate64, int, (int fd, off64_t size), (fd, size))
CALL("write", write, ssize_t, (int fd, const void *bytes, size_t size), (fd, bytes, size))
CALL("write", pwrite, ssize_t, (int fd, const void *bytes, size_t size, off_t at), (fd, bytes, size, at))
CALL("write", pwrite64, ssize_t, (int fd, const void *bytes, size_t size, off64_t at), (fd, bytes, size, at))
