// SPDX-License-Identifier: GPL-2.0
/* Allocations that fail, one after the other; unloading while in use; parameters. */
#include "check.h"

#include <sys/syscall.h>

/* All steps that allocate. Returns false as soon as one fails with ENOMEM. */
static bool whole_transfer(void)
{
	struct fathom_hello hello = {FATHOM_VERSION, FATHOM_STRUCT_BYTES, 0, 0, 0, 0, 0, 0};
	struct fathom_window window = {.pages = 4};
	int fds[2] = {open(MASTER, O_RDWR), open(SLAVE, O_RDWR)};
	void *mapped = MAP_FAILED;
	bool done = false;
	int port;

	errno = ENOMEM;
	if (fds[0] < 0 || fds[1] < 0)
		goto out;
	must(ioctl(fds[0], FATHOM_IOC_HELLO, &hello) == 0);
	must(ioctl(fds[1], FATHOM_IOC_HELLO, &hello) == 0);
	port = listen_at(fds[0], AF_INET);
	if (port < 0 || connect_to(fds[1], AF_INET, port) || accept_from(fds[0]) ||
	    ioctl(fds[0], FATHOM_IOC_WINDOW, &window))
		goto out;
	mapped = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (mapped == MAP_FAILED)
		goto out;
	must(transfer(fds[0], FATHOM_IOC_SEND, 0, 4 * PAGE, 0) == 4 * PAGE);
	done = true;
out:
	if (mapped != MAP_FAILED)
		munmap(mapped, 4 * PAGE);
	if (fds[0] >= 0)
		close(fds[0]);
	if (fds[1] >= 0)
		close(fds[1]);
	return done;
}

static void each_allocation_fails(void)
{
	bool done = false;
	int n;

	for (n = 1; !done && n < 100; n++) {
		int error;

		set_parameter("fail_nth", n);
		done = whole_transfer();
		error = errno;
		set_parameter("fail_nth", 0);
		if (done)
			break;
		check(error == ENOMEM && allocations(false) == 0, "allocation %d fails cleanly", n);
	}
	check(done && n == 13, "12 allocations can fail, the transfer without failures works");
	check(whole_transfer(), "a transfer after failures");
}

static int unload(void)
{
	return syscall(SYS_delete_module, "fathom", O_NONBLOCK);
}

static int load(const char *parameters)
{
	int file = open("/fathom.ko", O_RDONLY | O_CLOEXEC);
	int result = syscall(SYS_finit_module, file, parameters, 0);
	int error = errno;

	close(file);
	errno = error;
	return result;
}

static void unloading_and_loading(void)
{
	struct fathom_hello hello = {FATHOM_VERSION, FATHOM_STRUCT_BYTES, 0, 0, 0, 0, 0, 0};
	int fd = device(MASTER, 0);
	uint8_t *window = map_window(fd, 16);
	int good = 0;

	must(window != MAP_FAILED);
	check_error(unload(), EWOULDBLOCK, "no unloading while a device is open");
	close(fd);
	check_error(unload(), EWOULDBLOCK, "no unloading while a window is mapped");
	memset(window, 1, 16 * PAGE);
	check(window[16 * PAGE - 1] == 1, "a window stays after close");
	munmap(window, 16 * PAGE);
	check(unload() == 0, "unloading");
	check(access(MASTER, F_OK) && access(SLAVE, F_OK), "no devices without the module");
	check_error(load("fail_nth=1"), ENOMEM, "loading fails at the second device");
	check(access(MASTER, F_OK) && access(SLAVE, F_OK), "no device stays after that");
	for (int i = 0; i < 10; i++)
		good += load("") == 0 && whole_transfer() && unload() == 0;
	check(good == 10, "10 times loading, transfer, unloading");
	check(load("default_timeout_ms=700000") == 0, "loading with a long time-out");
	fd = open(SLAVE, O_RDWR);
	check(ioctl(fd, FATHOM_IOC_HELLO, &hello) == 0 &&
		      hello.timeout_ms_default == FATHOM_TIMEOUT_MS_MAX,
	      "a long time-out is cut to the maximum");
	close(fd);
	set_parameter("default_timeout_ms", 30000);
}

void test_faults(void)
{
	each_allocation_fails();
	unloading_and_loading();
}
