// SPDX-License-Identifier: GPL-2.0
/*
 * Fathom kernel devices: the master sends and the slave receives over TCP, from and into user
 * buffers or mapped pages. uapi/fathom.h describes the interface.
 */
#include <linux/capability.h>
#include <linux/jiffies.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>

#include "session.h"

static unsigned int default_timeout_ms = 30000;
module_param(default_timeout_ms, uint, 0644);
MODULE_PARM_DESC(default_timeout_ms, "Time-out of calls that name none, at most 600000");

static int fail_nth;
module_param(fail_nth, int, 0600);
MODULE_PARM_DESC(fail_nth, "For tests: the n-th allocation from now on fails; 0: none");

/* Whether an allocation is to fail. Concurrent callers can skip a count: it is for tests. */
bool fathom_fails(void)
{
	int left = READ_ONCE(fail_nth);

	if (likely(left <= 0))
		return false;
	WRITE_ONCE(fail_nth, left - 1);
	return left == 1;
}

static u32 fathom_default_timeout_ms(void)
{
	return clamp(READ_ONCE(default_timeout_ms), 1U, FATHOM_TIMEOUT_MS_MAX + 0U);
}

int fathom_deadline(u32 timeout_ms, unsigned long *deadline)
{
	if (timeout_ms > FATHOM_TIMEOUT_MS_MAX)
		return -EINVAL;
	*deadline = jiffies + msecs_to_jiffies(timeout_ms ?: fathom_default_timeout_ms());
	return 0;
}

int fathom_lock(struct fathom_session *s, bool nonblocking)
{
	if (nonblocking)
		return mutex_trylock(&s->lock) ? 0 : -EAGAIN;
	return mutex_lock_interruptible(&s->lock);
}

static int fathom_hello(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	struct fathom_hello *hello = &arg->hello;

	if (hello->version != FATHOM_VERSION || hello->struct_bytes != FATHOM_STRUCT_BYTES)
		return -EPROTO;
	if (hello->reserved)
		return -EINVAL;
	hello->role = s->role;
	hello->page_bytes = PAGE_SIZE;
	hello->window_pages_max = FATHOM_WINDOW_PAGES_MAX;
	hello->timeout_ms_default = fathom_default_timeout_ms();
	hello->timeout_ms_max = FATHOM_TIMEOUT_MS_MAX;
	s->hello = true;
	return 0;
}

static int fathom_stats(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	arg->stats = s->stats;
	arg->stats.window_pages = s->window_pages;
	arg->stats.mappings = atomic_read(&s->mappings);
	return 0;
}

static const struct fathom_call {
	unsigned int command;
	int (*run)(struct fathom_session *s, union fathom_argument *arg, struct file *file);
} fathom_calls[] = {
	{ FATHOM_IOC_HELLO, fathom_hello },
	{ FATHOM_IOC_LISTEN, fathom_listen },
	{ FATHOM_IOC_ACCEPT, fathom_accept },
	{ FATHOM_IOC_CONNECT, fathom_connect },
	{ FATHOM_IOC_ATTACH, fathom_attach },
	{ FATHOM_IOC_DETACH, fathom_detach },
	{ FATHOM_IOC_FRAME, fathom_frame },
	{ FATHOM_IOC_WINDOW, fathom_window },
	{ FATHOM_IOC_SEND, fathom_send },
	{ FATHOM_IOC_RECEIVE, fathom_receive },
	{ FATHOM_IOC_FINISH, fathom_finish },
	{ FATHOM_IOC_PTE, fathom_pte },
	{ FATHOM_IOC_STATS, fathom_stats },
};

static long fathom_ioctl(struct file *file, unsigned int command, unsigned long address)
{
	struct fathom_session *s = file->private_data;
	void __user *user = (void __user *)address;
	union fathom_argument arg = {};
	const struct fathom_call *call;
	unsigned int nr = _IOC_NR(command);
	long result;

	if (nr >= ARRAY_SIZE(fathom_calls))
		return -ENOTTY;
	call = &fathom_calls[array_index_nospec(nr, ARRAY_SIZE(fathom_calls))];
	/* The command includes the size of the structure. */
	if (call->command != command)
		return -ENOTTY;
	if ((_IOC_DIR(command) & _IOC_WRITE) && copy_from_user(&arg, user, _IOC_SIZE(command)))
		return -EFAULT;
	result = fathom_lock(s, fathom_nonblocking(file));
	if (result)
		return result;
	if (s->hello || command == FATHOM_IOC_HELLO)
		result = call->run(s, &arg, file);
	else
		result = -EPROTO;
	mutex_unlock(&s->lock);
	if (result >= 0 && (_IOC_DIR(command) & _IOC_READ) &&
	    copy_to_user(user, &arg, _IOC_SIZE(command)))
		return -EFAULT;
	return result;
}

static int fathom_fasync(int fd, struct file *file, int on)
{
	struct fathom_session *s = file->private_data;

	return fasync_helper(fd, file, on, &s->fasync);
}

static int fathom_open(struct inode *inode, struct file *file);

static int fathom_release(struct inode *inode, struct file *file)
{
	struct fathom_session *s = file->private_data;

	fathom_unlink(&s->connection);
	fathom_unlink(&s->listener);
	vfree(s->window);
	put_net(s->net);
	kfree(s);
	return 0;
}

static const struct file_operations fathom_master_operations = {
	.owner = THIS_MODULE,
	.open = fathom_open,
	.release = fathom_release,
	.write_iter = fathom_write_iter,
	.poll = fathom_poll,
	.mmap = fathom_mmap,
	.fasync = fathom_fasync,
	.unlocked_ioctl = fathom_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static const struct file_operations fathom_slave_operations = {
	.owner = THIS_MODULE,
	.open = fathom_open,
	.release = fathom_release,
	.read_iter = fathom_read_iter,
	.poll = fathom_poll,
	.mmap = fathom_mmap,
	.fasync = fathom_fasync,
	.unlocked_ioctl = fathom_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice fathom_master = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = FATHOM_MASTER_NAME,
	.fops = &fathom_master_operations,
	.mode = 0600,
};

static struct miscdevice fathom_slave = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = FATHOM_SLAVE_NAME,
	.fops = &fathom_slave_operations,
	.mode = 0600,
};

static int fathom_open(struct inode *inode, struct file *file)
{
	struct net *net = current->nsproxy->net_ns;
	struct fathom_session *s;

	if (!ns_capable(net->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	s = fathom_fails() ? NULL : kzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);
	if (!s)
		return -ENOMEM;
	mutex_init(&s->lock);
	mutex_init(&s->window_lock);
	spin_lock_init(&s->link_lock);
	init_waitqueue_head(&s->wait);
	s->listener.session = s;
	s->connection.session = s;
	/* Until now private_data is the device. */
	s->role = file->private_data == &fathom_master ? FATHOM_ROLE_MASTER : FATHOM_ROLE_SLAVE;
	s->net = get_net(net);
	file->private_data = s;
	return stream_open(inode, file);
}

static int __init fathom_init(void)
{
	int result = misc_register(&fathom_master);

	if (result)
		return result;
	result = fathom_fails() ? -ENOMEM : misc_register(&fathom_slave);
	if (result)
		misc_deregister(&fathom_master);
	return result;
}
module_init(fathom_init);

static void __exit fathom_exit(void)
{
	misc_deregister(&fathom_slave);
	misc_deregister(&fathom_master);
}
module_exit(fathom_exit);

MODULE_AUTHOR("The Fathom authors");
MODULE_DESCRIPTION("Devices that send and receive files over TCP, for measurements");
MODULE_LICENSE("GPL");
