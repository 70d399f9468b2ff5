// SPDX-License-Identifier: GPL-2.0
/* Content of files by every path, in both kinds of connections, and exact lengths. */
#include "check.h"

#include <poll.h>
#include <sys/uio.h>

/* How bytes get from a program into a device or back. */
struct path {
	const char *name;
	unsigned int window_pages; /* 0: read(2) and write(2) */
};

static const struct path paths[] = {{"copy", 0}, {"mmap 16", 16}, {"mmap 256", 256}};

enum waiting { BLOCKING, POLL, SIGNAL };

struct file {
	int fd;
	const struct path *path;
	uint8_t *window;
	enum waiting waiting;
	bool framed;
	uint64_t bytes;
	uint32_t seed;
};

#define BUFFER_BYTES (64 * 1024U)

static int send_file(void *argument)
{
	const struct file *file = argument;
	size_t part_bytes = file->window ? file->path->window_pages * PAGE : BUFFER_BYTES;
	uint8_t *buffer = file->window ?: malloc(BUFFER_BYTES);
	uint64_t length = file->bytes;

	if (file->framed && frame(file->fd, &length, 0))
		return 1;
	for (uint64_t sent = 0; sent < file->bytes;) {
		size_t part = file->bytes - sent < part_bytes ? file->bytes - sent : part_bytes;
		long n;

		pattern(buffer, part, file->seed, sent);
		if (file->window)
			n = transfer(file->fd, FATHOM_IOC_SEND, 0, part, 0);
		else
			n = write(file->fd, buffer, part);
		if (n != (long)part)
			return 2;
		sent += n;
	}
	if (!file->window)
		free(buffer);
	return !file->framed && finish(file->fd, 10000) ? 3 : 0;
}

/* Waits as the file's user would after EAGAIN. */
static bool wait_readable(const struct file *file)
{
	struct timespec limit = {.tv_sec = 10};
	struct pollfd poll_fd = {.fd = file->fd, .events = POLLIN};
	sigset_t set;

	if (file->waiting == POLL)
		return poll(&poll_fd, 1, 10000) == 1;
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	/* The signal may have arrived before the bytes were all read. */
	return sigtimedwait(&set, NULL, &limit) == SIGIO;
}

/* Returns the bytes received with the right content, or -1. */
static long receive_file(const struct file *file)
{
	size_t part_bytes = file->window ? file->path->window_pages * PAGE : BUFFER_BYTES;
	uint8_t *buffer = file->window ?: malloc(BUFFER_BYTES);
	uint64_t length = 0;
	long received = 0;

	while (file->framed && frame(file->fd, &length, 0)) {
		if (errno != EAGAIN || !wait_readable(file))
			return -1;
	}
	if (file->framed && length != file->bytes)
		return -1;
	for (;;) {
		long n;

		if (file->window)
			n = transfer(file->fd, FATHOM_IOC_RECEIVE, 0, part_bytes, 0);
		else
			n = read(file->fd, buffer, part_bytes);
		if (n < 0 && errno == EAGAIN && wait_readable(file))
			continue;
		if (n < 0 || !has_pattern(buffer, n, file->seed, received))
			return -1;
		if (n == 0)
			break;
		received += n;
	}
	if (!file->window)
		free(buffer);
	return !file->framed && finish(file->fd, 10000) ? -1 : received;
}

static void make_asynchronous(int fd, enum waiting waiting)
{
	int flags = waiting == BLOCKING ? 0 : waiting == POLL ? O_NONBLOCK : O_NONBLOCK | O_ASYNC;

	must(fcntl(fd, F_SETOWN, getpid()) == 0);
	must(fcntl(fd, F_SETFL, O_RDWR | flags) == 0);
}

static void check_content(const struct path *out, const struct path *in, enum waiting waiting,
			  bool framed, int family, uint64_t bytes)
{
	static const char *const names[] = {"blocking", "poll", "SIGIO"};
	static uint32_t seed;
	struct pair pair = connected(family);
	struct file sent = {pair.master, out, NULL, BLOCKING, framed, bytes, ++seed};
	struct file received = {pair.slave, in, NULL, waiting, framed, bytes, seed};
	long n;
	pid_t pid;

	if (out->window_pages)
		sent.window = map_window(pair.master, out->window_pages);
	if (in->window_pages)
		received.window = map_window(pair.slave, in->window_pages);
	must(sent.window != MAP_FAILED && received.window != MAP_FAILED);
	make_asynchronous(pair.slave, waiting);
	pid = child(send_file, &sent);
	n = receive_file(&received);
	check(joined(pid) && n == (long)bytes, "%llu bytes, %s to %s, %s, %s, IPv%d",
	      (unsigned long long)bytes, out->name, in->name, names[waiting],
	      framed ? "frame" : "connection", family == AF_INET ? 4 : 6);
	if (sent.window)
		munmap(sent.window, out->window_pages * PAGE);
	if (received.window)
		munmap(received.window, in->window_pages * PAGE);
	close_pair(pair);
}

