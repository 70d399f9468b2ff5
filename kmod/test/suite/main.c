// SPDX-License-Identifier: GPL-2.0
/* Tests of the kernel devices; runs as init's child in a machine of its own. */
#include "check.h"

static const struct {
	const char *name;
	void (*run)(void);
} groups[] = {
	{"arguments", test_arguments}, {"transfers", test_transfers}, {"waits", test_waits},
	{"peers", test_peers},	       {"network", test_network},     {"pages", test_pages},
	{"faults", test_faults},       {"fuzz", test_fuzz},
};

int main(int count, char **words)
{
	int sockets = sockets_in_use();
	int seconds;

	if (count == 2 && sscanf(words[1], "soak=%d", &seconds) == 1) {
		soak(seconds);
		return 0;
	}
	stop_at_failure = count == 2 && !strcmp(words[1], "first");
	for (size_t i = 0; i < COUNT(groups); i++) {
		uint64_t start_ms = now_ms();

		printf("# %s\n", groups[i].name);
		groups[i].run();
		check(allocations(true) == 0, "%s: nothing stays allocated", groups[i].name);
		check(sockets_in_use() == sockets, "%s: no socket stays", groups[i].name);
		printf("# %s: %llu ms\n", groups[i].name,
		       (unsigned long long)(now_ms() - start_ms));
	}
	return 0;
}
