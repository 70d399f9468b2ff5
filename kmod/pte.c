// SPDX-License-Identifier: GPL-2.0
/* The page-table entry of an address of the caller. */
#include <linux/capability.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/user_namespace.h>

#include "session.h"

#ifndef CONFIG_X86_64
#error "the page-table walk and the bits of an entry are those of x86-64"
#endif

/*
 * All levels of an x86-64 page table have the same layout. As in get_user_pages_fast(), entries are
 * read without locks: with interrupts disabled no table is freed, since that waits for all CPUs.
 * mmap_lock alone does not prevent it: khugepaged frees tables without.
 */
static void fathom_walk(struct mm_struct *mm, struct fathom_pte *pte)
{
	pte_t *table = (pte_t *)mm->pgd;
	unsigned long flags;
	u32 level = pte->levels;
	u32 shift;
	u32 index;

	local_irq_save(flags);
	for (;; level--) {
		shift = PAGE_SHIFT + (level - 1) * 9;
		index = (pte->address >> shift) & (PTRS_PER_PTE - 1);
		pte->entry = pte_val(READ_ONCE(table[index]));
		if (level == 1 || !(pte->entry & _PAGE_PRESENT) || (pte->entry & _PAGE_PSE))
			break;
		table = __va(pte->entry & PTE_PFN_MASK);
	}
	local_irq_restore(flags);
	pte->level = level;
	pte->page_bytes = 1ULL << shift;
}

static u32 fathom_pte_flags(const struct fathom_pte *found)
{
	pte_t pte = __pte(found->entry);
	u32 flags = FATHOM_PTE_MAPPED;

	if (found->entry & _PAGE_PRESENT)
		flags |= FATHOM_PTE_PRESENT;
	if (pte_write(pte))
		flags |= FATHOM_PTE_WRITE;
	if (pte_dirty(pte))
		flags |= FATHOM_PTE_DIRTY;
	if (pte_young(pte))
		flags |= FATHOM_PTE_ACCESSED;
	if (found->level == 1 || (found->entry & _PAGE_PSE))
		flags |= FATHOM_PTE_LEAF;
	return flags;
}

int fathom_pte(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	struct mm_struct *mm = current->mm;
	struct fathom_pte *pte = &arg->pte;

	if (pte->reserved)
		return -EINVAL;
	/* The kernel's half of the table is none of the caller's memory. */
	if (!mm || pte->address >= TASK_SIZE_MAX)
		return -EFAULT;
	pte->entry = 0;
	pte->page_bytes = 0;
	pte->level = 0;
	pte->flags = 0;
	pte->levels = pgtable_l5_enabled() ? 5 : 4;
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	/* Tables outside of mappings may be freed under a read lock. */
	if (vma_lookup(mm, pte->address)) {
		fathom_walk(mm, pte);
		pte->flags = fathom_pte_flags(pte);
	}
	mmap_read_unlock(mm);
	if (file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN) && capable(CAP_SYS_ADMIN))
		pte->flags |= FATHOM_PTE_FRAME;
	else if (pte->flags & FATHOM_PTE_PRESENT)
		pte->entry &= ~PTE_PFN_MASK;
	else
		pte->entry = 0;
	return 0;
}