static void content_by_every_path(void)
{
	static const uint64_t sizes[] = {0, 1, 4097, 300001};

	for (size_t out = 0; out < COUNT(paths); out++)
		for (size_t in = 0; in < COUNT(paths); in++)
			for (int framed = 0; framed < 2; framed++)
				for (size_t i = 0; i < COUNT(sizes); i++)
					check_content(&paths[out], &paths[in], BLOCKING, framed,
						      AF_INET, sizes[i]);
	for (size_t in = 0; in < COUNT(paths); in++)
		for (int framed = 0; framed < 2; framed++)
			for (enum waiting waiting = POLL; waiting <= SIGNAL; waiting++)
				check_content(&paths[in], &paths[in], waiting, framed, AF_INET6,
					      3000001);
}

static int send_files(void *argument)
{
	struct file *file = argument;

	for (int i = 0; i < 50; i++) {
		file->bytes = i * 997;
		file->seed = i;
		if (send_file(file))
			return 1;
	}
	return finish(file->fd, 10000) ? 2 : 0;
}

static void many_files_in_one_connection(void)
{
	struct pair pair = connected(AF_INET);
	struct file sent = {pair.master, &paths[0], NULL, BLOCKING, true, 0, 0};
	struct file received = {pair.slave, &paths[0], NULL, BLOCKING, true, 0, 0};
	pid_t pid = child(send_files, &sent);
	uint64_t length = 0;
	int good = 0;

	for (int i = 0; i < 50; i++) {
		received.bytes = i * 997;
		received.seed = i;
		good += receive_file(&received) == (long)received.bytes;
	}
	check(good == 50, "50 files in one connection");
	check_error(frame(pair.slave, &length, 0), ENODATA, "no frame after the last file");
	check(finish(pair.slave, 10000) == 0, "finish after the last file");
	check(joined(pid), "finish of the sender after the last file");
	check(stats(pair.slave).frames == 50, "frames are counted");
	check(stats(pair.slave).bytes == 997 * 49 * 50 / 2, "bytes do not include lengths");
	close_pair(pair);
}

static void many_connections_of_one_session(void)
{
	int master = device(MASTER, 0);
	int slave = device(SLAVE, 0);
	int port = listen_at(master, AF_INET);
	int good = 0;

	for (uint32_t i = 0; i < 20; i++) {
		struct file sent = {master, &paths[0], NULL, BLOCKING, false, i * 1000, i};
		struct file received = {slave, &paths[0], NULL, BLOCKING, false, i * 1000, i};
		pid_t pid;

		must(connect_to(slave, AF_INET, port) == 0 && accept_from(master) == 0);
		pid = child(send_file, &sent);
		good += receive_file(&received) == (long)received.bytes && joined(pid);
		must(ioctl(master, FATHOM_IOC_DETACH) == 0);
		must(ioctl(slave, FATHOM_IOC_DETACH) == 0);
	}
	check(good == 20, "20 files, each in its connection");
	check(stats(master).connections == 20, "connections are counted");
	check(stats(slave).frames == 0, "no frames without FRAME");
	close(master);
	close(slave);
}

