/* A loop of connect(2) over loopback, for comparison with network.tcp.connect by
 * `make bench-network`. The far end accepts on another CPU; each connection is closed by RST once
 * accepted, which leaves no TIME_WAIT. Usage: connect CPU FAR_CPU COUNT; prints the median time of
 * one call in nanoseconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define COUNT_MAX 5000
/* Until then the far end sleeps in accept(2) again. */
#define SETTLE_NS 20000.0

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static int pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set);
}

static void accept_all(int listener, int report) {
  char byte;
  for (;;) {
    int one = accept(listener, NULL, NULL);
    if (one < 0 || write(report, "a", 1) != 1) _exit(1);
    while (read(one, &byte, 1) > 0) {}
    close(one);
    if (write(report, "c", 1) != 1) _exit(1);
  }
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int words, char **word) {
  if (words != 4) return 2;
  long count = strtol(word[3], NULL, 10);
  if (count < 1 || count > COUNT_MAX) return 2;
  static double ns[COUNT_MAX];
  struct sockaddr_in at = {.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0), pair[2];
  if (bind(listener, (void *)&at, length) || getsockname(listener, (void *)&at, &length) ||
      listen(listener, 16) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
    perror("connect");
    return 1;
  }
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pin(atoi(word[2]))) _exit(1);
    close(pair[0]);
    accept_all(listener, pair[1]);
  }
  close(pair[1]);
  if (pin(atoi(word[1]))) return 1;
  struct linger reset = {.l_onoff = 1, .l_linger = 0};
  char byte;
  for (long i = 0; i < count; i++) {
    int one = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(one, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    for (double begin = now_ns(); now_ns() - begin < SETTLE_NS;) {}
    double begin = now_ns();
    if (connect(one, (void *)&at, sizeof at)) return 1;
    ns[i] = now_ns() - begin;
    /* Polled, so that this end does not sleep. */
    while (recv(pair[0], &byte, 1, MSG_DONTWAIT) < 0) {}
    close(one);
    while (recv(pair[0], &byte, 1, MSG_DONTWAIT) < 0) {}
  }
  qsort(ns, count, sizeof *ns, ascending);
  printf("%.1f\n", ns[count / 2]);
  return 0;
}
