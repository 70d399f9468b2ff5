/* Does a known number of operations, in the order of its arguments:
 *   known OPERATION NUMBER SIZE ...
 * read, write: a cached file, a new file, in calls of SIZE bytes; open: and close; stat; fault: pages
 * of new memory; fork: with SIZE resident bytes; thread; pipe: SIZE bytes through a pipe; null: calls
 * that do nothing. It works in a folder with a file `data` of 64 MiB. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[1 << 20];

static void need(int is_true, const char *what) {
  if (!is_true) {
    perror(what);
    exit(1);
  }
}

static void *nothing(void *argument) { return argument; }

static char *resident(size_t bytes) {
  char *memory = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(memory != MAP_FAILED, "mmap");
  madvise(memory, bytes + 1, MADV_NOHUGEPAGE);
  for (size_t at = 0; at < bytes; at += 4096)
    memory[at] = 1;
  return memory;
}

static void repeat(const char *what, long number, size_t size) {
  struct stat about;
  int file = -1, ends[2];
  char *memory = NULL;
  if (!strcmp(what, "read"))
    need((file = open("data", O_RDONLY)) >= 0, "data");
  if (!strcmp(what, "write"))
    need((file = open("new", O_WRONLY | O_CREAT | O_EXCL, 0600)) >= 0, "new");
  if (!strcmp(what, "pipe"))
    need(pipe(ends) == 0, "pipe");
  if (!strcmp(what, "fork"))
    memory = resident(size);
  if (!strcmp(what, "fault"))
    munmap(resident(4096 * number), 4096 * number + 1);
  else
    for (long at = 0; at < number; at++) {
      if (file >= 0 && *what == 'r') {
        if (read(file, buffer, size) < (ssize_t)size)
          lseek(file, 0, SEEK_SET);
      } else if (file >= 0) {
        need(write(file, buffer, size) == (ssize_t)size, "write");
      } else if (!strcmp(what, "open")) {
        int opened = open("data", O_RDONLY);
        need(opened >= 0 && close(opened) == 0, "data");
      } else if (!strcmp(what, "stat")) {
        need(stat("data", &about) == 0, "data");
      } else if (!strcmp(what, "pipe")) {
        need(write(ends[1], buffer, size) == (ssize_t)size, "write");
        need(read(ends[0], buffer, size) == (ssize_t)size, "read");
      } else if (!strcmp(what, "fork")) {
        pid_t child = fork();
        if (child == 0)
          _exit(0);
        need(child > 0 && waitpid(child, NULL, 0) == child, "fork");
      } else if (!strcmp(what, "thread")) {
        pthread_t thread;
        need(pthread_create(&thread, NULL, nothing, NULL) == 0, "thread");
        pthread_join(thread, NULL);
      } else if (!strcmp(what, "null")) {
        syscall(SYS_getppid);
      } else {
        fprintf(stderr, "%s: no operation\n", what);
        exit(2);
      }
    }
  if (memory)
    munmap(memory, size + 1);
  if (file >= 0)
    close(file);
  unlink("new");
}

int main(int number, char **words) {
  for (int at = 1; at + 2 < number; at += 3)
    repeat(words[at], atol(words[at + 1]), (size_t)atol(words[at + 2]));
  return 0;
}
