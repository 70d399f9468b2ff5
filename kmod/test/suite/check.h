/* SPDX-License-Identifier: GPL-2.0 */
/* What all groups of tests share: results, devices, connections, children. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fathom.h"

#define MASTER "/dev/" FATHOM_MASTER_NAME
#define SLAVE "/dev/" FATHOM_SLAVE_NAME
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PAGE 4096U

/* Prints `ok N name` or `not ok N name`, with errno. */
void check(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the suite at the first failure, for mutants. */
extern bool stop_at_failure;
/* A call must fail with this error. */
void check_error(long result, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Ends the suite if a step that later tests need failed. */
#define must(ok) must_(ok, #ok, __FILE__, __LINE__)
void must_(bool ok, const char *what, const char *file, int line);

int device(const char *path, int flags);
struct fathom_endpoint loopback(int family, int port);
int listen_at(int fd, int family);
int connect_to(int fd, int family, int port);
int accept_from(int fd);

/* A master and a slave, connected over loopback. */
struct pair {
	int master;
	int slave;
};
struct pair connected(int family);
void close_pair(struct pair pair);

/* Connected TCP sockets of the program itself. */
void tcp_pair(int sockets[2], int family);
int attach(int fd, int socket);

/* Bytes of a file with this seed from an offset on. */
void pattern(uint8_t *to, size_t length, uint32_t seed, uint64_t offset);
bool has_pattern(const uint8_t *from, size_t length, uint32_t seed, uint64_t offset);

uint8_t *map_window(int fd, unsigned int pages);
long transfer(int fd, unsigned long command, unsigned int offset, unsigned int length,
	      unsigned int timeout_ms);
int frame(int fd, uint64_t *length, unsigned int timeout_ms);
int finish(int fd, unsigned int timeout_ms);
struct fathom_stats stats(int fd);

/* Runs `run` in a child; `joined` returns whether that exited with 0. */
pid_t child(int (*run)(void *), void *argument);
bool joined(pid_t pid);

uint64_t now_ms(void);
uint32_t random_u32(uint32_t *state);
/* Writes a parameter of the module. */
void set_parameter(const char *name, int value);
/*
 * Allocations of the module by the kernel's lists of callers: with `all` of every slab cache, and
 * printed; else only by kmalloc and vmalloc, which is much faster.
 */
int allocations(bool all);
/* Sockets of this network namespace, whoever owns them. */
int sockets_in_use(void);
int network_namespaces_in_use(void);

void test_arguments(void);
void test_fuzz(void);
void test_transfers(void);
void test_waits(void);
void test_peers(void);
void test_network(void);
void test_pages(void);
void test_faults(void);
void soak(int seconds);

#endif /* CHECK_H */
