/* An independent pointer chase, for comparison with memory.latency by `make bench-memory`.
 * Usage: chase 4K|huge SET_BYTES…; prints "page set_bytes nanoseconds" for each set.
 *
 * Shares no code with Fathom: C with volatile loads, another random generator, Sattolo's shuffle on
 * the pointers themselves, a warm-up by chasing, the C library's clock. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LINE 64
#define HUGE ((size_t)2 << 20)
#define REPEATS 7

static uint64_t state;

static uint64_t splitmix(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *volatile *chase(void *volatile *at, size_t loads) {
  for (size_t i = 0; i < loads; i += 8) {
    at = *at; at = *at; at = *at; at = *at;
    at = *at; at = *at; at = *at; at = *at;
  }
  return at;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double measure(size_t bytes, int huge) {
  size_t mapped = (bytes + HUGE - 1) / HUGE * HUGE + HUGE;
  char *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) { perror("mmap"); exit(1); }
  char *base = (char *)(((uintptr_t)map + HUGE - 1) / HUGE * HUGE);
  madvise(map, mapped, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  memset(base, 1, bytes);
  size_t lines = bytes / LINE;
  for (size_t i = 0; i < lines; i++) *(void **)(base + i * LINE) = base + i * LINE;
  for (size_t i = lines - 1; i > 0; i--) {
    void **a = (void **)(base + i * LINE), **b = (void **)(base + (splitmix() % i) * LINE);
    void *swapped = *a; *a = *b; *b = swapped;
  }
  /* Warm-up: twice through a small set, once through a large one. */
  void *volatile *at = (void *volatile *)base;
  at = chase(at, lines < 200000 ? 400000 : lines);
  double took[REPEATS];
  size_t loads = 80000;
  for (int i = 0; i < REPEATS; i++) {
    double begun = now_ns();
    at = chase(at, loads);
    took[i] = (now_ns() - begun) / loads;
  }
  if (!at) abort();
  qsort(took, REPEATS, sizeof *took, ascending);
  munmap(map, mapped);
  return took[REPEATS / 2];
}

int main(int argc, char **argv) {
  if (argc < 3) { fprintf(stderr, "usage: chase 4K|huge SET_BYTES...\n"); return 2; }
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  state = (uint64_t)t.tv_nsec * 2654435761u;
  for (int i = 2; i < argc; i++)
    printf("%s %s %.4f\n", argv[1], argv[i], measure(strtoull(argv[i], NULL, 10), argv[1][0] == 'h'));
  return 0;
}
