// SPDX-License-Identifier: GPL-2.0
/* Mappings of the window, and page-table entries, compared with /proc/self/pagemap. */
#include "check.h"

#include <pthread.h>

#define HUGE (2U << 20)
#define FRAME_MASK 0xffffffffff000ULL

static int fd = -1;

static struct fathom_pte entry_of(const void *address)
{
	struct fathom_pte pte = {.address = (uintptr_t)address};

	must(ioctl(fd, FATHOM_IOC_PTE, &pte) == 0);
	return pte;
}

/* Physical address of the page by pagemap; 0 if not present. */
static uint64_t frame_by_pagemap(const void *address)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	must(pread(pagemap, &entry, 8, (uintptr_t)address / PAGE * 8) == 8);
	close(pagemap);
	return entry >> 63 ? (entry & ((1ULL << 55) - 1)) * PAGE : 0;
}

static bool agrees(const struct fathom_pte *pte, const void *address)
{
	uint64_t frame = pte->entry & FRAME_MASK & ~(pte->page_bytes - 1);

	frame += ((uintptr_t)address & (pte->page_bytes - 1)) & ~(PAGE - 1ULL);
	return frame && frame == frame_by_pagemap(address);
}

static void *anonymous(size_t bytes, int protection)
{
	void *found = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(found != MAP_FAILED);
	madvise(found, bytes, MADV_NOHUGEPAGE);
	return found;
}

static void entries_of_small_pages(void)
{
	volatile uint8_t *page = anonymous(16 * PAGE, PROT_READ | PROT_WRITE);
	uint32_t read_flags = FATHOM_PTE_MAPPED | FATHOM_PTE_PRESENT | FATHOM_PTE_ACCESSED |
			      FATHOM_PTE_LEAF | FATHOM_PTE_FRAME;
	struct fathom_pte pte = entry_of((void *)page);
	int agreed = 0;

	check(!(pte.flags & FATHOM_PTE_PRESENT) && (pte.flags & FATHOM_PTE_MAPPED),
	      "a page never touched is not present");
	(void)page[0];
	pte = entry_of((void *)page);
	check(pte.flags == read_flags && pte.level == 1, "a read page: present, accessed");
	page[0] = 1;
	pte = entry_of((void *)page);
	check(pte.flags == (read_flags | FATHOM_PTE_WRITE | FATHOM_PTE_DIRTY),
	      "a written page: writable, dirty: %#x", pte.flags);
	check(pte.page_bytes == PAGE && pte.level == 1, "4 KiB at level 1");
	check((pte.entry & 0x67) == 0x67, "raw bits: present, write, user, accessed, dirty");
	check(pte.levels == 4 || pte.levels == 5, "%u levels", pte.levels);
	check(agrees(&pte, (void *)page), "frame number as in pagemap");
	for (int i = 0; i < 16; i++) {
		page[i * PAGE + i] = 1;
		pte = entry_of((uint8_t *)page + i * PAGE + i);
		agreed += agrees(&pte, (uint8_t *)page + i * PAGE + i);
	}
	check(agreed == 16, "frame numbers of 16 pages as in pagemap");
	must(mprotect((void *)page, PAGE, PROT_READ) == 0);
	pte = entry_of((void *)page);
	check((pte.flags & FATHOM_PTE_PRESENT) && !(pte.flags & FATHOM_PTE_WRITE),
	      "read-only after mprotect");
	must(mprotect((void *)page, PAGE, PROT_NONE) == 0);
	pte = entry_of((void *)page);
	check(!(pte.flags & FATHOM_PTE_PRESENT) && pte.entry, "PROT_NONE: not present");
	must(madvise((uint8_t *)page + PAGE, PAGE, MADV_DONTNEED) == 0);
	pte = entry_of((uint8_t *)page + PAGE);
	check(!(pte.flags & FATHOM_PTE_PRESENT) && !pte.entry, "MADV_DONTNEED: no entry");
	munmap((void *)page, 16 * PAGE);
	pte = entry_of((void *)page);
	check(pte.flags == FATHOM_PTE_FRAME && !pte.entry && !pte.level, "unmapped: no entry");
}

