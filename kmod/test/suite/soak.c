// SPDX-License-Identifier: GPL-2.0
/* Random operations of four processes on shared sessions, for leaks and races. */
#include "check.h"

#include <time.h>

struct work {
	uint32_t seed;
	uint64_t end_ms;
	struct pair pairs[2]; /* shared by all processes */
	int port;
};

static void one_operation(const struct work *work, uint32_t *state, struct pair *own)
{
	struct pair pair = random_u32(state) % 2 ? *own : work->pairs[random_u32(state) % 2];
	struct fathom_window window = {.pages = random_u32(state) % 64};
	struct fathom_endpoint accept = {.timeout_ms = 1 + random_u32(state) % 20};
	struct fathom_pte pte = {.address = (uintptr_t)&accept};
	int side = random_u32(state) % 2 ? pair.master : pair.slave;
	static uint8_t bytes[1 << 16];
	uint64_t length = random_u32(state) % 100000;
	unsigned int part = 1 + random_u32(state) % sizeof(bytes);
	unsigned int timeout_ms = 1 + random_u32(state) % 20;
	void *mapped;
	int sockets[2];

	switch (random_u32(state) % 14) {
	case 0:
		if (write(pair.master, bytes, part) < 0)
			return;
		return;
	case 1:
	case 2:
		if (read(pair.slave, bytes, part) < 0)
			return;
		return;
	case 3:
		transfer(pair.master, FATHOM_IOC_SEND, part % PAGE, part, timeout_ms);
		return;
	case 4:
		transfer(pair.slave, FATHOM_IOC_RECEIVE, part % PAGE, part, timeout_ms);
		return;
	case 5:
		frame(side, &length, timeout_ms);
		return;
	case 6:
		ioctl(side, FATHOM_IOC_WINDOW, &window);
		return;
	case 7:
		mapped = mmap(NULL, window.pages * PAGE + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			      side, 0);
		if (mapped != MAP_FAILED) {
			memset(mapped, 1, PAGE);
			munmap(mapped, window.pages * PAGE + PAGE);
		}
		return;
	case 8:
		ioctl(pair.master, FATHOM_IOC_DETACH);
		ioctl(pair.slave, FATHOM_IOC_DETACH);
		return;
	case 9:
		connect_to(pair.slave, AF_INET, work->port);
		return;
	case 10:
		ioctl(pair.master, FATHOM_IOC_ACCEPT, &accept);
		return;
	case 11:
		tcp_pair(sockets, AF_INET);
		attach(pair.master, sockets[0]);
		attach(pair.slave, sockets[1]);
		close(sockets[0]);
		close(sockets[1]);
		return;
	case 12:
		finish(side, timeout_ms);
		return;
	default:
		if (!ioctl(side, FATHOM_IOC_PTE, &pte))
			must(pte.level == 0 || (pte.flags & FATHOM_PTE_PRESENT));
		if (random_u32(state) % 8 == 0) {
			close_pair(*own);
			own->master = device(MASTER, random_u32(state) % 2 ? O_NONBLOCK : 0);
			own->slave = device(SLAVE, random_u32(state) % 2 ? O_NONBLOCK : 0);
		}
	}
}

static int operate(void *argument)
{
	const struct work *work = argument;
	struct pair own = {device(MASTER, 0), device(SLAVE, 0)};
	uint32_t state = work->seed;
	uint64_t done = 0;

	for (; now_ms() < work->end_ms; done++)
		one_operation(work, &state, &own);
	printf("# process %u: %llu operations\n", work->seed, (unsigned long long)done);
	fflush(stdout);
	return 0;
}

static long memory_kib(const char *name)
{
	char line[128];
	char found[64];
	long kib = 0;
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63[^:]: %ld", found, &kib) == 2 && !strcmp(found, name))
			break;
	fclose(file);
	return kib;
}

/* Free pages that each CPU keeps for itself are not in MemFree. */
static long per_cpu_kib(void)
{
	char line[128];
	long pages = 0;
	long count;
	FILE *file = fopen("/proc/zoneinfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %ld", &count) == 1)
			pages += count;
	fclose(file);
	return pages * 4;
}

/* Ten equal parts: memory may not shrink from the second to the last. */
void soak(int seconds)
{
	long first_kib = 0;
	long last_kib = 0;

	/* Connections in TIME_WAIT would look like a leak for their first minute. */
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_max_tw_buckets", "w");

	must(file && fputs("0", file) > 0 && fclose(file) == 0);
	set_parameter("default_timeout_ms", 20);
	for (uint32_t part = 0; part < 10; part++) {
		struct work work = {.end_ms = now_ms() + seconds * 100ULL};
		pid_t pids[4];

		for (int i = 0; i < 2; i++)
			work.pairs[i] = (struct pair){device(MASTER, 0), device(SLAVE, 0)};
		work.port = listen_at(work.pairs[0].master, AF_INET);
		must(work.port > 0);
		for (uint32_t i = 0; i < 4; i++) {
			work.seed = part * 4 + i + 1;
			pids[i] = child(operate, &work);
		}
		for (uint32_t i = 0; i < 4; i++)
			check(joined(pids[i]), "process %u of part %u", i, part);
		for (int i = 0; i < 2; i++)
			close_pair(work.pairs[i]);
		check(allocations(false) == 0, "nothing stays allocated after part %u", part);
		sleep(1);
		last_kib = memory_kib("MemFree") + per_cpu_kib();
		if (part == 1)
			first_kib = last_kib;
		printf("# free %ld (per CPU %ld), slab %ld, vmalloc %ld KiB\n", last_kib,
		       per_cpu_kib(), memory_kib("Slab"), memory_kib("VmallocUsed"));
	}
	check(first_kib - last_kib < 1024, "free memory: %ld KiB, then %ld KiB", first_kib,
	      last_kib);
}
