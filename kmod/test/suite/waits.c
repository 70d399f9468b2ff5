// SPDX-License-Identifier: GPL-2.0
/* Time-outs, signals and O_NONBLOCK of each call that waits. */
#include "check.h"

#include <netinet/in.h>
#include <sys/time.h>

/* The state in which a call has to wait. */
struct scene {
	struct pair pair;
	int listener;	   /* device that listens, without a connection */
	int sockets[4];	   /* keep a backlog full */
	int full_port;	   /* its port: connections to it wait */
	uint8_t *windows[2];
	uint8_t *buffer;
	uint64_t length;
};

#define BIG (8U << 20)

static long do_accept(struct scene *scene, unsigned int timeout_ms)
{
	struct fathom_endpoint endpoint = {.timeout_ms = timeout_ms};

	return ioctl(scene->listener, FATHOM_IOC_ACCEPT, &endpoint);
}

static long do_connect(struct scene *scene, unsigned int timeout_ms)
{
	struct fathom_endpoint endpoint = loopback(AF_INET, scene->full_port);
	int fd = device(SLAVE, 0);
	long result;

	endpoint.timeout_ms = timeout_ms;
	result = ioctl(fd, FATHOM_IOC_CONNECT, &endpoint);
	close(fd);
	return result;
}

static long do_read(struct scene *scene, unsigned int timeout_ms)
{
	(void)timeout_ms;
	return read(scene->pair.slave, scene->buffer, 10);
}

static long do_receive(struct scene *scene, unsigned int timeout_ms)
{
	return transfer(scene->pair.slave, FATHOM_IOC_RECEIVE, 0, 10, timeout_ms);
}

static long do_frame(struct scene *scene, unsigned int timeout_ms)
{
	return frame(scene->pair.slave, &scene->length, timeout_ms);
}

static long do_finish(struct scene *scene, unsigned int timeout_ms)
{
	return finish(scene->pair.slave, timeout_ms);
}

static long do_write(struct scene *scene, unsigned int timeout_ms)
{
	(void)timeout_ms;
	return write(scene->pair.master, scene->buffer, BIG);
}

static long do_send(struct scene *scene, unsigned int timeout_ms)
{
	return transfer(scene->pair.master, FATHOM_IOC_SEND, 0, BIG, timeout_ms);
}

static const struct {
	const char *name;
	long (*run)(struct scene *scene, unsigned int timeout_ms);
	bool sends;	     /* needs full socket buffers */
	bool ignores_nonblock;
} calls[] = {
	{"ACCEPT", do_accept, false, false},   {"CONNECT", do_connect, false, true},
	{"read", do_read, false, false},       {"RECEIVE", do_receive, false, false},
	{"FRAME", do_frame, false, false},     {"FINISH", do_finish, false, true},
	{"write", do_write, true, false},      {"SEND", do_send, true, false},
};

static struct scene new_scene(void)
{
	struct scene scene = {.pair = connected(AF_INET), .listener = device(MASTER, 0)};
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof(address);

	must(listen_at(scene.listener, AF_INET) > 0);
	scene.windows[0] = map_window(scene.pair.slave, 1);
	scene.windows[1] = map_window(scene.pair.master, BIG / PAGE);
	must(scene.windows[0] != MAP_FAILED && scene.windows[1] != MAP_FAILED);
	scene.buffer = calloc(1, BIG);
	scene.sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(listen(scene.sockets[0], 0) == 0);
	must(getsockname(scene.sockets[0], (struct sockaddr *)&address, &length) == 0);
	scene.full_port = ntohs(address.sin_port);
	for (int i = 1; i < 4; i++) {
		scene.sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(scene.sockets[i], (struct sockaddr *)&address, length);
	}
	return scene;
}

static void free_scene(struct scene *scene)
{
	close_pair(scene->pair);
	close(scene->listener);
	munmap(scene->windows[0], PAGE);
	munmap(scene->windows[1], BIG);
	free(scene->buffer);
	for (int i = 0; i < 4; i++)
		close(scene->sockets[i]);
}

static void set_nonblocking(struct scene *scene, bool on)
{
	int flags = O_RDWR | (on ? O_NONBLOCK : 0);

	fcntl(scene->pair.master, F_SETFL, flags);
	fcntl(scene->pair.slave, F_SETFL, flags);
	fcntl(scene->listener, F_SETFL, flags);
}

static void fill_buffers(struct scene *scene)
{
	set_nonblocking(scene, true);
	/* The receiver's buffer grows after a while. */
	for (int i = 0; i < 3; i++) {
		while (write(scene->pair.master, scene->buffer, BIG) > 0)
			;
		must(errno == EAGAIN);
		usleep(50000);
	}
	set_nonblocking(scene, false);
}

static void ignore_signal(int signal)
{
	(void)signal;
}

static void interrupt_after_ms(int ms)
{
	struct itimerval timer = {.it_value = {.tv_usec = ms * 1000}};

	setitimer(ITIMER_REAL, &timer, NULL);
}

