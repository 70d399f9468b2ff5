// SPDX-License-Identifier: GPL-2.0
/* The far end closes, resets, dies or sends nonsense; what pollers see of it. */
#include "check.h"

#include <poll.h>
#include <sys/epoll.h>

static void reset(int socket)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(socket);
}

static short events_of(int fd)
{
	struct pollfd poll_fd = {.fd = fd,
				 .events = POLLIN | POLLOUT | POLLRDHUP};

	poll(&poll_fd, 1, 0);
	return poll_fd.revents;
}

static int die_within_frame(void *argument)
{
	struct pair *pair = argument;
	uint64_t length = 1000;
	uint8_t bytes[400] = {0};

	close(pair->slave);
	if (frame(pair->master, &length, 0) || write(pair->master, bytes, 400) != 400)
		return 1;
	raise(SIGKILL);
	return 1;
}

static void sender_dies_within_a_frame(void)
{
	struct pair pair = connected(AF_INET);
	pid_t pid = child(die_within_frame, &pair);
	uint64_t length = 0;
	uint8_t bytes[1000];
	long received = 0;
	long n;
	int error;

	close(pair.master);
	check(frame(pair.slave, &length, 0) == 0 && length == 1000, "frame of a dying sender");
	joined(pid);
	while ((n = read(pair.slave, bytes, sizeof(bytes))) > 0)
		received += n;
	error = errno;
	check(received == 400, "bytes before the death arrive");
	check(n == -1 && error == ECONNRESET, "the end within a frame");
	check_error(frame(pair.slave, &length, 0), EBUSY, "no next frame after that");
	check(ioctl(pair.slave, FATHOM_IOC_DETACH) == 0, "the session goes on after DETACH");
	check_error(frame(pair.slave, &length, 0), ENOTCONN, "without a connection");
	close(pair.slave);
}

static void end_within_a_length(void)
{
	uint8_t negative[8] = {0xff, 0, 0, 0, 0, 0, 0, 0};
	int slave = device(SLAVE, 0);
	uint64_t length = 0;
	int sockets[2];

	tcp_pair(sockets, AF_INET);
	must(attach(slave, sockets[0]) == 0);
	must(write(sockets[1], negative, 3) == 3);
	close(sockets[1]);
	check_error(frame(slave, &length, 0), ECONNRESET, "the end within a length");
	must(ioctl(slave, FATHOM_IOC_DETACH) == 0);
	close(sockets[0]);
	tcp_pair(sockets, AF_INET);
	must(attach(slave, sockets[0]) == 0);
	must(write(sockets[1], negative, 8) == 8);
	check_error(frame(slave, &length, 0), EPROTO, "a length above 2^63 - 1");
	check_error(frame(slave, &length, 0), EPROTO, "again");
	must(ioctl(slave, FATHOM_IOC_DETACH) == 0);
	close(sockets[0]);
	close(sockets[1]);
	close(slave);
}

static int pipe_signals;

static void count_signal(int signal)
{
	(void)signal;
	pipe_signals++;
}

static void resets(void)
{
	struct sigaction action = {.sa_handler = count_signal};
	int master = device(MASTER, 0);
	int slave = device(SLAVE, 0);
	uint64_t length = 5;
	uint8_t byte = 0;
	int sockets[2];
	long n;

	tcp_pair(sockets, AF_INET);
	must(attach(slave, sockets[0]) == 0);
	reset(sockets[1]);
	check_error(read(slave, &byte, 1), ECONNRESET, "read after a reset");
	check(read(slave, &byte, 1) == 0, "then the end");
	must(ioctl(slave, FATHOM_IOC_DETACH) == 0);
	close(sockets[0]);

	tcp_pair(sockets, AF_INET);
	must(attach(slave, sockets[0]) == 0);
	reset(sockets[1]);
	check_error(finish(slave, 1000), ECONNRESET, "FINISH after a reset");
	must(ioctl(slave, FATHOM_IOC_DETACH) == 0);
	close(sockets[0]);

	tcp_pair(sockets, AF_INET);
	must(attach(master, sockets[0]) == 0);
	reset(sockets[1]);
	n = write(master, &byte, 1);
	check(n == -1 && (errno == ECONNRESET || errno == EPIPE), "write after a reset");
	sigaction(SIGPIPE, &action, NULL);
	check_error(write(master, &byte, 1), EPIPE, "second write after a reset");
	check_error(frame(master, &length, 0), EPIPE, "FRAME after a reset");
	check(pipe_signals == 0, "no SIGPIPE");
	must(ioctl(master, FATHOM_IOC_DETACH) == 0);
	close(sockets[0]);
	close(master);
	close(slave);
}

static void finishes(void)
{
	struct pair pair = connected(AF_INET);
	uint8_t byte = 0;

	must(write(pair.master, &byte, 1) == 1);
	check_error(finish(pair.master, 50), ETIMEDOUT, "FINISH before the peer's");
	check_error(write(pair.master, &byte, 1), EPIPE, "write after FINISH");
	check(read(pair.slave, &byte, 1) == 1, "read after the peer's FINISH");
	check(finish(pair.slave, 1000) == 0, "FINISH of the slave");
	check(finish(pair.master, 1000) == 0, "FINISH of the master, again");
	check(read(pair.slave, &byte, 1) == 0, "read after FINISH of both");
	close_pair(pair);
}

