/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between Linux 6.1 and 6.12. */
#ifndef FATHOM_COMPAT_H
#define FATHOM_COMPAT_H

#include <linux/mm.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_mod(struct vm_area_struct *vma, unsigned long set,
				unsigned long clear)
{
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
}
#endif

#endif /* FATHOM_COMPAT_H */