static void receives_honour_their_length(void)
{
	struct pair pair = connected(AF_INET);
	uint8_t *window = map_window(pair.slave, 16);
	uint8_t bytes[4000];
	uint8_t read_bytes[4000];
	uint64_t start_ms;
	struct iovec parts[] = {{read_bytes, 7}, {read_bytes + 7, 93}};

	must(window != MAP_FAILED);
	pattern(bytes, sizeof(bytes), 7, 0);
	memset(window, 0xee, 16 * PAGE);
	check(write(pair.master, bytes, 4000) == 4000, "write returns the number of bytes");
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 5000, 100, 0) == 100,
	      "RECEIVE of fewer bytes than there are");
	check(has_pattern(window + 5000, 100, 7, 0), "RECEIVE at an offset of the window");
	check(window[4999] == 0xee && window[5100] == 0xee, "bytes around are not touched");
	check(read(pair.slave, read_bytes, 900) == 900 && has_pattern(read_bytes, 900, 7, 100),
	      "read of fewer bytes than there are");
	check(readv(pair.slave, parts, 2) == 100 && has_pattern(read_bytes, 100, 7, 1000),
	      "readv fills all parts");
	check(read(pair.slave, read_bytes, 0) == 0, "read of no bytes");
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 0, 2900, 0) == 2900 &&
		      has_pattern(window, 2900, 7, 1100),
	      "RECEIVE of exactly the rest");
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 16 * PAGE - 1, 1, 1) == -1 &&
		      errno == ETIMEDOUT,
	      "nothing else arrived");
	must(write(pair.master, bytes, 1000) == 1000);
	start_ms = now_ms();
	check(read(pair.slave, read_bytes, 4000) == 1000 && now_ms() - start_ms < 5000,
	      "read returns what there is");
	must(write(pair.master, bytes, 1000) == 1000);
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 0, 4000, 50) == 1000,
	      "RECEIVE returns its part at the time-out");
	must(write(pair.master, bytes, 1000) == 1000);
	must(ioctl(pair.master, FATHOM_IOC_DETACH) == 0);
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 0, 4000, 0) == 1000,
	      "RECEIVE returns its part at the end");
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 0, 4000, 0) == 0, "then RECEIVE returns 0");
	check(read(pair.slave, read_bytes, 1) == 0, "then read returns 0");
	munmap(window, 16 * PAGE);
	close_pair(pair);
}

static void frames_bound_the_bytes(void)
{
	struct pair pair = connected(AF_INET);
	uint8_t *window = map_window(pair.slave, 1);
	uint64_t length = 10;
	uint64_t other = 0;
	uint8_t bytes[100];

	must(window != MAP_FAILED);
	memset(bytes, 1, sizeof(bytes));
	check(frame(pair.master, &length, 0) == 0, "frame of the master");
	check(frame(pair.slave, &other, 0) == 0 && other == 10, "frame of the slave");
	check_error(frame(pair.master, &length, 0), EBUSY, "frame within a frame, master");
	check_error(frame(pair.slave, &other, 0), EBUSY, "frame within a frame, slave");
	check(write(pair.master, bytes, 4) == 4, "write within the frame");
	check(write(pair.master, bytes, 100) == 6, "write is cut at the end of the frame");
	check_error(write(pair.master, bytes, 1), ENOSPC, "write after the end of the frame");
	length = 3;
	check(frame(pair.master, &length, 0) == 0, "next frame of the master");
	must(write(pair.master, bytes, 3) == 3);
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 0, 100, 0) == 10,
	      "RECEIVE ends with the frame");
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 0, 100, 0) == 0, "RECEIVE after the frame");
	check(read(pair.slave, bytes, 100) == 0, "read after the frame");
	check(frame(pair.slave, &other, 0) == 0 && other == 3, "next frame of the slave");
	check(read(pair.slave, bytes, 100) == 3, "read ends with the frame");
	length = 1ULL << 63;
	check_error(frame(pair.master, &length, 0), EINVAL, "frame of 2^63 bytes");
	munmap(window, PAGE);
	close_pair(pair);
}

static void both_ends_of_attached_sockets(int family)
{
	struct pair pair = {device(MASTER, 0), device(SLAVE, 0)};
	struct file sent = {pair.master, &paths[0], NULL, BLOCKING, false, 200000, 5};
	struct file received = {pair.slave, &paths[0], NULL, BLOCKING, false, 200000, 5};
	int sockets[2];
	uint8_t bytes[5];
	pid_t pid;

	tcp_pair(sockets, family);
	check(attach(pair.master, sockets[0]) == 0, "attach to the master, family %d", family);
	check(attach(pair.slave, sockets[1]) == 0, "attach to the slave, family %d", family);
	must(write(sockets[1], "hello", 5) == 5 && read(sockets[0], bytes, 5) == 5);
	check(!memcmp(bytes, "hello", 5), "attached sockets stay usable, family %d", family);
	pid = child(send_file, &sent);
	check(receive_file(&received) == 200000 && joined(pid), "attached content, family %d",
	      family);
	must(ioctl(pair.slave, FATHOM_IOC_DETACH) == 0);
	check(read(sockets[1], bytes, 1) == 0, "a detached socket stays open, family %d", family);
	close(sockets[0]);
	close(sockets[1]);
	close_pair(pair);
}

void test_transfers(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_BLOCK, &set, NULL);
	content_by_every_path();
	many_files_in_one_connection();
	many_connections_of_one_session();
	receives_honour_their_length();
	frames_bound_the_bytes();
	both_ends_of_attached_sockets(AF_INET);
	both_ends_of_attached_sockets(AF_INET6);
}
