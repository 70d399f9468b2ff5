// SPDX-License-Identifier: GPL-2.0
/* The window of a session: kernel pages that a program maps. */
#include <linux/vmalloc.h>

#include "compat.h"
#include "session.h"

static void fathom_vma_open(struct vm_area_struct *vma)
{
	struct fathom_session *s = vma->vm_private_data;

	atomic_inc(&s->mappings);
}

static void fathom_vma_close(struct vm_area_struct *vma)
{
	struct fathom_session *s = vma->vm_private_data;

	atomic_dec(&s->mappings);
}

static const struct vm_operations_struct fathom_vma_operations = {
	.open = fathom_vma_open,
	.close = fathom_vma_close,
};

static int fathom_map(struct fathom_session *s, struct vm_area_struct *vma)
{
	unsigned long pages = vma_pages(vma);
	unsigned long i;

	if (!s->window)
		return -ENXIO;
	if (vma->vm_pgoff > s->window_pages || pages > s->window_pages - vma->vm_pgoff)
		return -EINVAL;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	for (i = 0; i < pages; i++) {
		void *page = s->window + ((vma->vm_pgoff + i) << PAGE_SHIFT);
		int result = -ENOMEM;

		if (!fathom_fails())
			result = vm_insert_page(vma, vma->vm_start + (i << PAGE_SHIFT),
						vmalloc_to_page(page));
		/* The caller unmaps what was inserted. */
		if (result)
			return result;
	}
	vma->vm_private_data = s;
	vma->vm_ops = &fathom_vma_operations;
	atomic_inc(&s->mappings);
	return 0;
}

int fathom_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct fathom_session *s = file->private_data;
	int result;

	/* A private mapping would copy pages on write, and nothing would be sent. */
	if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_EXEC))
		return -EINVAL;
	mutex_lock(&s->window_lock);
	result = fathom_map(s, vma);
	mutex_unlock(&s->window_lock);
	return result;
}

int fathom_window(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	u32 pages = arg->window.pages;
	void *window = NULL;
	int result = 0;

	if (arg->window.reserved || pages > FATHOM_WINDOW_PAGES_MAX)
		return -EINVAL;
	if (pages) {
		/* Charged to the memory cgroup of the caller, which vmalloc_user() is not. */
		if (!fathom_fails())
			window = __vmalloc((unsigned long)pages << PAGE_SHIFT,
					   GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!window)
			return -ENOMEM;
	}
	mutex_lock(&s->window_lock);
	if (atomic_read(&s->mappings)) {
		result = -EBUSY;
	} else {
		swap(s->window, window);
		s->window_pages = pages;
	}
	mutex_unlock(&s->window_lock);
	vfree(window);
	return result;
}