static void entries_of_other_mappings(void)
{
	struct fathom_pte pte = {.address = 0xffff888000000000ULL};
	uint8_t *window;
	int slave = device(SLAVE, 0);

	check_error(ioctl(fd, FATHOM_IOC_PTE, &pte), EFAULT, "an address of the kernel");
	pte.address = 0xffffffffff600000ULL;
	check_error(ioctl(fd, FATHOM_IOC_PTE, &pte), EFAULT, "the vsyscall page");
	pte.address = 1ULL << 63;
	check_error(ioctl(fd, FATHOM_IOC_PTE, &pte), EFAULT, "an address that is not canonical");
	pte = entry_of(NULL);
	check(!(pte.flags & FATHOM_PTE_MAPPED), "address 0");
	pte = entry_of((void *)entry_of);
	check((pte.flags & FATHOM_PTE_PRESENT) && !(pte.flags & FATHOM_PTE_WRITE) &&
		      !(pte.entry >> 63),
	      "code: read-only, executable");
	pte = entry_of(&pte);
	check((pte.flags & FATHOM_PTE_DIRTY) && (pte.entry >> 63), "stack: dirty, not executable");
	window = map_window(slave, 16);
	must(window != MAP_FAILED);
	window[5 * PAGE] = 1;
	pte = entry_of(window + 5 * PAGE);
	check((pte.flags & FATHOM_PTE_PRESENT) && agrees(&pte, window + 5 * PAGE),
	      "a page of the window: frame number as in pagemap");
	munmap(window, 16 * PAGE);
	close(slave);
}

static void entries_of_huge_pages(void)
{
	uint8_t *area = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	uint8_t *huge = (uint8_t *)(((uintptr_t)area + HUGE - 1) & ~(HUGE - 1UL));
	struct fathom_pte pte;

	must(area != MAP_FAILED && madvise(area, 2 * HUGE, MADV_HUGEPAGE) == 0);
	huge[12345] = 1;
	pte = entry_of(huge + 777777);
	check(pte.level == 2 && pte.page_bytes == HUGE, "2 MiB at level 2");
	check((pte.flags & FATHOM_PTE_LEAF) && (pte.flags & FATHOM_PTE_DIRTY), "a huge page: leaf");
	check(agrees(&pte, huge + 777777), "frame number of a huge page as in pagemap");
	must(mprotect(huge, HUGE, PROT_NONE) == 0);
	pte = entry_of(huge);
	check(pte.level == 2 && !(pte.flags & FATHOM_PTE_PRESENT), "PROT_NONE, huge: not present");
	must(mprotect(huge, HUGE, PROT_READ | PROT_WRITE) == 0);
	must(munmap(huge, PAGE) == 0);
	pte = entry_of(huge + PAGE);
	check(pte.level == 1 && (pte.flags & FATHOM_PTE_PRESENT), "a split huge page: level 1");
	munmap(area, 2 * HUGE);
}

static volatile bool stop;