static int wait_forever(void *argument)
{
	struct scene scene = new_scene();
	int i = *(int *)argument;

	if (calls[i].sends)
		fill_buffers(&scene);
	calls[i].run(&scene, 0);
	return 1;
}

static void each_call_that_waits(int i)
{
	struct scene scene = new_scene();
	uint64_t start_ms;
	uint64_t took_ms;
	long result;
	pid_t pid;
	int status;

	if (calls[i].sends)
		fill_buffers(&scene);
	if (!calls[i].ignores_nonblock) {
		set_nonblocking(&scene, true);
		check_error(calls[i].run(&scene, 0), EAGAIN, "%s with O_NONBLOCK", calls[i].name);
		set_nonblocking(&scene, false);
	}
	set_parameter("default_timeout_ms", 100);
	start_ms = now_ms();
	result = calls[i].run(&scene, 100);
	took_ms = now_ms() - start_ms;
	check_error(result, ETIMEDOUT, "%s at its time-out", calls[i].name);
	/* The emulated clock and the tick disagree by some ms. */
	check(took_ms >= 50 && took_ms < 5000, "%s waited for about 100 ms, not %d",
	      calls[i].name, (int)took_ms);
	set_parameter("default_timeout_ms", 30000);
	if (calls[i].sends)
		fill_buffers(&scene);
	interrupt_after_ms(100);
	start_ms = now_ms();
	result = calls[i].run(&scene, 0);
	took_ms = now_ms() - start_ms;
	check_error(result, EINTR, "%s at a signal", calls[i].name);
	check(took_ms < 5000, "%s returned at once", calls[i].name);
	free_scene(&scene);
	pid = child(wait_forever, &i);
	usleep(300000);
	start_ms = now_ms();
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	check(WIFSIGNALED(status) && now_ms() - start_ms < 5000, "%s can be killed",
	      calls[i].name);
}

static void parts_before_a_signal(void)
{
	struct scene scene = new_scene();
	long n;

	must(write(scene.pair.master, scene.buffer, 5) == 5);
	interrupt_after_ms(100);
	check(transfer(scene.pair.slave, FATHOM_IOC_RECEIVE, 0, 10, 0) == 5,
	      "RECEIVE returns its part at a signal");
	interrupt_after_ms(200);
	n = write(scene.pair.master, scene.buffer, BIG);
	check(n > 0 && n < (long)BIG, "write returns its part at a signal: %ld", n);
	check(stats(scene.pair.master).bytes == 5 + (uint64_t)n, "parts are counted");
	check(stats(scene.pair.slave).waits > 0 && stats(scene.pair.slave).waits_ns > 10000000,
	      "waits are counted");
	free_scene(&scene);
}

static int read_ten(void *argument)
{
	uint8_t bytes[10];

	return read(*(int *)argument, bytes, 10) == 10 ? 0 : 1;
}

static void one_call_at_a_time(void)
{
	struct pair pair = connected(AF_INET);
	pid_t pid = child(read_ten, &pair.slave);
	struct fathom_stats found;

	usleep(200000);
	fcntl(pair.slave, F_SETFL, O_RDWR | O_NONBLOCK);
	check_error(ioctl(pair.slave, FATHOM_IOC_STATS, &found), EAGAIN,
		    "a call during another one, O_NONBLOCK");
	fcntl(pair.slave, F_SETFL, O_RDWR);
	interrupt_after_ms(100);
	check_error(ioctl(pair.slave, FATHOM_IOC_STATS, &found), EINTR,
		    "a call during another one, at a signal");
	must(write(pair.master, "0123456789", 10) == 10);
	check(joined(pid), "the first call is not disturbed");
	close_pair(pair);
}

static int frame_child(void *argument)
{
	uint64_t length = 0;

	return frame(*(int *)argument, &length, 0) == 0 && length == 77 ? 0 : 1;
}

/* The length of a frame that arrives in two parts. */
static void interrupted_frames_continue(void)
{
	uint8_t head[8] = {0, 0, 0, 0, 0, 0, 0, 77};
	int slave = device(SLAVE, 0);
	uint64_t length = 0;
	int sockets[2];
	pid_t pid;

	tcp_pair(sockets, AF_INET);
	must(attach(slave, sockets[0]) == 0);
	must(write(sockets[1], head, 3) == 3);
	check_error(frame(slave, &length, 50), ETIMEDOUT, "FRAME with 3 of 8 bytes");
	interrupt_after_ms(50);
	check_error(frame(slave, &length, 0), EINTR, "FRAME with 3 of 8 bytes, at a signal");
	pid = child(frame_child, &slave);
	must(write(sockets[1], head + 3, 5) == 5);
	check(joined(pid), "FRAME continues where it was interrupted");
	close(sockets[0]);
	close(sockets[1]);
	close(slave);
}

void test_waits(void)
{
	struct sigaction action = {.sa_handler = ignore_signal};

	sigaction(SIGALRM, &action, NULL);
	for (size_t i = 0; i < COUNT(calls); i++)
		each_call_that_waits(i);
	parts_before_a_signal();
	one_call_at_a_time();
	interrupted_frames_continue();
}
