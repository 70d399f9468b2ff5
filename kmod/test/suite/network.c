// SPDX-License-Identifier: GPL-2.0
/* Who may open the devices, network namespaces, and which sockets can be attached. */
#include "check.h"

#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

static void loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	must(ioctl(fd, 0x8914 /* SIOCSIFFLAGS */, &request) == 0);
	close(fd);
}

static void sockets_that_cannot_be_attached(void)
{
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	int mptcp = socket(AF_INET, SOCK_STREAM, 262 /* IPPROTO_MPTCP */);
	int master = device(MASTER, 0);
	int path_fd = open("/proc/self/exe", O_PATH);
	int file = open("/proc/self/exe", O_RDONLY);
	int unix_pair[2];
	int sockets[2];

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair) == 0);
	check_error(attach(master, -1), EBADF, "ATTACH of -1");
	check_error(attach(master, 1000), EBADF, "ATTACH of a closed file");
	check_error(attach(master, path_fd), EBADF, "ATTACH of an O_PATH file");
	check_error(attach(master, file), ENOTSOCK, "ATTACH of a regular file");
	check_error(attach(master, master), ENOTSOCK, "ATTACH of the device");
	check_error(attach(master, unix_pair[0]), EPROTONOSUPPORT, "ATTACH of a Unix socket");
	check_error(attach(master, udp), EPROTONOSUPPORT, "ATTACH of a UDP socket");
	if (mptcp >= 0)
		check_error(attach(master, mptcp), EPROTONOSUPPORT, "ATTACH of an MPTCP socket");
	check_error(attach(master, tcp), ENOTCONN, "ATTACH of an unconnected socket");
	must(listen(tcp, 1) == 0);
	check_error(attach(master, tcp), ENOTCONN, "ATTACH of a listening socket");
	tcp_pair(sockets, AF_INET);
	must(write(sockets[1], "x", 1) == 1);
	close(sockets[1]);
	usleep(10000);
	check(attach(master, sockets[0]) == 0, "ATTACH after the peer's end");
	check(stats(master).connections == 1, "only successful ATTACH is counted");
	must(ioctl(master, FATHOM_IOC_DETACH) == 0);
	close(sockets[0]);
	close(tcp);
	close(udp);
	close(mptcp);
	close(path_fd);
	close(file);
	close(unix_pair[0]);
	close(unix_pair[1]);
	close(master);
}

static int in_other_namespace(void *argument)
{
	int first = *(int *)argument;
	struct pair pair;
	int sockets[2];
	uint8_t byte = 7;
	int port;

	tcp_pair(sockets, AF_INET);
	if (unshare(CLONE_NEWNET))
		return 1;
	/* The device of the first namespace works there, although its caller moved. */
	port = listen_at(first, AF_INET);
	if (port <= 0)
		return 2;
	loopback_up();
	pair.slave = device(SLAVE, 0);
	if (connect_to(pair.slave, AF_INET, port) != -1 || errno != ECONNREFUSED)
		return 3;
	if (attach(pair.slave, sockets[0]) != -1 || errno != EXDEV)
		return 4;
	if (attach(first, sockets[0]))
		return 5;
	close_pair((struct pair){pair.slave, -1});
	pair = connected(AF_INET);
	if (unshare(CLONE_NEWNET))
		return 6;
	/* The namespace of this pair has no process left. */
	if (write(pair.master, &byte, 1) != 1 || read(pair.slave, &byte, 1) != 1)
		return 7;
	close_pair(pair);
	return 0;
}

/* Detaching leaves nothing of the session in the socket: it is freed before bytes arrive. */
static void attached_sockets_outlive_sessions(void)
{
	int master = device(MASTER, 0);
	int slave = device(SLAVE, 0);
	int sockets[2];
	uint8_t byte = 1;

	tcp_pair(sockets, AF_INET);
	must(attach(master, sockets[0]) == 0 && attach(slave, sockets[1]) == 0);
	must(ioctl(slave, FATHOM_IOC_DETACH) == 0);
	close(master);
	close(slave);
	check(write(sockets[0], &byte, 1) == 1 && read(sockets[1], &byte, 1) == 1 &&
		      write(sockets[1], &byte, 1) == 1 && read(sockets[0], &byte, 1) == 1,
	      "attached sockets outlive their sessions");
	close(sockets[0]);
	close(sockets[1]);
}

static int unshare_and_exit(void *argument)
{
	(void)argument;
	return unshare(CLONE_NEWNET);
}

static void network_namespaces(void)
{
	struct pair pair = {device(MASTER, 0), device(SLAVE, 0)};
	struct fathom_endpoint endpoint = loopback(AF_INET, 12345);
	pid_t pid = child(in_other_namespace, &pair.master);
	int status;

	waitpid(pid, &status, 0);
	check(status == 0, "namespaces of openers are kept: step %d", WEXITSTATUS(status));
	check(ioctl(pair.slave, FATHOM_IOC_LISTEN, &endpoint) == 0, "LISTEN in the first one");
	close_pair(pair);
	/* The kernel frees a namespace in the background, when the next one goes. */
	for (int i = 0; i < 50 && network_namespaces_in_use() > 1; i++) {
		joined(child(unshare_and_exit, NULL));
		usleep(100000);
	}
	check(network_namespaces_in_use() <= 1, "no namespace stays: %d",
	      network_namespaces_in_use());
}

