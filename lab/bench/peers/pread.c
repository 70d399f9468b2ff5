/* Reads a file by pread(2) in several threads, without looking at it.
   Usage: pread FILE THREADS */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (2L << 20)
#define CHUNK (2 * BLOCK)

static int file;
static long size;
static atomic_long next;

static void *work(void *unused) {
  char *block = aligned_alloc(4096, BLOCK);
  for (long at; (at = atomic_fetch_add(&next, CHUNK)) < size;) {
    for (long end = at + CHUNK; at < end && at < size; at += BLOCK) {
      if (pread(file, block, BLOCK, at) < 0) exit(1);
    }
  }
  return unused;
}

int main(int count, char **words) {
  if (count != 3 || (file = open(words[1], O_RDONLY)) < 0) return 2;
  struct stat facts;
  if (fstat(file, &facts) != 0) return 1;
  size = facts.st_size;
  int threads = atoi(words[2]);
  pthread_t all[threads];
  for (int at = 0; at < threads; at++) pthread_create(&all[at], NULL, work, NULL);
  for (int at = 0; at < threads; at++) pthread_join(all[at], NULL);
}