static void events(void)
{
	int master = device(MASTER, 0);
	int slave = device(SLAVE, 0);
	uint8_t byte = 0;
	int port;

	check(events_of(slave) == POLLHUP, "poll without a connection");
	port = listen_at(master, AF_INET);
	check(events_of(master) == 0, "poll of a listening device");
	must(connect_to(slave, AF_INET, port) == 0);
	check(events_of(master) == POLLIN, "poll with a connection to accept");
	must(accept_from(master) == 0);
	check(events_of(slave) == POLLOUT, "poll of an idle connection");
	must(write(master, &byte, 1) == 1);
	check(events_of(slave) == (POLLIN | POLLOUT), "poll with a byte to read");
	finish(master, 1);
	check(events_of(slave) == (POLLIN | POLLOUT | POLLRDHUP), "poll after the peer's FINISH");
	must(finish(slave, 1000) == 0);
	check((events_of(slave) & POLLHUP) != 0, "poll after FINISH of both");
	close(master);
	close(slave);
}

/* DETACH frees a socket that epoll waits for; the next connection must wake it up. */
static void epoll_across_connections(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int master = device(MASTER, 0);
	int slave = device(SLAVE, 0);
	int port = listen_at(master, AF_INET);
	uint8_t byte = 0;
	int good = 0;

	must(epoll_ctl(epoll, EPOLL_CTL_ADD, slave, &event) == 0);
	for (int i = 0; i < 10; i++) {
		must(connect_to(slave, AF_INET, port) == 0 && accept_from(master) == 0);
		while (epoll_wait(epoll, &event, 1, 0) > 0)
			;
		must(write(master, &byte, 1) == 1);
		good += epoll_wait(epoll, &event, 1, 5000) == 1 && (event.events & EPOLLIN) &&
			read(slave, &byte, 1) == 1;
		must(ioctl(slave, FATHOM_IOC_DETACH) == 0);
		good += epoll_wait(epoll, &event, 1, 5000) == 1 && (event.events & EPOLLHUP);
		must(ioctl(master, FATHOM_IOC_DETACH) == 0);
	}
	check(good == 20, "epoll follows 10 connections");
	close(slave);
	close(epoll);
	close(master);
}

static void signals(void)
{
	struct timespec limit = {.tv_sec = 5};
	struct timespec none = {0};
	struct pair pair = connected(AF_INET);
	uint8_t byte = 0;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_BLOCK, &set, NULL);
	while (sigtimedwait(&set, NULL, &none) > 0)
		;
	must(fcntl(pair.slave, F_SETOWN, getpid()) == 0);
	must(fcntl(pair.slave, F_SETFL, O_RDWR | O_ASYNC) == 0);
	must(write(pair.master, &byte, 1) == 1);
	check(sigtimedwait(&set, NULL, &limit) == SIGIO, "SIGIO when a byte arrives");
	must(read(pair.slave, &byte, 1) == 1);
	must(fcntl(pair.slave, F_SETFL, O_RDWR) == 0);
	while (sigtimedwait(&set, NULL, &none) > 0)
		;
	must(write(pair.master, &byte, 1) == 1);
	check(sigtimedwait(&set, NULL, &none) == -1, "no SIGIO without O_ASYNC");
	close_pair(pair);
}

static int write_until_full(void *argument)
{
	struct pair *pair = argument;
	static uint8_t bytes[1 << 20];
	int wakeups = 0;

	fcntl(pair->master, F_SETFL, O_RDWR | O_NONBLOCK);
	for (uint32_t sent = 0; sent < 16 * sizeof(bytes);) {
		struct pollfd poll_fd = {.fd = pair->master, .events = POLLOUT};
		size_t left = 16 * sizeof(bytes) - sent;
		long n = write(pair->master, bytes, left < sizeof(bytes) ? left : sizeof(bytes));

		if (n > 0) {
			sent += n;
			continue;
		}
		if (errno != EAGAIN || poll(&poll_fd, 1, 10000) != 1)
			return 1;
		wakeups++;
	}
	close(pair->master);
	return wakeups == 0;
}

static void writers_are_woken_up(void)
{
	struct pair pair = connected(AF_INET);
	pid_t pid = child(write_until_full, &pair);
	static uint8_t bytes[1 << 16];
	uint32_t received = 0;
	long n;

	close(pair.master);
	usleep(100000);
	while ((n = read(pair.slave, bytes, sizeof(bytes))) > 0)
		received += n;
	check(joined(pid) && received == 16 << 20, "poll wakes up writers");
	close(pair.slave);
}

void test_peers(void)
{
	sender_dies_within_a_frame();
	end_within_a_length();
	resets();
	finishes();
	events();
	epoll_across_connections();
	signals();
	writers_are_woken_up();
}
