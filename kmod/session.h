/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FATHOM_SESSION_H
#define FATHOM_SESSION_H

#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "fathom.h"

struct fathom_session;

/**
 * struct fathom_link - a socket of a session
 * @file: the socket's file, or NULL; own sockets have one too, so that all are counted alike
 * @session: owner
 * @entry: passes wake-ups of the socket on to the session
 */
struct fathom_link {
	struct file *file;
	struct fathom_session *session;
	wait_queue_entry_t entry;
};

/**
 * struct fathom_session - an open file of one of the devices
 * @lock: one call at a time; held while it waits. Taken before mmap_lock, since data are copied to
 *        and from user memory under it
 * @window_lock: allocation of the window; taken within mmap_lock
 * @link_lock: the files of both links, for poll, which must not wait for @lock
 * @wait: calls that wait, and pollers
 * @fasync: receivers of SIGIO
 * @net: network namespace of the opener
 * @role: device
 * @hello: the program has the same version of the interface
 * @listener: socket of LISTEN
 * @connection: socket of CONNECT, ACCEPT or ATTACH
 * @framed: the connection carries frames
 * @frame_left: bytes outstanding in the current frame
 * @head: length of the next frame, as far as it was moved
 * @head_done: bytes of @head that were moved
 * @window: kernel address of the window, or NULL
 * @window_pages: size of it
 * @mappings: number of its mappings
 * @stats: counters
 */
struct fathom_session {
	struct mutex lock; /* calls */
	struct mutex window_lock; /* window, window_pages */
	spinlock_t link_lock; /* files of the links */
	wait_queue_head_t wait;
	struct fasync_struct *fasync;
	struct net *net;
	enum fathom_role role;
	bool hello;
	struct fathom_link listener;
	struct fathom_link connection;
	bool framed;
	u64 frame_left;
	__be64 head;
	unsigned int head_done;
	void *window;
	u32 window_pages;
	atomic_t mappings;
	struct fathom_stats stats;
};

/* Arguments of all ioctls. */
union fathom_argument {
	struct fathom_hello hello;
	struct fathom_endpoint endpoint;
	struct fathom_attach attach;
	struct fathom_frame frame;
	struct fathom_window window;
	struct fathom_transfer transfer;
	struct fathom_finish finish;
	struct fathom_pte pte;
	struct fathom_stats stats;
};

static inline bool fathom_nonblocking(const struct file *file)
{
	return file->f_flags & O_NONBLOCK;
}

/* main.c */
bool fathom_fails(void);
int fathom_deadline(u32 timeout_ms, unsigned long *deadline);
int fathom_lock(struct fathom_session *s, bool nonblocking);

/* net.c */
__poll_t fathom_poll(struct file *file, struct poll_table_struct *table);
int fathom_wait(struct fathom_session *s, struct file *socket, __poll_t events,
		unsigned long deadline);
void fathom_unlink(struct fathom_link *link);
int fathom_listen(struct fathom_session *s, union fathom_argument *arg, struct file *file);
int fathom_accept(struct fathom_session *s, union fathom_argument *arg, struct file *file);
int fathom_connect(struct fathom_session *s, union fathom_argument *arg, struct file *file);
int fathom_attach(struct fathom_session *s, union fathom_argument *arg, struct file *file);
int fathom_detach(struct fathom_session *s, union fathom_argument *arg, struct file *file);
int fathom_finish(struct fathom_session *s, union fathom_argument *arg, struct file *file);

/* transfer.c */
ssize_t fathom_read_iter(struct kiocb *iocb, struct iov_iter *to);
ssize_t fathom_write_iter(struct kiocb *iocb, struct iov_iter *from);
int fathom_frame(struct fathom_session *s, union fathom_argument *arg, struct file *file);
int fathom_send(struct fathom_session *s, union fathom_argument *arg, struct file *file);
int fathom_receive(struct fathom_session *s, union fathom_argument *arg, struct file *file);

/* window.c */
int fathom_mmap(struct file *file, struct vm_area_struct *vma);
int fathom_window(struct fathom_session *s, union fathom_argument *arg, struct file *file);

/* pte.c */
int fathom_pte(struct fathom_session *s, union fathom_argument *arg, struct file *file);

#endif /* FATHOM_SESSION_H */
