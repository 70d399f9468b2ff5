// SPDX-License-Identifier: GPL-2.0
/* Wrong arguments to each call, calls in the wrong state, calls of 32-bit programs, fuzzing. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

static const struct {
	const char *name;
	unsigned long command;
} calls[] = {
	{"HELLO", FATHOM_IOC_HELLO},	 {"LISTEN", FATHOM_IOC_LISTEN},
	{"ACCEPT", FATHOM_IOC_ACCEPT},	 {"CONNECT", FATHOM_IOC_CONNECT},
	{"ATTACH", FATHOM_IOC_ATTACH},	 {"DETACH", FATHOM_IOC_DETACH},
	{"FRAME", FATHOM_IOC_FRAME},	 {"WINDOW", FATHOM_IOC_WINDOW},
	{"SEND", FATHOM_IOC_SEND},	 {"RECEIVE", FATHOM_IOC_RECEIVE},
	{"FINISH", FATHOM_IOC_FINISH},	 {"PTE", FATHOM_IOC_PTE},
	{"STATS", FATHOM_IOC_STATS},
};

static void hello_agrees_on_the_version(void)
{
	struct fathom_hello good = {FATHOM_VERSION, FATHOM_STRUCT_BYTES, 0, 0, 0, 0, 0, 0};
	struct fathom_hello hello = good;
	int fd = open(SLAVE, O_RDWR);

	must(fd >= 0);
	for (size_t i = 1; i < COUNT(calls); i++) {
		uint8_t zeros[64] = {0};

		check_error(ioctl(fd, calls[i].command, zeros), EPROTO, "%s before HELLO",
			    calls[i].name);
	}
	hello.version++;
	check_error(ioctl(fd, FATHOM_IOC_HELLO, &hello), EPROTO, "HELLO with another version");
	hello = good;
	hello.struct_bytes++;
	check_error(ioctl(fd, FATHOM_IOC_HELLO, &hello), EPROTO, "HELLO with other structures");
	hello = good;
	hello.reserved = 1;
	check_error(ioctl(fd, FATHOM_IOC_HELLO, &hello), EINVAL, "HELLO with a reserved field");
	hello = good;
	check(ioctl(fd, FATHOM_IOC_HELLO, &hello) == 0 && hello.role == FATHOM_ROLE_SLAVE,
	      "HELLO returns the role of the slave");
	check(hello.page_bytes == PAGE && hello.window_pages_max == FATHOM_WINDOW_PAGES_MAX,
	      "HELLO returns the limits of windows");
	check(hello.timeout_ms_default == 30000 && hello.timeout_ms_max == FATHOM_TIMEOUT_MS_MAX,
	      "HELLO returns the limits of time-outs");
	close(fd);
	fd = open(MASTER, O_RDWR);
	hello = good;
	check(ioctl(fd, FATHOM_IOC_HELLO, &hello) == 0 && hello.role == FATHOM_ROLE_MASTER,
	      "HELLO returns the role of the master");
	close(fd);
}

static void pointers_and_sizes(void)
{
	int fd = device(MASTER, 0);
	int good = 0;

	for (size_t i = 0; i < COUNT(calls); i++) {
		unsigned long command = calls[i].command;

		check_error(ioctl(fd, command + (1UL << _IOC_SIZESHIFT), NULL), ENOTTY,
			    "%s with a larger structure", calls[i].name);
		if (_IOC_DIR(command) == _IOC_NONE)
			continue;
		check_error(ioctl(fd, command, NULL), EFAULT, "%s without a structure",
			    calls[i].name);
		check_error(ioctl(fd, command, 0xffff888000001000UL), EFAULT,
			    "%s with an address of the kernel", calls[i].name);
	}
	for (unsigned long nr = COUNT(calls); nr < 256; nr++)
		good += ioctl(fd, _IO(FATHOM_IOC, nr)) == -1 && errno == ENOTTY;
	check(good == 256 - (int)COUNT(calls), "unknown ioctls");
	check_error(ioctl(fd, 0x5401UL, NULL), ENOTTY, "an ioctl of terminals");
	close(fd);
}

static void reserved_fields_and_ranges(void)
{
	struct pair pair = connected(AF_INET);
	struct fathom_endpoint endpoint = loopback(AF_INET, 0);
	struct fathom_attach attach_argument = {.fd = 0, .reserved = 1};
	struct fathom_frame frame_argument = {.reserved = 1};
	struct fathom_window window = {.pages = 1, .reserved = 1};
	struct fathom_transfer part = {.length = 1, .reserved = 1};
	struct fathom_finish finish_argument = {.reserved = 1};
	struct fathom_pte pte = {.reserved = 1};
	int slave = device(SLAVE, 0);
	int master = device(MASTER, 0);
	uint8_t *mapped = map_window(pair.master, 16);
	uint64_t length = 0;

	must(mapped != MAP_FAILED);
	endpoint.reserved = 1;
	check_error(ioctl(master, FATHOM_IOC_LISTEN, &endpoint), EINVAL, "LISTEN, reserved");
	check_error(ioctl(slave, FATHOM_IOC_CONNECT, &endpoint), EINVAL, "CONNECT, reserved");
	must(listen_at(master, AF_INET) > 0);
	check_error(ioctl(master, FATHOM_IOC_ACCEPT, &endpoint), EINVAL, "ACCEPT, reserved");
	check_error(ioctl(master, FATHOM_IOC_ATTACH, &attach_argument), EINVAL, "ATTACH, reserved");
	check_error(ioctl(pair.master, FATHOM_IOC_FRAME, &frame_argument), EINVAL,
		    "FRAME, reserved");
	check_error(ioctl(master, FATHOM_IOC_WINDOW, &window), EINVAL, "WINDOW, reserved");
	check_error(ioctl(pair.master, FATHOM_IOC_SEND, &part), EINVAL, "SEND, reserved");
	check_error(ioctl(pair.master, FATHOM_IOC_FINISH, &finish_argument), EINVAL,
		    "FINISH, reserved");
	check_error(ioctl(master, FATHOM_IOC_PTE, &pte), EINVAL, "PTE, reserved");
	endpoint.reserved = 0;
	endpoint.timeout_ms = 1;
	check_error(ioctl(slave, FATHOM_IOC_LISTEN, &endpoint), EINVAL, "LISTEN with a time-out");
	endpoint.timeout_ms = FATHOM_TIMEOUT_MS_MAX + 1;
	check_error(ioctl(slave, FATHOM_IOC_CONNECT, &endpoint), EINVAL, "CONNECT, long time-out");
	check_error(ioctl(master, FATHOM_IOC_ACCEPT, &endpoint), EINVAL, "ACCEPT, long time-out");
	check_error(frame(pair.master, &length, FATHOM_TIMEOUT_MS_MAX + 1), EINVAL,
		    "FRAME, long time-out");
	check_error(finish(pair.master, FATHOM_TIMEOUT_MS_MAX + 1), EINVAL,
		    "FINISH, long time-out");
	check_error(transfer(pair.master, FATHOM_IOC_SEND, 0, 1, FATHOM_TIMEOUT_MS_MAX + 1), EINVAL,
		    "SEND, long time-out");
	check_error(transfer(pair.master, FATHOM_IOC_SEND, 0, 0, 0), EINVAL, "SEND of no bytes");
	check_error(transfer(pair.master, FATHOM_IOC_SEND, 16 * PAGE, 1, 0), EINVAL,
		    "SEND after the window");
	check_error(transfer(pair.master, FATHOM_IOC_SEND, 1, 16 * PAGE, 0), EINVAL,
		    "SEND across the end of the window");
	check_error(transfer(pair.master, FATHOM_IOC_SEND, 2, UINT32_MAX, 0), EINVAL,
		    "SEND of 2^32 - 1 bytes");
	check_error(transfer(pair.slave, FATHOM_IOC_RECEIVE, 0, 1, 0), ENXIO,
		    "RECEIVE without a window");
	check_error(transfer(pair.master, FATHOM_IOC_RECEIVE, 0, 1, 0), EOPNOTSUPP,
		    "RECEIVE of the master");
	check_error(transfer(pair.slave, FATHOM_IOC_SEND, 0, 1, 0), EOPNOTSUPP,
		    "SEND of the slave");
	check(transfer(pair.master, FATHOM_IOC_SEND, 16 * PAGE - 1, 1, 0) == 1,
	      "SEND of the last byte of the window");
	munmap(mapped, 16 * PAGE);
	close(master);
	close(slave);
	close_pair(pair);
}

static void addresses(void)
{
	struct fathom_endpoint endpoint;
	int listener = device(MASTER, 0);
	int other = device(MASTER, 0);
	int port = listen_at(listener, AF_INET);

	must(port > 0);
	endpoint = loopback(AF_UNIX, 0);
	check_error(ioctl(other, FATHOM_IOC_LISTEN, &endpoint), EAFNOSUPPORT, "LISTEN, AF_UNIX");
	check_error(ioctl(other, FATHOM_IOC_CONNECT, &endpoint), EAFNOSUPPORT, "CONNECT, AF_UNIX");
	endpoint = loopback(AF_INET, 0);
	endpoint.address[15] = 1;
	check_error(ioctl(other, FATHOM_IOC_LISTEN, &endpoint), EINVAL, "16 bytes of IPv4");
	endpoint = loopback(AF_INET, 0);
	endpoint.scope_id = 1;
	check_error(ioctl(other, FATHOM_IOC_LISTEN, &endpoint), EINVAL, "scope of IPv4");
	endpoint = loopback(AF_INET, port);
	check_error(ioctl(other, FATHOM_IOC_LISTEN, &endpoint), EADDRINUSE, "port in use");
	endpoint = loopback(AF_INET, 0);
	endpoint.address[0] = 192;
	check_error(ioctl(other, FATHOM_IOC_LISTEN, &endpoint), EADDRNOTAVAIL, "foreign address");
	check_error(ioctl(other, FATHOM_IOC_CONNECT, &endpoint), ENETUNREACH, "no route");
	check_error(connect_to(other, AF_INET, 1), ECONNREFUSED, "no listener");
	check_error(connect_to(other, AF_INET6, 1), ECONNREFUSED, "no listener, IPv6");
	check(stats(other).connections == 0, "failed connections are not counted");
	check_error(listen_at(listener, AF_INET), EISCONN, "LISTEN twice");
	check(connect_to(other, AF_INET, port) == 0, "CONNECT after failures");
	check_error(connect_to(other, AF_INET, port), EISCONN, "CONNECT twice");
	endpoint = (struct fathom_endpoint){.timeout_ms = 1000};
	check(ioctl(listener, FATHOM_IOC_ACCEPT, &endpoint) == 0 && endpoint.family == AF_INET &&
		      endpoint.port && endpoint.address[0] == 127 && endpoint.address[3] == 1,
	      "ACCEPT returns the peer");
	check_error(accept_from(listener), EISCONN, "ACCEPT twice");
	check_error(attach(listener, 0), EISCONN, "ATTACH after ACCEPT");
	close(listener);
	close(other);
	listener = device(SLAVE, 0);
	check(listen_at(listener, AF_INET6) > 0, "the slave may listen too");
	close(listener);
}

static void calls_without_connection(void)
{
	int master = device(MASTER, 0);
	int slave = device(SLAVE, 0);
	struct fathom_window window = {.pages = 1};
	uint64_t length = 0;
	uint8_t byte = 0;

	must(ioctl(master, FATHOM_IOC_WINDOW, &window) == 0);
	must(ioctl(slave, FATHOM_IOC_WINDOW, &window) == 0);
	check_error(accept_from(master), EDESTADDRREQ, "ACCEPT without LISTEN");
	check_error(ioctl(master, FATHOM_IOC_DETACH), ENOTCONN, "DETACH");
	check_error(frame(master, &length, 0), ENOTCONN, "FRAME");
	check_error(transfer(master, FATHOM_IOC_SEND, 0, 1, 0), ENOTCONN, "SEND");
	check_error(transfer(slave, FATHOM_IOC_RECEIVE, 0, 1, 0), ENOTCONN, "RECEIVE");
	check_error(finish(master, 0), ENOTCONN, "FINISH");
	check_error(write(master, &byte, 1), ENOTCONN, "write");
	check_error(read(slave, &byte, 1), ENOTCONN, "read");
	check_error(read(master, &byte, 1), EINVAL, "read of the master");
	check_error(write(slave, &byte, 1), EINVAL, "write to the slave");
	check_error(lseek(slave, 0, SEEK_SET), ESPIPE, "lseek");
	check_error(pread(slave, &byte, 1, 0), ESPIPE, "pread");
	check_error(pwrite(master, &byte, 1, 0), ESPIPE, "pwrite");
	close(master);
	close(slave);
}

static void modes_of_open(void)
{
	struct fathom_hello hello = {FATHOM_VERSION, FATHOM_STRUCT_BYTES, 0, 0, 0, 0, 0, 0};
	struct fathom_window window = {.pages = 1};
	int fd = open(MASTER, O_RDONLY);
	struct stat status;

	must(fd >= 0 && ioctl(fd, FATHOM_IOC_HELLO, &hello) == 0);
	must(ioctl(fd, FATHOM_IOC_WINDOW, &window) == 0);
	check_error(transfer(fd, FATHOM_IOC_SEND, 0, 1, 0), EBADF, "SEND of a read-only file");
	check_error((long)mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0), EACCES,
		    "writable mapping of a read-only file");
	close(fd);
	must(stat(MASTER, &status) == 0);
	check((status.st_mode & 07777) == 0600, "mode of the master");
	must(stat(SLAVE, &status) == 0);
	check((status.st_mode & 07777) == 0600, "mode of the slave");
}

static void user_buffers_without_access(void)
{
	struct pair pair = connected(AF_INET);
	uint8_t *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	uint8_t byte;
	long n;

	must(page != MAP_FAILED && mprotect(page + PAGE, PAGE, PROT_NONE) == 0);
	memset(page, 3, PAGE);
	check_error(write(pair.master, page + PAGE, 10), EFAULT, "write from PROT_NONE");
	n = write(pair.master, page + PAGE - 10, 20);
	check(n == 10 || (n == -1 && errno == EFAULT), "write across PROT_NONE");
	must(write(pair.master, page, 10) == 10);
	check_error(read(pair.slave, page + PAGE, 10), EFAULT, "read into PROT_NONE");
	check(read(pair.slave, &byte, 1) == 1 && byte == 3, "bytes stay after EFAULT");
	munmap(page, 2 * PAGE);
	close_pair(pair);
}

/* An ioctl as a 32-bit program calls it; the structure must be below 4 GiB. */
static long ioctl_32(int fd, unsigned int command, void *argument)
{
	long result;

	asm volatile("int $0x80"
		     : "=a"(result)
		     : "a"(54), "b"(fd), "c"(command), "d"((uint32_t)(uintptr_t)argument)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}

static void calls_of_32_bit_programs(void)
{
	void *low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct fathom_hello *hello = low;
	struct fathom_pte *pte = low;
	struct fathom_stats *counters = low;
	int fd = open(MASTER, O_RDWR);

	must(low != MAP_FAILED && fd >= 0);
	*hello = (struct fathom_hello){FATHOM_VERSION, FATHOM_STRUCT_BYTES, 0, 0, 0, 0, 0, 0};
	check(ioctl_32(fd, FATHOM_IOC_HELLO, hello) == 0 && hello->role == FATHOM_ROLE_MASTER,
	      "32-bit HELLO");
	*pte = (struct fathom_pte){.address = (uintptr_t)low};
	check(ioctl_32(fd, FATHOM_IOC_PTE, pte) == 0 && (pte->flags & FATHOM_PTE_PRESENT),
	      "32-bit PTE");
	check(ioctl_32(fd, FATHOM_IOC_DETACH, NULL) == -ENOTCONN, "32-bit DETACH");
	check(ioctl_32(fd, FATHOM_IOC_STATS, counters) == 0 && counters->bytes == 0,
	      "32-bit STATS");
	munmap(low, PAGE);
	close(fd);
}

void test_arguments(void)
{
	hello_agrees_on_the_version();
	pointers_and_sizes();
	reserved_fields_and_ranges();
	addresses();
	calls_without_connection();
	modes_of_open();
	user_buffers_without_access();
	calls_of_32_bit_programs();
}

/* A structure of small numbers, now and then with any bytes: both get past the first checks. */
static void random_structure(uint32_t *words, uint32_t *state)
{
	uint32_t kind = random_u32(state) % 4;

	for (int i = 0; i < 16; i++)
		words[i] = kind == 0 ? random_u32(state) :
			   kind == 1 ? 0 :
				       random_u32(state) % 5;
	if (kind == 3) {
		struct fathom_endpoint *endpoint = (void *)words;

		*endpoint = loopback(random_u32(state) % 2 ? AF_INET : AF_INET6,
				     random_u32(state) % 2 ? 0 : 40000 + random_u32(state) % 50);
		endpoint->timeout_ms = random_u32(state) % 3;
	}
}

static int fuzz(void *argument)
{
	uint32_t state = *(uint32_t *)argument;
	int fds[4] = {device(MASTER, O_NONBLOCK), device(SLAVE, O_NONBLOCK),
		      device(MASTER, O_NONBLOCK), device(SLAVE, O_NONBLOCK)};

	alarm(60);
	for (int i = 0; i < 8000; i++) {
		int fd = fds[random_u32(&state) % 4];
		unsigned long command = calls[random_u32(&state) % COUNT(calls)].command;
		size_t bytes = random_u32(&state) % 20 * PAGE;
		uint32_t words[16];

		random_structure(words, &state);
		switch (random_u32(&state) % 16) {
		case 0:
			command ^= 1UL << random_u32(&state) % 32;
			break;
		case 1:
			munmap(mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd,
				    random_u32(&state) % 20 * PAGE),
			       bytes);
			continue;
		case 2:
			if (write(fd, words, random_u32(&state) % 64) < 0)
				continue;
			continue;
		case 3:
			if (read(fd, words, random_u32(&state) % 64) < 0)
				continue;
			continue;
		}
		/* These two wait in spite of O_NONBLOCK. */
		if (command == FATHOM_IOC_FINISH || command == FATHOM_IOC_CONNECT)
			words[command == FATHOM_IOC_FINISH ? 0 : 6] |= 1;
		if (command == FATHOM_IOC_FINISH)
			words[0] &= 3;
		ioctl(fd, command, words);
	}
	return 0;
}

void test_fuzz(void)
{
	pid_t pids[4];

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t seed = 0x1234567 * (i + 1);

		pids[i] = child(fuzz, &seed);
	}
	for (uint32_t i = 0; i < 4; i++)
		check(joined(pids[i]), "8000 random calls, process %u", i + 1);
}
