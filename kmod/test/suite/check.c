// SPDX-License-Identifier: GPL-2.0
#include "check.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <time.h>

bool stop_at_failure;
static int checks;

static void print(bool ok, int error, const char *format, va_list arguments)
{
	printf(ok ? "ok %d " : "not ok %d ", ++checks);
	vprintf(format, arguments);
	if (!ok)
		printf(" (errno %s)", error ? strerrorname_np(error) : "0");
	printf("\n");
	fflush(stdout);
	if (!ok && stop_at_failure)
		_exit(1);
}

void check(bool ok, const char *format, ...)
{
	int error = errno;
	va_list arguments;

	va_start(arguments, format);
	print(ok, error, format, arguments);
	va_end(arguments);
	errno = 0;
}

void check_error(long result, int error, const char *format, ...)
{
	int found = result == -1 ? errno : 0;
	va_list arguments;

	va_start(arguments, format);
	print(found == error, found, format, arguments);
	va_end(arguments);
	errno = 0;
}

void must_(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	printf("not ok %s:%d: %s: %s\n", file, line, what, strerrorname_np(errno));
	fflush(stdout);
	_exit(1);
}

int device(const char *path, int flags)
{
	struct fathom_hello hello = {
		.version = FATHOM_VERSION,
		.struct_bytes = FATHOM_STRUCT_BYTES,
	};
	int fd = open(path, O_RDWR | O_CLOEXEC | flags);

	must(fd >= 0);
	must(ioctl(fd, FATHOM_IOC_HELLO, &hello) == 0);
	return fd;
}

struct fathom_endpoint loopback(int family, int port)
{
	struct fathom_endpoint endpoint = {.family = family, .port = port};

	if (family == AF_INET) {
		endpoint.address[0] = 127;
		endpoint.address[3] = 1;
	} else {
		endpoint.address[15] = 1;
	}
	return endpoint;
}

/* Returns the port. */
int listen_at(int fd, int family)
{
	struct fathom_endpoint endpoint = loopback(family, 0);

	return ioctl(fd, FATHOM_IOC_LISTEN, &endpoint) ? -1 : endpoint.port;
}

int connect_to(int fd, int family, int port)
{
	struct fathom_endpoint endpoint = loopback(family, port);

	return ioctl(fd, FATHOM_IOC_CONNECT, &endpoint);
}

int accept_from(int fd)
{
	struct fathom_endpoint endpoint = {.timeout_ms = 10000};

	return ioctl(fd, FATHOM_IOC_ACCEPT, &endpoint);
}

struct pair connected(int family)
{
	struct pair pair = {device(MASTER, 0), device(SLAVE, 0)};
	int port = listen_at(pair.master, family);

	must(port > 0);
	must(connect_to(pair.slave, family, port) == 0);
	must(accept_from(pair.master) == 0);
	return pair;
}

void close_pair(struct pair pair)
{
	close(pair.master);
	close(pair.slave);
}

void tcp_pair(int sockets[2], int family)
{
	struct sockaddr_storage address = {.ss_family = family};
	socklen_t length = sizeof(address);
	int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (family == AF_INET)
		((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
	must(bind(listener, (struct sockaddr *)&address, length) == 0);
	must(listen(listener, 1) == 0);
	must(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
	sockets[0] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(connect(sockets[0], (struct sockaddr *)&address, length) == 0);
	sockets[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	must(sockets[1] >= 0);
	close(listener);
}

int attach(int fd, int socket)
{
	struct fathom_attach argument = {.fd = socket};

	return ioctl(fd, FATHOM_IOC_ATTACH, &argument);
}

static uint8_t pattern_byte(uint32_t seed, uint64_t offset)
{
	uint64_t x = (offset >> 3) * 0x9e3779b97f4a7c15ULL + seed * 0xbf58476d1ce4e5b9ULL;

	x ^= x >> 29;
	x *= 0x94d049bb133111ebULL;
	return x >> (8 * (offset & 7));
}

void pattern(uint8_t *to, size_t length, uint32_t seed, uint64_t offset)
{
	for (size_t i = 0; i < length; i++)
		to[i] = pattern_byte(seed, offset + i);
}

bool has_pattern(const uint8_t *from, size_t length, uint32_t seed, uint64_t offset)
{
	for (size_t i = 0; i < length; i++)
		if (from[i] != pattern_byte(seed, offset + i))
			return false;
	return true;
}

uint8_t *map_window(int fd, unsigned int pages)
{
	struct fathom_window window = {.pages = pages};

	if (ioctl(fd, FATHOM_IOC_WINDOW, &window))
		return MAP_FAILED;
	return mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

long transfer(int fd, unsigned long command, unsigned int offset, unsigned int length,
	      unsigned int timeout_ms)
{
	struct fathom_transfer part = {
		.offset = offset, .length = length, .timeout_ms = timeout_ms};

	return ioctl(fd, command, &part);
}

int frame(int fd, uint64_t *length, unsigned int timeout_ms)
{
	struct fathom_frame argument = {.length = *length, .timeout_ms = timeout_ms};
	int result = ioctl(fd, FATHOM_IOC_FRAME, &argument);

	*length = argument.length;
	return result;
}

int finish(int fd, unsigned int timeout_ms)
{
	struct fathom_finish argument = {.timeout_ms = timeout_ms};

	return ioctl(fd, FATHOM_IOC_FINISH, &argument);
}

struct fathom_stats stats(int fd)
{
	struct fathom_stats found;

	must(ioctl(fd, FATHOM_IOC_STATS, &found) == 0);
	return found;
}

pid_t child(int (*run)(void *), void *argument)
{
	pid_t pid = fork();

	must(pid >= 0);
	if (pid == 0)
		_exit(run(argument));
	return pid;
}

bool joined(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0;
}

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

uint32_t random_u32(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

void set_parameter(const char *name, int value)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/fathom/parameters/%s", name);
	file = fopen(path, "w");
	must(file && fprintf(file, "%d", value) > 0 && fclose(file) == 0);
}

/* Lines with the direct caller of allocations begin with their number; its callers follow. */
static int lines_of_module(const char *path, bool counted, bool print)
{
	char line[1024];
	int found = 0;
	FILE *file = fopen(path, "r");

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		int number = counted ? atoi(line) : 1;

		if (!number || !strstr(line, "[fathom]"))
			continue;
		found += number;
		if (print)
			printf("# %s: %s", path, line);
	}
	fclose(file);
	return found;
}

int allocations(bool all)
{
	const char *root = "/sys/kernel/debug/slab";
	int found = lines_of_module("/proc/vmallocinfo", false, all);
	struct dirent *entry;
	DIR *folder = opendir(root);

	must(folder);
	while ((entry = readdir(folder))) {
		char path[512];

		if (!all && strncmp(entry->d_name, "kmalloc", 7))
			continue;
		snprintf(path, sizeof(path), "%s/%s/alloc_traces", root, entry->d_name);
		found += lines_of_module(path, true, all);
	}
	closedir(folder);
	return found;
}

int sockets_in_use(void)
{
	FILE *file = fopen("/proc/net/sockstat", "r");
	int used = -1;

	must(file && fscanf(file, "sockets: used %d", &used) == 1);
	fclose(file);
	return used;
}

int network_namespaces_in_use(void)
{
	FILE *file = fopen("/sys/kernel/debug/slab/net_namespace/alloc_traces", "r");
	char line[1024];
	int found = 0;

	must(file);
	while (fgets(line, sizeof(line), file))
		found += atoi(line);
	fclose(file);
	return found;
}