static void *map_and_unmap(void *argument)
{
	(void)argument;
	while (!stop) {
		uint8_t *area = mmap((void *)0x600000000000, 2 * HUGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		for (size_t i = 0; i < 2 * HUGE; i += 64 * PAGE)
			area[i] = 1;
		munmap(area, 2 * HUGE);
	}
	return NULL;
}

static void entries_while_tables_are_freed(void)
{
	uint64_t end_ms = now_ms() + 1500;
	pthread_t thread;
	int present = 0;
	int absent = 0;
	int wrong = 0;

	must(pthread_create(&thread, NULL, map_and_unmap, NULL) == 0);
	while (now_ms() < end_ms || (!present && now_ms() < end_ms + 5000)) {
		for (size_t i = 0; i < 2 * HUGE; i += 16 * PAGE) {
			struct fathom_pte pte = entry_of((uint8_t *)0x600000000000 + i);

			if (pte.flags & FATHOM_PTE_PRESENT)
				present++;
			else
				absent++;
			wrong += pte.flags & FATHOM_PTE_MAPPED ? pte.level < 1 || pte.level > 5 :
								 pte.level != 0;
		}
	}
	stop = true;
	pthread_join(thread, NULL);
	check(present && absent && !wrong, "walks while tables are freed: %d present, %d not",
	      present, absent);
}

static void sizes_of_windows(void)
{
	struct fathom_window window = {.pages = FATHOM_WINDOW_PAGES_MAX + 1};
	int slave = device(SLAVE, 0);
	uint8_t *mapped;

	check_error((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, slave, 0), ENXIO,
		    "mmap without a window");
	check_error(ioctl(slave, FATHOM_IOC_WINDOW, &window), EINVAL, "a window above 16 MiB");
	mapped = map_window(slave, FATHOM_WINDOW_PAGES_MAX);
	check(mapped != MAP_FAILED, "a window of 16 MiB");
	must(mapped != MAP_FAILED);
	check(mapped[0] == 0 && mapped[(16U << 20) - 1] == 0, "a new window is zero");
	memset(mapped, 1, 16U << 20);
	check(stats(slave).window_pages == FATHOM_WINDOW_PAGES_MAX && stats(slave).mappings == 1,
	      "window and mapping in the statistics");
	window.pages = 1;
	check_error(ioctl(slave, FATHOM_IOC_WINDOW, &window), EBUSY, "WINDOW while mapped");
	must(munmap(mapped + PAGE, PAGE) == 0);
	check(stats(slave).mappings == 2, "a hole makes two mappings");
	check_error(ioctl(slave, FATHOM_IOC_WINDOW, &window), EBUSY, "WINDOW with parts mapped");
	must(munmap(mapped, 16U << 20) == 0);
	check(stats(slave).mappings == 0, "no mapping after munmap");
	check(ioctl(slave, FATHOM_IOC_WINDOW, &window) == 0, "a smaller window");
	mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, slave, 0);
	check(mapped != MAP_FAILED && mapped[0] == 0 && mapped[PAGE - 1] == 0,
	      "a window allocated anew is zero");
	munmap(mapped, PAGE);
	window.pages = 0;
	check(ioctl(slave, FATHOM_IOC_WINDOW, &window) == 0, "freeing the window");
	check_error((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, slave, 0), ENXIO,
		    "mmap after that");
	close(slave);
}

static int write_to_window(void *argument)
{
	((uint8_t *)argument)[3] = 33;
	return 0;
}

static void kinds_of_mappings(void)
{
	int slave = device(SLAVE, 0);
	uint8_t *mapped = map_window(slave, 16);
	uint8_t *second;

	must(mapped != MAP_FAILED);
	check_error((long)mmap(NULL, 17 * PAGE, PROT_READ, MAP_SHARED, slave, 0), EINVAL,
		    "a mapping larger than the window");
	check_error((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, slave, 16 * PAGE), EINVAL,
		    "a mapping after the window");
	check_error((long)mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, slave, 15 * PAGE), EINVAL,
		    "a mapping across the end of the window");
	check_error((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, slave, 1L << 50), EINVAL,
		    "a mapping at a large offset");
	check_error((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, slave, 0), EINVAL,
		    "a private mapping");
	check_error((long)mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, slave, 0), EINVAL,
		    "an executable mapping");
	check_error(mprotect(mapped, PAGE, PROT_READ | PROT_EXEC), EACCES,
		    "a mapping made executable");
	check_error((long)mremap(mapped, 16 * PAGE, 32 * PAGE, MREMAP_MAYMOVE), EFAULT,
		    "a mapping made larger");
	second = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, slave, 7 * PAGE);
	must(second != MAP_FAILED);
	mapped[7 * PAGE + 5] = 55;
	check(second[5] == 55, "a second mapping at an offset shows the same page");
	check(joined(child(write_to_window, mapped)) && mapped[3] == 33,
	      "a child shares the window");
	check(stats(slave).mappings == 2, "mappings of a child are gone");
	close(slave);
	mapped[9] = 9;
	check(mapped[9] == 9 && second[5] == 55, "mappings outlive the file");
	munmap(second, PAGE);
	munmap(mapped, 16 * PAGE);
}

void test_pages(void)
{
	fd = device(MASTER, 0);
	sizes_of_windows();
	kinds_of_mappings();
	entries_of_small_pages();
	entries_of_other_mappings();
	entries_of_huge_pages();
	entries_while_tables_are_freed();
	close(fd);
}