static void drop_capabilities(unsigned long long kept)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {
		{kept, kept, 0},
		{kept >> 32, kept >> 32, 0},
	};

	must(prctl(PR_SET_KEEPCAPS, 1) == 0);
	must(setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0);
	must(syscall(SYS_capset, &header, data) == 0);
	must(prctl(PR_SET_DUMPABLE, 1) == 0);
}

static int open_with(unsigned long long capabilities, int namespaces)
{
	drop_capabilities(capabilities);
	if (unshare(namespaces))
		return 255;
	return open(SLAVE, O_RDWR) < 0 ? errno : 0;
}

static int without_capability(void *argument)
{
	(void)argument;
	return open_with(0, 0) != EPERM;
}

static int with_capability(void *argument)
{
	(void)argument;
	return open_with(1ULL << CAP_NET_ADMIN, 0) != 0;
}

static int with_own_namespaces(void *argument)
{
	(void)argument;
	return open_with(0, CLONE_NEWUSER | CLONE_NEWNET) != 0;
}

static int with_own_user_namespace(void *argument)
{
	(void)argument;
	return open_with(0, CLONE_NEWUSER) != EPERM;
}

static int without_node_permission(void *argument)
{
	(void)argument;
	return open_with(1ULL << CAP_NET_ADMIN, 0) != EACCES;
}

/* CAP_NET_ADMIN does not permit low ports. */
static int low_port(void *argument)
{
	struct fathom_endpoint endpoint = loopback(AF_INET, 80);
	int fd;

	(void)argument;
	drop_capabilities(1ULL << CAP_NET_ADMIN);
	fd = device(MASTER, 0);
	return !(ioctl(fd, FATHOM_IOC_LISTEN, &endpoint) == -1 && errno == EACCES);
}

static int frame_numbers_are_masked(void *argument)
{
	static volatile uint8_t byte;
	struct fathom_pte pte = {.address = (uintptr_t)&byte};
	int inherited = *(int *)argument;
	int fd;

	byte = 1;
	drop_capabilities(1ULL << CAP_NET_ADMIN);
	fd = device(SLAVE, 0);
	if (ioctl(fd, FATHOM_IOC_PTE, &pte) || !(pte.flags & FATHOM_PTE_PRESENT) ||
	    (pte.flags & FATHOM_PTE_FRAME) || (pte.entry & 0xffffffffff000ULL) || !(pte.entry & 1))
		return 1;
	/* Opened by root, but not called by root. */
	return ioctl(inherited, FATHOM_IOC_PTE, &pte) || (pte.flags & FATHOM_PTE_FRAME) ||
	       (pte.entry & 0xffffffffff000ULL);
}

static void permissions(void)
{
	int fd = device(SLAVE, 0);

	check(joined(child(without_node_permission, NULL)), "CAP_NET_ADMIN, but no permission");
	must(chmod(SLAVE, 0666) == 0 && chmod(MASTER, 0666) == 0);
	check(joined(child(without_capability, NULL)), "permission, but no CAP_NET_ADMIN");
	check(joined(child(with_capability, NULL)), "permission and CAP_NET_ADMIN");
	check(joined(child(with_own_namespaces, NULL)), "CAP_NET_ADMIN in an own namespace");
	check(joined(child(with_own_user_namespace, NULL)),
	      "an own user namespace in the first network namespace");
	check(joined(child(low_port, NULL)), "port 80 needs CAP_NET_BIND_SERVICE");
	check(joined(child(frame_numbers_are_masked, &fd)), "no frame numbers without root");
	must(chmod(SLAVE, 0600) == 0 && chmod(MASTER, 0600) == 0);
	close(fd);
}

static int open_other_session(void *argument)
{
	struct fathom_stats found;
	int fd = device(SLAVE, 0);

	(void)argument;
	found = stats(fd);
	return found.connections || found.window_pages || !map_window(fd, 256);
}

static void two_openers(void)
{
	struct pair pair = connected(AF_INET);
	uint8_t *window = map_window(pair.slave, 16);
	uint8_t byte = 9;

	must(window != MAP_FAILED);
	check(joined(child(open_other_session, NULL)), "another opener has a session of its own");
	must(write(pair.master, &byte, 1) == 1);
	check(transfer(pair.slave, FATHOM_IOC_RECEIVE, 0, 1, 0) == 1 && window[0] == 9,
	      "the first session is not disturbed");
	munmap(window, 16 * PAGE);
	close_pair(pair);
}

void test_network(void)
{
	sockets_that_cannot_be_attached();
	attached_sockets_outlive_sessions();
	network_namespaces();
	permissions();
	two_openers();
}
