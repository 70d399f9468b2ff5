/* A loop of read(2) with an XOR of what it read, for comparison with small-block reads by `make bench-file`.
 * Usage: calls FILE BLOCK COUNT; prints nanoseconds a call, the fastest of five repeats. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define REPEATS 5

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int words, char **word) {
  if (words != 4) return 2;
  size_t block = strtoull(word[2], NULL, 10);
  long count = strtol(word[3], NULL, 10);
  size_t whole = block / sizeof(uint32_t);
  uint32_t *buffer = malloc(block), sum = 0;
  int file = open(word[1], O_RDONLY);
  if (file < 0 || buffer == NULL) return 1;
  double best = 1e300;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    if (lseek(file, 0, SEEK_SET) != 0) return 1;
    double begin = now_ns();
    for (long i = 0; i < count; i++) {
      if (read(file, buffer, block) != (ssize_t)block) return 1;
      for (size_t at = 0; at < whole; at++) sum ^= buffer[at];
    }
    double ns = now_ns() - begin;
    if (ns < best) best = ns;
  }
  printf("%.3f\n", best / count);
  /* Used, so that it is computed. */
  fprintf(stderr, "%08x\n", sum);
  return 0;
}
